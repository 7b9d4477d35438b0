// Slow log: commands that took longer than slowlog-log-slower-than.
import { Action, Bytes, Loaded, Page, Table } from '../ui/basics.jsx';
import { confirm } from '../ui/feedback.jsx';
import { usePolled } from '../ui/hooks.js';
import { micros, time } from '../ui/numbers.js';
import { ReplyError } from '../resp/codec.js';
import { display, toText } from '../resp/text.js';
import { pipeline, send } from '../server/session.js';

const ENTRIES = 128;
const PERIOD = 5000;

async function load() {
  const [entries, limit] = await pipeline([['SLOWLOG', 'GET', ENTRIES], ['CONFIG', 'GET', 'slowlog-log-slower-than']]);
  if (entries instanceof ReplyError) throw entries;
  return {
    entries: entries.map(([id, at, taken, args, address, client]) => ({ id, at, taken, args, address: toText(address), client: toText(client) })),
    limit: limit instanceof ReplyError ? null : Number(toText(limit[0]?.[1])),
  };
}

export function SlowLog() {
  const state = usePolled(load, PERIOD);
  const reset = async () => {
    if (!await confirm({ title: 'Empty the slow log', text: 'All entries are forgotten.', action: 'Empty', danger: true })) return '';
    await send('SLOWLOG', 'RESET');
    await state.reload();
    return 'Emptied.';
  };
  return <Page title="Slow log" actions={<Action run={reset}>Empty</Action>}>
    <Loaded state={state} what="SLOWLOG">{({ entries, limit }) => <>
      {limit !== null && <p class="note">{limit < 0 ? 'slowlog-log-slower-than is negative: nothing is logged.' : `Commands that take longer than ${micros(limit)} (slowlog-log-slower-than), the newest ${ENTRIES}.`}</p>}
      <div class="card"><Table label="Slow commands" rows={entries} rowKey={({ id }) => id} empty="No command was slow." columns={[
        { name: 'Time', cell: ({ at }) => time(1000 * at), sort: ({ id }) => id, class: 'nowrap' },
        { name: 'Took', cell: ({ taken }) => micros(taken), class: 'number', sort: ({ taken }) => taken },
        { name: 'Command', cell: ({ args }) => <Bytes value={args.map(display).join(' ')} max={400} />, class: 'wide-cell below mono' },
        { name: 'Client', cell: ({ address, client }) => <span class="mono">{address}{client && ` ${client}`}</span> },
      ]} /></div>
    </>}</Loaded>
  </Page>;
}
