// Streams: entries by XRANGE, groups with their consumers and pending entries.
import { useState } from 'preact/hooks';
import { Bytes, Card, Loaded, Problem, Select, Table, Tabs } from '../../ui/basics.jsx';
import { attempt, confirm } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { useLoad } from '../../ui/hooks.js';
import { More, pageSize, useCursor } from '../../ui/paging.jsx';
import { duration, exact, time } from '../../ui/numbers.js';
import { toObject } from '../../resp/codec.js';
import { display, splitCommand, toPath, toText } from '../../resp/text.js';
import { send } from '../../server/session.js';
import { RowActions } from './row-actions.jsx';

export function StreamValue({ name, meta, onChanged }) {
  const [tab, setTab] = useState('entries');
  return <>
    <Tabs label="Parts of the stream" value={tab} onChange={setTab} tabs={[['entries', 'Entries'], ['groups', 'Groups']]} />
    {tab === 'entries' ? <Entries name={name} meta={meta} onChanged={onChanged} /> : <Groups name={name} meta={meta} onChanged={onChanged} />}
  </>;
}

function Entries({ name, meta, onChanged }) {
  const [order, setOrder] = useState('newest');
  const [adding, setAdding] = useState(false);
  const size = pageSize(meta.size, meta.length);
  const walk = useCursor(async ({ cursor }) => {
    const rows = order === 'newest'
      ? await send('XREVRANGE', name, cursor ? `(${cursor}` : '+', '-', 'COUNT', size)
      : await send('XRANGE', name, cursor ? `(${cursor}` : '-', '+', 'COUNT', size);
    return { rows: rows.map(([id, fields]) => ({ id: toText(id), fields })), cursor: rows.length > 0 ? toText(rows.at(-1)[0]) : cursor, done: rows.length < size };
  }, [name, meta, order, size]);
  const remove = async ({ id }) => {
    if (!await confirm({ title: 'Delete entry', text: `Entry ${id} is removed from the stream.`, action: 'Delete', danger: true })) return;
    await attempt(() => send('XDEL', name, id), 'Deleted.');
    onChanged();
  };
  return <Card title="Entries" actions={<><Select label="Order" value={order} onChange={setOrder} options={[['newest', 'newest first'], ['oldest', 'oldest first']]} /><button type="button" onClick={() => setAdding(true)}>Add</button></>}>
    <Problem error={walk.error} what="XRANGE" />
    <Table label="Entries" rows={walk.rows} rowKey={({ id }) => id} columns={[
      { name: 'Id', cell: ({ id }) => <span class="mono" title={time(id.split('-')[0])}>{id}</span>, class: 'nowrap' },
      { name: 'Fields', cell: ({ fields }) => <Pairs fields={fields} />, class: 'wide-cell below' },
      { name: '', cell: (row) => <RowActions remove={() => remove(row)} what={`entry ${row.id}`} />, class: 'row-actions' },
    ]} />
    <More walk={walk} total={meta.length} />
    {adding && <FormDialog title="Add entry" action="Add" onClose={() => setAdding(false)} fields={[
      { name: 'id', label: 'Id', initial: '*', hint: '* takes the next one.' },
      { name: 'pairs', label: 'Fields and values', kind: 'lines', rows: 5, hint: 'As on a command line: field value field "another value"' },
    ]} submit={async ({ id, pairs }) => { await send('XADD', name, id, ...splitPairs(pairs)); onChanged(); }} />}
  </Card>;
}

/** Splits fields and values as on a command line. */
export function splitPairs(text) {
  const words = splitCommand(text);
  if (words === null) throw new Error('Quotes are unbalanced.');
  if (words.length === 0 || words.length % 2 === 1) throw new Error('Each field needs a value.');
  return words;
}

function Pairs({ fields }) {
  const pairs = [];
  for (let at = 0; at + 1 < fields.length; at += 2) pairs.push([fields[at], fields[at + 1]]);
  return <dl class="pairs">{pairs.map(([field, value]) => <div><dt><Bytes value={field} max={60} /></dt><dd><Bytes value={value} /></dd></div>)}</dl>;
}

