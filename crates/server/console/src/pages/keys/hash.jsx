// Hashes: fields by HSCAN without values; values up to a size are then read one by one.
import { useState } from 'preact/hooks';
import { Bytes, Card, Problem, Table } from '../../ui/basics.jsx';
import { attempt, confirm } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { More, useCursor } from '../../ui/paging.jsx';
import { bytes, ttl } from '../../ui/numbers.js';
import { ReplyError } from '../../resp/codec.js';
import { display, toPath } from '../../resp/text.js';
import { isEnd } from '../../server/scan.js';
import { pipeline, send } from '../../server/session.js';
import { milliseconds } from './detail.jsx';
import { Filter } from './filter.jsx';
import { RowActions } from './row-actions.jsx';
import { scanElements } from './elements.js';

/** Bytes of a value up to which it is read with its field. */
const SHOWN = 16 * 1024;

async function fieldRows(name, fields) {
  if (fields.length === 0) return [];
  const lengths = await pipeline(fields.map((field) => ['HSTRLEN', name, field]));
  const short = fields.filter((field, at) => lengths[at] <= SHOWN);
  const replies = await pipeline([['HPTTL', name, 'FIELDS', fields.length, ...fields], ...short.map((field) => ['HGET', name, field])]);
  const [expiries, ...values] = replies;
  const byField = new Map(short.map((field, at) => [field, values[at]]));
  return fields.map((field, at) => ({ field, length: lengths[at], value: value(byField.get(field)), ttl: Array.isArray(expiries) ? expiries[at] : -1 })).filter((row) => row.value !== null);
}

// Undefined: not read; null: gone since the scan.
const value = (reply) => (reply instanceof ReplyError ? undefined : reply);

export function HashValue({ name, meta, onChanged }) {
  const [pattern, setPattern] = useState('');
  const [dialog, setDialog] = useState(null);
  const walk = useCursor(async ({ cursor, isStale }) => {
    const page = await scanElements('HSCAN', name, { cursor, pattern, isStale, extra: ['NOVALUES'] });
    return { rows: await fieldRows(name, page.elements), cursor: page.cursor, done: isEnd(page.cursor) };
  }, [name, meta, pattern]);
  const remove = async ({ field }) => {
    if (!await confirm({ title: 'Delete field', text: `Field ${display(field)} is removed from the hash.`, action: 'Delete', danger: true })) return;
    await attempt(() => send('HDEL', name, field), 'Deleted.');
    onChanged();
  };
  const edit = async (row) => attempt(async () => setDialog({ row: { ...row, value: row.value ?? await send('HGET', name, row.field) } }));
  return <Card title="Fields" actions={<><Filter onChange={setPattern} label="Pattern of fields" /><button type="button" onClick={() => setDialog({})}>Add</button></>}>
    <Problem error={walk.error} what="HSCAN" />
    <Table label="Fields" rows={walk.rows} rowKey={({ field }) => toPath(field)} columns={[
      { name: 'Field', cell: ({ field }) => <Bytes value={field} max={80} /> },
      { name: 'Value', cell: (row) => (row.value === undefined ? <span class="note">{bytes(row.length)}, not read</span> : <Bytes value={row.value} />), class: 'wide-cell below' },
      { name: 'TTL', cell: ({ ttl: ms }) => (ms === -1 ? '' : ttl(ms)), class: 'number' },
      { name: '', cell: (row) => <RowActions edit={() => edit(row)} remove={() => remove(row)} what={`field ${display(row.field)}`} />, class: 'row-actions' },
    ]} />
    <More walk={walk} total={pattern === '' ? meta.length : undefined} />
    {dialog && <FieldDialog name={name} row={dialog.row} onClose={() => setDialog(null)} onChanged={onChanged} />}
  </Card>;
}

function FieldDialog({ name, row, onClose, onChanged }) {
  const expires = row?.ttl > 0;
  const fields = [
    ...(row ? [] : [{ name: 'field', label: 'Field', kind: 'bytes' }]),
    { name: 'value', label: 'Value', kind: 'bytes', initial: row?.value, rows: 6 },
    { name: 'seconds', label: 'Expires after seconds', kind: 'number', initial: expires ? String(row.ttl / 1000) : '', hint: 'Empty: the field does not expire.' },
  ];
  return <FormDialog title={row ? `Field ${display(row.field)}` : 'Add field'} onClose={onClose} fields={fields} submit={async ({ field = row?.field, value: next, seconds }) => {
    const isUnchanged = expires && seconds === fields.at(-1).initial;
    const expiry = isUnchanged ? ['KEEPTTL'] : ['PX', seconds.trim() === '' ? null : milliseconds(seconds)];
    if (seconds.trim() === '') await send('HSET', name, field, next);
    else await send('HSETEX', name, ...expiry, 'FIELDS', 1, field, next);
    onChanged();
  }} />;
}
