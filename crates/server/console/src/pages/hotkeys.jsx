// Hot keys: HOTKEYS collects which keys cost most CPU time and network traffic.
import { useState } from 'preact/hooks';
import { Action, Bytes, Bar, Card, Empty, Field, Form, Loaded, Page, Stat, Stats, Table } from '../ui/basics.jsx';
import { usePolled } from '../ui/hooks.js';
import { bytes, duration, micros, percent } from '../ui/numbers.js';
import { toObject } from '../resp/codec.js';
import { toPath } from '../resp/text.js';
import { send } from '../server/session.js';

const PERIOD = 3000;
const KEYS = 20;

// Without a collection the reply is null. Redis wraps the report in an array.
async function load() {
  const reply = await send('HOTKEYS', 'GET');
  if (reply === null || reply.length === 0) return null;
  return toObject(reply.length === 1 && Array.isArray(reply[0]?.[0]) ? reply[0] : reply);
}

export function HotKeys() {
  const state = usePolled(load, PERIOD);
  const [seconds, setSeconds] = useState('60');
  const [ratio, setRatio] = useState('10');
  const start = async () => {
    await send('HOTKEYS', 'START', 'METRICS', 2, 'CPU', 'NET', 'COUNT', KEYS, 'DURATION', seconds, 'SAMPLE', ratio);
    await state.reload();
  };
  const stop = async () => { await send('HOTKEYS', 'STOP'); await state.reload(); };
  const active = Boolean(state.data?.['tracking-active']);
  return <Page title="Hot keys" wide actions={active && <Action run={stop}>Stop</Action>}>
    {!active && <Card title="Collect"><Form label="Collect" class="toolbar" onSubmit={start}>
      <Field label="Seconds"><input type="number" min="1" max="1000000" value={seconds} onInput={(event) => setSeconds(event.currentTarget.value)} /></Field>
      <Field label="One command of"><input type="number" min="1" value={ratio} onInput={(event) => setRatio(event.currentTarget.value)} /></Field>
      <button type="submit" class="primary">Start</button>
    </Form></Card>}
    <Loaded state={state} what="HOTKEYS">{(data) => (data ? <Report data={data} /> : <Empty>Nothing was collected yet.</Empty>)}</Loaded>
  </Page>;
}

/** Pairs of key and figure from an array that holds them in turn. */
function rows(list) {
  if (Array.isArray(list?.[0])) return list.map(([key, value]) => ({ key, value: Number(value) }));
  const result = [];
  for (let at = 0; at + 1 < (list?.length ?? 0); at += 2) result.push({ key: list[at], value: Number(list[at + 1]) });
  return result;
}

function Report({ data }) {
  return <>
    <Stats>
      <Stat label="Collection" value={data['tracking-active'] ? 'running' : 'ended'} />
      <Stat label="Lasted" value={duration(Number(data['collection-duration-ms']) / 1000)} />
      <Stat label="Sampled" value={`1 of ${data['sample-ratio']}`} />
      <Stat label="CPU time, user" value={micros(1000 * Number(data['total-cpu-time-user-ms']))} />
      <Stat label="CPU time, system" value={micros(1000 * Number(data['total-cpu-time-sys-ms']))} />
      <Stat label="Traffic" value={bytes(data['total-net-bytes'])} />
    </Stats>
    <div class="grid">
      <Ranking title="By CPU time" rows={rows(data['by-cpu-time-us'])} format={micros} />
      <Ranking title="By traffic" rows={rows(data['by-net-bytes'])} format={bytes} />
    </div>
  </>;
}

function Ranking({ title, rows: keys, format }) {
  const most = Math.max(1, ...keys.map(({ value }) => value));
  return <Card title={title}><Table label={title} rows={keys} rowKey={({ key }) => toPath(key)} empty="No key was sampled." columns={[
    { name: 'Key', cell: ({ key }) => <a href={`#/keys/=${toPath(key)}`}><Bytes value={key} max={80} /></a>, class: 'wide-cell' },
    { name: 'Cost', cell: ({ value }) => <><Bar share={value / most} />{format(value)}</>, class: 'bar-cell', sort: ({ value }) => value },
    { name: 'Of the first', cell: ({ value }) => percent(value / most, 0), class: 'number' },
  ]} /></Card>;
}
