// Sorted sets: by rank, or by pattern with ZSCAN.
import { useState } from 'preact/hooks';
import { Bytes, Card, Loaded, Problem, Select, Table } from '../../ui/basics.jsx';
import { attempt, confirm } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { useLoad } from '../../ui/hooks.js';
import { More, Pager, pageSize, useCursor } from '../../ui/paging.jsx';
import { display, toPath, toText } from '../../resp/text.js';
import { isEnd } from '../../server/scan.js';
import { send } from '../../server/session.js';
import { scanElements } from './elements.js';
import { Filter } from './filter.jsx';
import { RowActions } from './row-actions.jsx';

export function SortedSetValue({ name, meta, onChanged }) {
  const [pattern, setPattern] = useState('');
  const [order, setOrder] = useState('ascending');
  const [dialog, setDialog] = useState(null);
  const remove = async ({ member }) => {
    if (!await confirm({ title: 'Delete member', text: `${display(member).slice(0, 80)} is removed from the sorted set.`, action: 'Delete', danger: true })) return;
    await attempt(() => send('ZREM', name, member), 'Deleted.');
    onChanged();
  };
  const View = pattern === '' ? ByRank : ByPattern;
  return <Card title="Members" actions={<>
    <Filter onChange={setPattern} label="Pattern of members" />
    {pattern === '' && <Select label="Order" value={order} options={['ascending', 'descending']} onChange={setOrder} />}
    <button type="button" onClick={() => setDialog({})}>Add</button>
  </>}>
    <View name={name} meta={meta} pattern={pattern} order={order} edit={(row) => setDialog({ row })} remove={remove} />
    {dialog && <MemberDialog name={name} row={dialog.row} onClose={() => setDialog(null)} onChanged={onChanged} />}
  </Card>;
}

function ByRank({ name, meta, order, edit, remove }) {
  const size = pageSize(meta.size, meta.length);
  const [offset, setOffset] = useState(0);
  const start = Math.min(offset, Math.max(0, Math.floor((meta.length - 1) / size) * size));
  const reverse = order === 'descending' ? ['REV'] : [];
  const page = useLoad(() => send('ZRANGE', name, start, start + size - 1, ...reverse, 'WITHSCORES'), [name, meta, start, size, order]);
  return <>
    <Loaded state={page} what="ZRANGE">{(pairs) => <Members rows={pairs.map(([member, score], at) => ({ member, score, rank: start + at }))} edit={edit} remove={remove} />}</Loaded>
    <Pager offset={start} size={size} total={meta.length} onChange={setOffset} />
  </>;
}

function ByPattern({ name, meta, pattern, edit, remove }) {
  const walk = useCursor(async ({ cursor, isStale }) => {
    const { elements, cursor: next } = await scanElements('ZSCAN', name, { cursor, pattern, isStale });
    const rows = [];
    for (let at = 0; at + 1 < elements.length; at += 2) rows.push({ member: elements[at], score: toText(elements[at + 1]) });
    return { rows, cursor: next, done: isEnd(next) };
  }, [name, meta, pattern]);
  return <>
    <Problem error={walk.error} what="ZSCAN" />
    <Members rows={walk.rows} edit={edit} remove={remove} />
    <More walk={walk} />
  </>;
}

function Members({ rows, edit, remove }) {
  return <Table label="Members" rows={rows} rowKey={({ member }) => toPath(member)} columns={[
    { name: 'Rank', cell: ({ rank }) => rank ?? '', class: 'number narrow' },
    { name: 'Score', cell: ({ score }) => String(score), class: 'number' },
    { name: 'Member', cell: ({ member }) => <Bytes value={member} />, class: 'wide-cell' },
    { name: '', cell: (row) => <RowActions edit={() => edit(row)} remove={() => remove(row)} what={`member ${display(row.member)}`} />, class: 'row-actions' },
  ]} />;
}

function MemberDialog({ name, row, onClose, onChanged }) {
  return <FormDialog title={row ? `Score of ${display(row.member)}` : 'Add member'} onClose={onClose} fields={[
    ...(row ? [] : [{ name: 'member', label: 'Member', kind: 'bytes' }]),
    { name: 'score', label: 'Score', kind: 'number', initial: row ? String(row.score) : '0' },
  ]} submit={async ({ member = row?.member, score }) => {
    await send('ZADD', name, ...(row ? ['XX'] : []), String(score).replace('Infinity', 'inf'), member);
    onChanged();
  }} />;
}
