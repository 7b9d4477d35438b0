// Arrays: elements by ARSCAN, from any index on.
import { useState } from 'preact/hooks';
import { Bytes, Card, Problem, Table } from '../../ui/basics.jsx';
import { attempt, confirm } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { More, pageSize, useCursor } from '../../ui/paging.jsx';
import { send } from '../../server/session.js';
import { RowActions } from './row-actions.jsx';

const INDEX_MAX = 2n ** 64n - 2n;

export function ArrayValue({ name, meta, onChanged }) {
  const [from, setFrom] = useState('0');
  const [dialog, setDialog] = useState(null);
  const size = pageSize(meta.size, meta.length);
  const walk = useCursor(async ({ cursor }) => {
    const found = await send('ARSCAN', name, cursor ?? from, INDEX_MAX, 'LIMIT', size);
    const rows = found.map(([index, value]) => ({ index: BigInt(index), value }));
    const last = rows.at(-1)?.index ?? INDEX_MAX;
    return { rows, cursor: String(last + 1n), done: rows.length < size || last === INDEX_MAX };
  }, [name, meta, from, size]);
  const remove = async ({ index }) => {
    if (!await confirm({ title: 'Delete element', text: `The element at index ${index} is removed.`, action: 'Delete', danger: true })) return;
    await attempt(() => send('ARDEL', name, index), 'Deleted.');
    onChanged();
  };
  const save = async ({ index, value }) => {
    await send('ARSET', name, dialog.index ?? checkedIndex(index), value);
    onChanged();
  };
  const start = (event) => {
    event.preventDefault();
    const index = new FormData(event.currentTarget).get('from');
    setFrom(BigInt(index) > INDEX_MAX ? String(INDEX_MAX) : index);
  };
  return <Card title="Elements" actions={<>
    <form class="filter" onSubmit={start}><input name="from" inputmode="numeric" pattern="\d{1,20}" required defaultValue="0" aria-label="First index" title="First index" /><button type="submit">Show</button></form>
    <button type="button" onClick={() => setDialog({})}>Add</button>
  </>}>
    <Problem error={walk.error} what="ARSCAN" />
    <Table label="Elements" rows={walk.rows} rowKey={({ index }) => String(index)} columns={[
      { name: 'Index', cell: ({ index }) => <span class="mono">{String(index)}</span>, class: 'number' },
      { name: 'Value', cell: ({ value }) => <Bytes value={value} />, class: 'wide-cell' },
      { name: '', cell: (row) => <RowActions edit={() => setDialog(row)} remove={() => remove(row)} what={`element ${row.index}`} />, class: 'row-actions' },
    ]} />
    <More walk={walk} total={from === '0' ? meta.length : undefined} />
    {dialog && <FormDialog title={dialog.index === undefined ? 'Add element' : `Edit element ${dialog.index}`} onClose={() => setDialog(null)} submit={save} fields={[
      ...(dialog.index === undefined ? [{ name: 'index', label: 'Index', kind: 'number' }] : []),
      { name: 'value', label: 'Value', kind: 'bytes', initial: dialog.value, rows: 3 },
    ]} />}
  </Card>;
}

/** An index as ARSET takes it. */
function checkedIndex(text) {
  if (!/^\d{1,20}$/.test(text) || BigInt(text) > INDEX_MAX) throw new Error(`An index is a number from 0 to ${INDEX_MAX}.`);
  return text;
}
