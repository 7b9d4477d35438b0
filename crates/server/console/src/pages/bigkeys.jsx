// Big keys: a walk over the selected database that keeps the largest keys of each type. It can be stopped.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Bytes, Card, Empty, Page, Problem, Select, Stat, Stats, Table, Tag } from '../ui/basics.jsx';
import { bytes, exact, percent } from '../ui/numbers.js';
import { toPath } from '../resp/text.js';
import { describe, isEnd, scan } from '../server/scan.js';
import { send } from '../server/session.js';
import { TYPES, typeName } from '../server/types.js';

const KEPT = 50;
/** Pause between steps, so that a walk over many keys takes little of the server. */
const PAUSE = 20;
/** Time between renderings of the result. */
const RENDER_PERIOD = 250;

const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE));

async function walk({ type, isStale, onStep }) {
  const total = await send('DBSIZE');
  let cursor = '0';
  let largest = [];
  let seen = 0;
  let shown = 0;
  do {
    const page = await scan({ cursor, type, wanted: 500, limit: 5000, isStale });
    const rows = await describe(page.keys);
    cursor = page.cursor;
    seen += rows.length;
    largest = [...largest, ...rows].sort((a, b) => (b.size ?? 0) - (a.size ?? 0)).slice(0, KEPT);
    if (isEnd(cursor) || performance.now() - shown > RENDER_PERIOD) {
      shown = performance.now();
      onStep({ total, seen, largest, done: isEnd(cursor) });
    }
    while (document.hidden && !isStale()) await pause();
    await pause();
  } while (!isEnd(cursor) && !isStale());
}

export function BigKeys() {
  const [type, setType] = useState('');
  const [state, setState] = useState(null);
  const [error, setError] = useState(null);
  const [running, setRunning] = useState(false);
  const run = useRef(0);
  useEffect(() => () => { run.current += 1; }, []);
  const start = async () => {
    const number = (run.current += 1);
    const isStale = () => number !== run.current;
    setError(null);
    setState(null);
    setRunning(true);
    try {
      await walk({ type, isStale, onStep: (step) => { if (!isStale()) setState(step); } });
    } catch (failure) {
      if (!isStale()) setError(failure);
    }
    if (!isStale()) setRunning(false);
  };
  const stop = () => {
    run.current += 1;
    setRunning(false);
  };
  return <Page title="Big keys" actions={<>
    <Select label="Type" value={type} onChange={setType} options={[['', 'any type'], ...TYPES]} />
    {running ? <button type="button" onClick={stop}>Stop</button> : <button type="button" class="primary" onClick={start}>Start</button>}
  </>}>
    <Problem error={error} what="SCAN and MEMORY USAGE" />
    {state ? <Result state={state} running={running} /> : <Empty>Walks over the selected database with SCAN and MEMORY USAGE, and keeps the {KEPT} largest keys. Other clients are served meanwhile.</Empty>}
  </Page>;
}

function Result({ state, running }) {
  return <>
    <Stats>
      <Stat label="Keys seen" value={exact(state.seen)} note={`of ${exact(state.total)}`} />
      <Stat label="Progress" value={state.done ? 'complete' : percent(Math.min(1, state.seen / Math.max(1, state.total)), 0)} note={!state.done && !running ? 'stopped' : ''} />
      <Stat label="Largest" value={bytes(state.largest[0]?.size)} />
    </Stats>
    <Card title="Largest keys"><Table label="Largest keys" rows={state.largest} rowKey={({ key }) => toPath(key)} empty="No keys." columns={[
      { name: 'Key', cell: ({ key }) => <a href={`#/keys/=${toPath(key)}`}><Bytes value={key} max={100} /></a>, class: 'wide-cell' },
      { name: 'Type', cell: (row) => <Tag tone={row.type}>{typeName(row.type)}</Tag> },
      { name: 'Memory', cell: ({ size }) => bytes(size), class: 'number' },
    ]} /></Card>
  </>;
}
