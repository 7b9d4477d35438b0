// Sketches: figures, and questions about single items.
import { useState } from 'preact/hooks';
import { Bytes, Card, Loaded, Stat, Stats, Table } from '../../ui/basics.jsx';
import { notify } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { useLoad } from '../../ui/hooks.js';
import { exact } from '../../ui/numbers.js';
import { toObject } from '../../resp/codec.js';
import { display } from '../../resp/text.js';
import { send } from '../../server/session.js';

function Sketch({ name, meta, title, command, actions }) {
  const [action, setAction] = useState(null);
  const info = useLoad(async () => toObject(await send(command, name)), [name, meta]);
  return <Card title={title} actions={actions.map((item) => <button key={item.title} type="button" onClick={() => setAction(item)}>{item.title}</button>)}>
    <Loaded state={info} what={command}>{(data) => <Stats>{Object.entries(data).map(([label, value]) => <Stat key={label} label={label} value={typeof value === 'number' ? exact(value) : display(value)} />)}</Stats>}</Loaded>
    {action && <FormDialog title={action.title} action={action.title} onClose={() => setAction(null)} fields={action.fields} submit={action.submit} />}
  </Card>;
}

const item = { name: 'item', label: 'Item', kind: 'bytes' };

/** A filter whose commands begin with `family`. */
function FilterValue({ name, meta, onChanged, title, family, more = [] }) {
  return <Sketch name={name} meta={meta} title={title} command={`${family}.INFO`} actions={[
    { title: 'Ask', fields: [item], submit: async ({ item: value }) => notify(`${display(value)}: ${Number(await send(`${family}.EXISTS`, name, value)) ? 'probably added' : 'not in the filter'}`) },
    { title: 'Add', fields: [item], submit: async ({ item: value }) => { await send(`${family}.ADD`, name, value); onChanged(); } },
    ...more,
  ]} />;
}

export const BloomValue = (props) => <FilterValue {...props} title="Bloom filter" family="BF" />;

export const CuckooValue = (props) => <FilterValue {...props} title="Cuckoo filter" family="CF" more={[
  { title: 'Remove', fields: [item], submit: async ({ item: value }) => {
    if (!Number(await send('CF.DEL', props.name, value))) throw new Error('The item is not in the filter.');
    props.onChanged();
  } },
]} />;

export function CountMinValue({ name, meta, onChanged }) {
  return <Sketch name={name} meta={meta} title="Count-min sketch" command="CMS.INFO" actions={[
    { title: 'Ask', fields: [item], submit: async ({ item: value }) => notify(`${display(value)}: at most ${exact((await send('CMS.QUERY', name, value))[0])}`) },
    { title: 'Add', fields: [item, { name: 'number', label: 'Increment', kind: 'number', initial: '1' }], submit: async ({ item: value, number }) => { await send('CMS.INCRBY', name, value, number); onChanged(); } },
  ]} />;
}

export function TopKValue({ name, meta, onChanged }) {
  const list = useLoad(async () => {
    const reply = await send('TOPK.LIST', name, 'WITHCOUNT');
    return Array.from({ length: reply.length / 2 }, (_, at) => ({ item: reply[2 * at], count: reply[2 * at + 1] }));
  }, [name, meta]);
  return <>
    <Sketch name={name} meta={meta} title="Top-k" command="TOPK.INFO" actions={[
      { title: 'Add', fields: [item, { name: 'number', label: 'Increment', kind: 'number', initial: '1' }], submit: async ({ item: value, number }) => { await send('TOPK.INCRBY', name, value, number); onChanged(); } },
    ]} />
    <Card title="Most frequent items"><Loaded state={list} what="TOPK.LIST">{(rows) => <Table label="Most frequent items" rows={rows} rowKey={({ item: value }) => display(value)} empty="No item yet." columns={[
      { name: 'Item', cell: ({ item: value }) => <Bytes value={value} max={200} />, class: 'wide-cell' },
      { name: 'Count', cell: ({ count }) => exact(count), class: 'number', sort: ({ count }) => count },
    ]} />}</Loaded></Card>
  </>;
}

const QUANTILES = [0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1];

export function DigestValue({ name, meta, onChanged }) {
  const quantiles = useLoad(async () => (await send('TDIGEST.QUANTILE', name, ...QUANTILES)).map((value, at) => ({ quantile: QUANTILES[at], value })), [name, meta]);
  const value = { name: 'value', label: 'Value', kind: 'number' };
  return <>
    <Sketch name={name} meta={meta} title="t-digest" command="TDIGEST.INFO" actions={[
      { title: 'Ask', fields: [value], submit: async (form) => notify(`${form.value}: at or above ${(100 * Number((await send('TDIGEST.CDF', name, form.value))[0])).toFixed(2)} % of the values`) },
      { title: 'Add', fields: [value], submit: async (form) => { await send('TDIGEST.ADD', name, form.value); onChanged(); } },
    ]} />
    <Card title="Quantiles"><Loaded state={quantiles} what="TDIGEST.QUANTILE">{(rows) => <Table label="Quantiles" rows={rows} rowKey={({ quantile }) => quantile} columns={[
      { name: 'Quantile', cell: ({ quantile }) => String(quantile), class: 'number' },
      { name: 'Value', cell: (row) => (Number.isNaN(Number(row.value)) ? '' : display(row.value)), class: 'number' },
    ]} />}</Loaded></Card>
  </>;
}
