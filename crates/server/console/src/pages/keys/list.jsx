// Lists: by index, a page at a time.
import { useState } from 'preact/hooks';
import { Bytes, Card, Loaded, Table } from '../../ui/basics.jsx';
import { attempt, confirm } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { useLoad } from '../../ui/hooks.js';
import { Pager, pageSize } from '../../ui/paging.jsx';
import { display, equal } from '../../resp/text.js';
import { changeIfSame } from '../../server/edit.js';
import { send } from '../../server/session.js';
import { RowActions } from './row-actions.jsx';

export function ListValue({ name, meta, onChanged }) {
  const size = pageSize(meta.size, meta.length);
  const [offset, setOffset] = useState(0);
  const [dialog, setDialog] = useState(null);
  const start = Math.min(offset, Math.max(0, Math.floor((meta.length - 1) / size) * size));
  const page = useLoad(() => send('LRANGE', name, start, start + size - 1), [name, meta, start, size]);
  const isSame = (row) => (now) => now !== null && equal(now, row.value);
  const remove = async (row) => {
    if (!await confirm({ title: 'Delete element', text: `Element ${row.index}, ${display(row.value).slice(0, 80)}, is removed from the list.`, action: 'Delete', danger: true })) return;
    // The element is marked by a value that no other element has, and removed by it.
    const mark = crypto.getRandomValues(new Uint8Array(24));
    await attempt(() => changeIfSame(name, ['LINDEX', name, row.index], isSame(row), [['LSET', name, row.index, mark], ['LREM', name, 1, mark]]), 'Deleted.');
    onChanged();
  };
  return <Card title="Elements" actions={<button type="button" onClick={() => setDialog({ kind: 'push' })}>Add</button>}>
    <Loaded state={page} what="LRANGE">{(values) => <Table label="Elements" rows={values.map((value, at) => ({ value, index: start + at }))} rowKey={({ index }) => index} columns={[
      { name: 'Index', cell: ({ index }) => index, class: 'number narrow' },
      { name: 'Value', cell: ({ value }) => <Bytes value={value} />, class: 'wide-cell' },
      { name: '', cell: (row) => <RowActions edit={() => setDialog({ kind: 'set', row })} remove={() => remove(row)} what={`element ${row.index}`} />, class: 'row-actions' },
    ]} />}</Loaded>
    <Pager offset={start} size={size} total={meta.length} onChange={setOffset} />
    {dialog?.kind === 'push' && <Push name={name} onClose={() => setDialog(null)} onChanged={onChanged} />}
    {dialog?.kind === 'set' && <FormDialog title={`Element ${dialog.row.index}`} onClose={() => setDialog(null)} fields={[{ name: 'value', label: 'Value', kind: 'bytes', initial: dialog.row.value, rows: 6 }]}
      submit={async ({ value }) => {
        await changeIfSame(name, ['LINDEX', name, dialog.row.index], isSame(dialog.row), [['LSET', name, dialog.row.index, value]]);
        onChanged();
      }} />}
  </Card>;
}

function Push({ name, onClose, onChanged }) {
  return <FormDialog title="Add element" action="Add" onClose={onClose} fields={[
    { name: 'value', label: 'Value', kind: 'bytes', rows: 3 },
    { name: 'end', label: 'Where', kind: 'select', initial: 'RPUSH', options: [['RPUSH', 'at the end'], ['LPUSH', 'at the beginning']] },
  ]} submit={async ({ value, end }) => { await send(end, name, value); onChanged(); }} />;
}
