// Memory by type and by prefix, from a sample of keys that is taken on request.
import { useRef, useState } from 'preact/hooks';
import { Bar, Card, Empty, Problem, Table } from '../ui/basics.jsx';
import { bytes, exact, percent } from '../ui/numbers.js';
import { escapeBytes, printable } from '../resp/text.js';
import { describe, isEnd, scan } from '../server/scan.js';
import { send } from '../server/session.js';
import { typeName } from '../server/types.js';

/** Keys in a sample. */
const SAMPLE = 5000;
const SHOWN = 12;

/** Text before the first separator, which groups keys. */
export function prefixOf(key) {
  const text = printable(key) ?? escapeBytes(key);
  const at = text.search(/[:./|-]/);
  return at > 0 ? text.slice(0, at + 1) : '(no prefix)';
}

function group(rows, name) {
  const groups = new Map();
  for (const row of rows) {
    const key = name(row);
    const old = groups.get(key) ?? { name: key, keys: 0, size: 0 };
    groups.set(key, { name: key, keys: old.keys + 1, size: old.size + (row.size ?? 0) });
  }
  return [...groups.values()].sort((a, b) => b.size - a.size);
}

export function KeySample() {
  const [state, setState] = useState(null);
  const running = useRef(false);
  const sample = async () => {
    running.current = true;
    let cursor = '0';
    const rows = [];
    try {
      const total = await send('DBSIZE');
      do {
        const part = await scan({ cursor, wanted: 500, limit: 2000 });
        cursor = part.cursor;
        rows.push(...await describe(part.keys));
        setState({ rows: [...rows], total, busy: true });
      } while (!isEnd(cursor) && rows.length < SAMPLE && running.current);
      setState({ rows, total, whole: isEnd(cursor) });
    } catch (error) {
      setState({ rows, error });
    }
    running.current = false;
  };
  const button = state?.busy ? <button type="button" onClick={() => { running.current = false; }}>Stop</button> : <button type="button" onClick={sample}>Take a sample</button>;
  return <Card title="Memory by type and prefix" class="span" actions={button} note={state && `${exact(state.rows.length)} of ${exact(state.total)} keys`}>
    <Problem error={state?.error} what="SCAN and MEMORY USAGE" />
    {state ? <div class="columns"><Shares rows={group(state.rows, ({ type }) => typeName(type))} head="Type" /><Shares rows={group(state.rows, ({ key }) => prefixOf(key))} head="Prefix" /></div>
      : <Empty>A sample looks at up to {exact(SAMPLE)} keys of the selected database with SCAN and MEMORY USAGE.</Empty>}
  </Card>;
}

function Shares({ rows, head }) {
  const total = rows.reduce((sum, { size }) => sum + size, 0) || 1;
  return <Table label={`Memory by ${head.toLowerCase()}`} rows={rows.slice(0, SHOWN)} rowKey={({ name }) => name} columns={[
    { name: head, cell: ({ name }) => <span class="mono">{name}</span> },
    { name: 'Keys', cell: ({ keys }) => exact(keys), class: 'number' },
    { name: 'Memory', cell: ({ size }) => bytes(size), class: 'number' },
    { name: 'Share', cell: ({ size }) => <><Bar share={size / total} />{percent(size / total, 0)}</>, class: 'bar-cell' },
  ]} />;
}
