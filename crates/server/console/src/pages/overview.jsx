// Overview: load, latency, hit rate, memory, CPU, persistence, replication.
import { useMemo, useState } from 'preact/hooks';
import { Card, Empty, Page, Problem, Stat, Stats, Table } from '../ui/basics.jsx';
import { Chart } from '../ui/chart.jsx';
import { Heatmap } from '../ui/heatmap.jsx';
import { bytes, count, duration, exact, micros, percent } from '../ui/numbers.js';
import { useSamples } from '../server/sampler.js';
import { parsePairs } from '../server/info.js';
import { KeySample } from './key-sample.jsx';

export function Overview() {
  const { info, samples, error, latencyError } = useSamples();
  const latest = samples.at(-1);
  if (error) return <Page title="Overview"><Problem error={error} what="INFO" /></Page>;
  if (!info) return <Page title="Overview"><Empty>Waiting for the server …</Empty></Page>;
  return <Page title="Overview" wide>
    <Headline info={info} latest={latest} />
    <div class="grid">
      <Card title="Operations per second"><Line samples={samples} label="Operations per second" format={count} lines={[['all commands', 'operations', '--series-1', true]]} /></Card>
      <Card title="Latency" note="of commands, without this console's">
        <Problem error={latencyError} what="LATENCY HISTOGRAM" />
        <Line samples={samples} label="Latency percentiles" format={micros} lines={[['p50', 'p50', '--series-1'], ['p99', 'p99', '--series-2'], ['p99.9', 'p999', '--series-3']]} />
      </Card>
      <Card title="Latency heat map" class="span"><Heatmap columns={samples} label="Calls by latency over time" /></Card>
      <Card title="Hit rate"><Line samples={samples} label="Hit rate" format={(value) => percent(value, 0)} lines={[['hits', 'hitRate', '--series-1', true]]} /></Card>
      <Card title="Memory"><Line samples={samples} label="Memory" binary format={bytes} lines={[['used', 'memory', '--series-1', true], ['resident', 'resident', '--series-2']]} /></Card>
      <Card title="Network"><Line samples={samples} label="Network" binary format={(value) => `${bytes(value)}/s`} lines={[['in', 'input', '--series-1'], ['out', 'output', '--series-2']]} /></Card>
      <Card title="CPU" note="shares of one core"><Line samples={samples} label="CPU" format={(value) => percent(value, 0)} lines={[['user', 'user', '--series-1', true], ['system', 'system', '--series-2']]} /></Card>
      <Workers info={info} latest={latest} />
      <Keyspace info={info} latest={latest} />
      <Persistence fields={info.persistence ?? {}} />
      <Replication fields={info.replication ?? {}} />
      <KeySample />
    </div>
  </Page>;
}

function Line({ samples, lines, label, format, binary }) {
  const data = useMemo(() => [samples.map(({ time }) => time), ...lines.map(([, field]) => samples.map((sample) => sample[field] ?? null))], [samples]);
  const [series] = useState(lines.map(([name, , tone, fill]) => ({ label: name, tone, fill })));
  return <Chart label={label} data={data} series={series} format={format} binary={binary} />;
}

function Headline({ info, latest }) {
  const memory = info.memory ?? {};
  const limit = Number(memory.maxmemory);
  const stats = info.stats ?? {};
  const hits = Number(stats.keyspace_hits);
  const all = hits + Number(stats.keyspace_misses);
  return <Stats>
    <Stat label="Operations/s" value={count(latest ? Math.round(latest.operations) : undefined)} />
    <Stat label="p99" value={micros(latest?.p99 ?? NaN)} title="Of commands in the last two seconds" />
    <Stat label="Hit rate" value={percent(all > 0 ? hits / all : NaN)} title="Since the start or CONFIG RESETSTAT" />
    <Stat label="Keys" value={count(keyCount(info))} />
    <Stat label="Memory" value={bytes(memory.used_memory)} note={limit > 0 ? `of ${bytes(limit)}` : 'no limit'} tone={limit > 0 && memory.used_memory > 0.9 * limit ? 'warn' : ''} />
    <Stat label="Clients" value={exact(info.clients?.connected_clients)} note={`${info.clients?.blocked_clients ?? 0} blocked`} />
    <Stat label="CPU" value={percent(latest ? latest.user + latest.system : NaN, 0)} note="of a core" />
    <Stat label="Up" value={duration(Number(info.server?.uptime_in_seconds))} />
  </Stats>;
}