function Groups({ name, meta, onChanged }) {
  const [selected, setSelected] = useState(null);
  const [dialog, setDialog] = useState(null);
  const groups = useLoad(async () => (await send('XINFO', 'GROUPS', name)).map(toObject), [name, meta]);
  const remove = async (group) => {
    if (!await confirm({ title: 'Delete group', text: `Group ${display(group.name)} and its ${exact(group.pending)} pending entries are forgotten.`, action: 'Delete', danger: true })) return;
    await attempt(() => send('XGROUP', 'DESTROY', name, group.name), 'Deleted.');
    onChanged();
  };
  const chosen = groups.data?.find((group) => toPath(group.name) === selected);
  return <>
    <Card title="Groups" actions={<button type="button" onClick={() => setDialog({})}>Add</button>}>
      <Loaded state={groups} what="XINFO GROUPS">{(rows) => <Table label="Groups" rows={rows} rowKey={(group) => toPath(group.name)} selected={selected} onRow={(group) => setSelected(toPath(group.name))} empty="No consumer groups." columns={[
        { name: 'Group', cell: (group) => <button type="button" class="link"><Bytes value={group.name} /></button> },
        { name: 'Consumers', cell: (group) => exact(group.consumers), class: 'number' },
        { name: 'Pending', cell: (group) => exact(group.pending), class: 'number' },
        { name: 'Lag', cell: (group) => exact(group.lag), class: 'number' },
        { name: 'Last delivered', cell: (group) => <span class="mono">{toText(group['last-delivered-id'])}</span> },
        { name: '', cell: (group) => <RowActions edit={() => setDialog({ group })} remove={() => remove(group)} what={`group ${display(group.name)}`} />, class: 'row-actions' },
      ]} />}</Loaded>
    </Card>
    {chosen && <Group key={selected} name={name} group={chosen} onChanged={onChanged} />}
    {dialog && <FormDialog title={dialog.group ? `Position of ${display(dialog.group.name)}` : 'Add group'} onClose={() => setDialog(null)} fields={[
      ...(dialog.group ? [] : [{ name: 'group', label: 'Name', kind: 'bytes' }]),
      { name: 'id', label: 'Last delivered id', initial: dialog.group ? toText(dialog.group['last-delivered-id']) : '$', hint: '$ is the end of the stream, 0 its beginning.' },
    ]} submit={async ({ group = dialog.group?.name, id }) => { await send('XGROUP', dialog.group ? 'SETID' : 'CREATE', name, group, id); onChanged(); }} />}
  </>;
}

function Group({ name, group, onChanged }) {
  const consumers = useLoad(async () => (await send('XINFO', 'CONSUMERS', name, group.name)).map(toObject), [name, group]);
  const pending = useCursor(async ({ cursor }) => {
    const rows = await send('XPENDING', name, group.name, cursor ? `(${cursor}` : '-', '+', 100);
    return { rows: rows.map(([id, consumer, idle, deliveries]) => ({ id: toText(id), consumer, idle, deliveries })), cursor: rows.length > 0 ? toText(rows.at(-1)[0]) : cursor, done: rows.length < 100 };
  }, [name, group]);
  const acknowledge = async ({ id }) => {
    if (!await confirm({ title: 'Acknowledge entry', text: `Entry ${id} is no longer pending for group ${display(group.name)}.`, action: 'Acknowledge' })) return;
    await attempt(() => send('XACK', name, group.name, id), 'Acknowledged.');
    onChanged();
  };
  return <div class="columns">
    <Card title={`Consumers of ${display(group.name)}`}>
      <Loaded state={consumers} what="XINFO CONSUMERS">{(rows) => <Table label="Consumers" rows={rows} empty="No consumers." columns={[
        { name: 'Consumer', cell: (row) => <Bytes value={row.name} /> },
        { name: 'Pending', cell: (row) => exact(row.pending), class: 'number' },
        { name: 'Idle', cell: (row) => duration(row.idle / 1000), class: 'number' },
      ]} />}</Loaded>
    </Card>
    <Card title="Pending entries">
      <Problem error={pending.error} what="XPENDING" />
      <Table label="Pending entries" rows={pending.rows} rowKey={({ id }) => id} empty="Nothing is pending." columns={[
        { name: 'Id', cell: ({ id }) => <span class="mono">{id}</span>, class: 'nowrap' },
        { name: 'Consumer', cell: ({ consumer }) => <Bytes value={consumer} /> },
        { name: 'Idle', cell: ({ idle }) => duration(idle / 1000), class: 'number' },
        { name: 'Deliveries', cell: ({ deliveries }) => exact(deliveries), class: 'number' },
        { name: '', cell: (row) => <button type="button" class="quiet" aria-label={`Acknowledge ${row.id}`} title="Acknowledge" onClick={() => acknowledge(row)}>✓</button>, class: 'row-actions' },
      ]} />
      <More walk={pending} total={group.pending} />
    </Card>
  </div>;
}
