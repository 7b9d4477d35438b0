// Clients: CLIENT LIST, and CLIENT KILL.
import { useState } from 'preact/hooks';
import { Action, Loaded, Page, Table, Tag } from '../ui/basics.jsx';
import { confirm } from '../ui/feedback.jsx';
import { usePolled } from '../ui/hooks.js';
import { bytes, duration, exact } from '../ui/numbers.js';
import { parsePairs } from '../server/info.js';
import { toText } from '../resp/text.js';
import { send } from '../server/session.js';

const PERIOD = 3000;
/** Rows that are shown; the filter finds the rest. */
const SHOWN = 500;

async function load() {
  const text = toText(await send('CLIENT', 'LIST'));
  const rows = text.split('\n').filter(Boolean).map((line) => ({ ...parsePairs(line, ' '), line }));
  return { rows, own: await send('CLIENT', 'ID') };
}

export function Clients() {
  const state = usePolled(load, PERIOD);
  const [filter, setFilter] = useState('');
  return <Page title="Clients" wide actions={<input type="search" data-search placeholder="Filter, such as user=app" aria-label="Filter" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />}>
    <Loaded state={state} what="CLIENT LIST">{({ rows, own }) => {
      const matching = rows.filter(({ line }) => line.includes(filter));
      return <div class="card">
        <p class="note">{exact(matching.length)} of {exact(rows.length)} clients{matching.length > SHOWN ? `, ${SHOWN} shown` : ''}</p>
        <List rows={matching.slice(0, SHOWN)} own={own} reload={state.reload} />
      </div>;
    }}</Loaded>
  </Page>;
}

function List({ rows, own, reload }) {
  const kill = async (row) => {
    if (!await confirm({ title: 'Close connection', text: `The connection of client ${row.id} (${row.addr}, user ${row.user}) is closed.`, action: 'Close it', danger: true })) return '';
    await send('CLIENT', 'KILL', 'ID', row.id);
    await reload();
    return 'Closed.';
  };
  return <Table label="Clients" rows={rows} rowKey={({ id }) => id} empty="No client matches." columns={[
    { name: 'Id', cell: ({ id }) => id, sort: ({ id }) => id, class: 'number narrow' },
    { name: 'Address', cell: ({ addr }) => <span class="mono">{addr}</span>, sort: ({ addr }) => String(addr) },
    { name: 'Name', cell: ({ id, name, 'lib-name': library }) => <>{name || library || ''} {id === own && <Tag>this console</Tag>}</> },
    { name: 'User', cell: ({ user }) => user, sort: ({ user }) => String(user) },
    { name: 'Db', cell: ({ db }) => db, class: 'number narrow' },
    { name: 'Last command', cell: ({ cmd }) => <span class="mono">{cmd}</span>, sort: ({ cmd }) => String(cmd) },
    { name: 'Age', cell: ({ age }) => duration(age), sort: ({ age }) => age, class: 'number' },
    { name: 'Idle', cell: ({ idle }) => duration(idle), sort: ({ idle }) => idle, class: 'number' },
    { name: 'Memory', cell: (row) => bytes(row['tot-mem']), sort: (row) => row['tot-mem'], class: 'number' },
    { name: 'Output', cell: ({ omem }) => bytes(omem), sort: ({ omem }) => omem, class: 'number' },
    { name: 'Flags', cell: ({ flags }) => <span class="mono">{flags}</span> },
    { name: '', cell: (row) => <Action class="quiet" aria-label={`Close client ${row.id}`} title="Close connection" run={() => kill(row)}>✕</Action>, class: 'row-actions' },
  ]} />;
}