const keyCount = (info) => Object.values(info.keyspace ?? {}).reduce((sum, text) => sum + parsePairs(text).keys, 0);

function Workers({ info, latest }) {
  const rows = latest?.workers ?? [];
  return <Card title="Workers" note={info.server?.io_backend}>
    <Table label="Workers" rows={rows} rowKey={({ name }) => name} empty="Waiting for a second sample." columns={[
      { name: 'Worker', cell: ({ name }) => name.replace('io_thread_', '') },
      { name: 'Clients', cell: ({ clients }) => exact(clients), class: 'number' },
      { name: 'CPU', cell: ({ cpu }) => percent(cpu, 0), class: 'number' },
      { name: 'Reads/s', cell: ({ reads }) => count(Math.round(reads)), class: 'number' },
      { name: 'Writes/s', cell: ({ writes }) => count(Math.round(writes)), class: 'number' },
    ]} />
  </Card>;
}

function Keyspace({ info, latest }) {
  const rows = Object.entries(info.keyspace ?? {}).map(([name, text]) => ({ name, ...parsePairs(text) }));
  return <Card title="Keyspace" note={latest && `${count(Math.round(latest.expired))} expired/s, ${count(Math.round(latest.evicted))} evicted/s`}>
    <Table label="Databases" rows={rows} rowKey={({ name }) => name} empty="No keys." columns={[
      { name: 'Database', cell: ({ name }) => name },
      { name: 'Keys', cell: ({ keys }) => exact(keys), class: 'number' },
      { name: 'With expiry', cell: ({ expires }) => exact(expires), class: 'number' },
      { name: 'Average TTL', cell: ({ avg_ttl: ms }) => (ms > 0 ? duration(ms / 1000) : '–'), class: 'number' },
    ]} />
  </Card>;
}

function ago(unixSeconds) {
  return Number(unixSeconds) > 0 ? `${duration(Date.now() / 1000 - Number(unixSeconds))} ago` : 'never';
}

function Persistence({ fields }) {
  const ok = (status) => (status === 'ok' ? '' : 'bad');
  return <Card title="Persistence">
    <Stats>
      <Stat label="Last snapshot" value={ago(fields.rdb_last_save_time)} note={fields.rdb_last_bgsave_status} tone={ok(fields.rdb_last_bgsave_status)} />
      <Stat label="Changes since" value={exact(fields.rdb_changes_since_last_save)} />
      <Stat label="Snapshot" value={fields.rdb_bgsave_in_progress === '1' ? 'running' : 'idle'} />
      <Stat label="Log" value={fields.aof_enabled === '1' ? 'on' : 'off'} note={fields.aof_enabled === '1' ? fields.aof_last_write_status : ''} tone={ok(fields.aof_last_write_status)} />
      {fields.aof_enabled === '1' && <Stat label="Log size" value={bytes(fields.aof_current_size)} note={fields.aof_rewrite_in_progress === '1' ? 'is rewritten' : ''} />}
      {fields.loading === '1' && <Stat label="Loading" value={`${fields.loading_loaded_perc} %`} tone="warn" />}
      {fields.backup_enabled === '1' && <Stat label="Backups" value="on" />}
    </Stats>
  </Card>;
}

function Replication({ fields }) {
  const replica = fields.role === 'slave';
  return <Card title="Replication">
    <Stats>
      <Stat label="Role" value={replica ? 'replica' : 'primary'} />
      {replica && <Stat label="Primary" value={`${fields.master_host}:${fields.master_port}`} note={fields.master_link_status} tone={fields.master_link_status === 'up' ? '' : 'bad'} />}
      <Stat label="Replicas" value={exact(fields.connected_slaves)} />
      <Stat label="Offset" value={exact(fields.master_repl_offset)} />
    </Stats>
  </Card>;
}
