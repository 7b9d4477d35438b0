// Latency: per command, heat map, and events of the latency monitor.
import { useState } from 'preact/hooks';
import { Action, Card, Empty, Loaded, Page, Problem, Table } from '../ui/basics.jsx';
import { confirm } from '../ui/feedback.jsx';
import { Chart } from '../ui/chart.jsx';
import { Heatmap } from '../ui/heatmap.jsx';
import { useLoad, usePolled } from '../ui/hooks.js';
import { count, exact, micros, time } from '../ui/numbers.js';
import { ReplyError } from '../resp/codec.js';
import { toText } from '../resp/text.js';
import { useSamples } from '../server/sampler.js';
import { parsePairs } from '../server/info.js';
import { pipeline, send } from '../server/session.js';

export function Latency() {
  const { info, samples, error, latencyError } = useSamples();
  const reset = async () => {
    if (!await confirm({ title: 'Reset statistics', text: 'CONFIG RESETSTAT clears the counters, histograms and percentiles of all commands, for everybody who watches this server.', action: 'Reset', danger: true })) return '';
    await send('CONFIG', 'RESETSTAT');
    return 'Reset.';
  };
  return <Page title="Latency" wide actions={<Action run={reset}>Reset statistics</Action>}>
    <Problem error={error ?? latencyError} what={error ? 'INFO' : 'LATENCY HISTOGRAM'} />
    <Card title="Heat map" note="without this console's commands"><Heatmap columns={samples} label="Calls by latency over time" /></Card>
    {info && <Commands info={info} />}
    <Events />
  </Page>;
}

function commandRows(info) {
  return Object.entries(info.commandstats ?? {}).map(([field, text]) => {
    const name = field.replace(/^cmdstat_/, '');
    return { name, ...parsePairs(text), ...parsePairs(info.latencystats?.[`latency_percentiles_usec_${name}`] ?? '') };
  });
}

function Commands({ info }) {
  const number = (name, field, format = micros) => ({ name, cell: (row) => (row[field] === undefined ? '–' : format(row[field])), sort: (row) => row[field], class: 'number' });
  return <Card title="Commands" note="since the start or the last reset">
    <Table label="Commands" rows={commandRows(info)} rowKey={({ name }) => name} initialSort={{ name: 'Calls', down: true }} empty="No command was called." columns={[
      { name: 'Command', cell: ({ name }) => <span class="mono">{name.replace('|', ' ').toUpperCase()}</span>, sort: ({ name }) => name },
      number('Calls', 'calls', count),
      number('Mean', 'usec_per_call'),
      number('p50', 'p50'),
      number('p99', 'p99'),
      number('p99.9', 'p99.9'),
      number('Total', 'usec'),
      number('Failed', 'failed_calls', exact),
      number('Rejected', 'rejected_calls', exact),
    ]} />
  </Card>;
}

async function loadEvents() {
  const [events, threshold] = await pipeline([['LATENCY', 'LATEST'], ['CONFIG', 'GET', 'latency-monitor-threshold']]);
  if (events instanceof ReplyError) throw events;
  return { events: events.map(([name, at, latest, most]) => ({ name: toText(name), at, latest, most })), threshold: threshold instanceof ReplyError ? null : Number(toText(threshold[0]?.[1])) };
}

function Events() {
  const state = usePolled(loadEvents, 5000);
  const [selected, setSelected] = useState(null);
  return <Card title="Events" note="LATENCY LATEST">
    <Loaded state={state} what="LATENCY LATEST">{({ events, threshold }) => <>
      {threshold === 0 && <Empty>latency-monitor-threshold is 0, so no events are recorded. It can be set on the page Configuration.</Empty>}
      {(threshold !== 0 || events.length > 0) && <Table label="Latency events" rows={events} rowKey={({ name }) => name} selected={selected} onRow={({ name }) => setSelected(name)} empty="No event." columns={[
        { name: 'Event', cell: ({ name }) => <button type="button" class="link">{name}</button> },
        { name: 'Last', cell: ({ at }) => time(1000 * at) },
        { name: 'Took', cell: ({ latest }) => `${latest} ms`, class: 'number' },
        { name: 'Longest', cell: ({ most }) => `${most} ms`, class: 'number' },
      ]} />}
    </>}</Loaded>
    {selected && <History key={selected} name={selected} />}
  </Card>;
}

function History({ name }) {
  const state = useLoad(async () => {
    const points = await send('LATENCY', 'HISTORY', name);
    return [points.map(([at]) => at), points.map(([, taken]) => taken)];
  }, [name]);
  return <Loaded state={state}>{(data) => <Chart label={`History of ${name}`} data={data} format={(value) => `${Math.round(value)} ms`} series={[{ label: name, tone: '--series-1' }]} />}</Loaded>;
}
