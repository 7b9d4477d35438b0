// Replicas and cluster: the primary with its replicas, the members with their slots, as a map.
import { Bar, Card, Empty, Page, Problem, Stat, Stats, Table, Tag, Loaded } from '../ui/basics.jsx';
import { usePolled } from '../ui/hooks.js';
import { bytes, exact } from '../ui/numbers.js';
import { ReplyError } from '../resp/codec.js';
import { toText } from '../resp/text.js';
import { parseNodes, slotCount, SLOTS } from '../server/cluster.js';
import { parseInfo, parsePairs } from '../server/info.js';
import { pipeline } from '../server/session.js';

const PERIOD = 3000;
const TONES = 8;

async function load() {
  const [info, clusterInfo, nodes] = await pipeline([['INFO', 'everything'], ['CLUSTER', 'INFO'], ['CLUSTER', 'NODES']]);
  if (info instanceof ReplyError) throw info;
  const sections = parseInfo(toText(info));
  const isCluster = sections.cluster?.cluster_enabled === '1';
  return {
    replication: sections.replication ?? {},
    port: sections.server?.tcp_port,
    cluster: !isCluster || clusterInfo instanceof ReplyError ? null : parseInfo(toText(clusterInfo))[''],
    nodes: !isCluster || nodes instanceof ReplyError ? [] : parseNodes(toText(nodes)),
    error: isCluster ? [clusterInfo, nodes].find((reply) => reply instanceof ReplyError) : null,
    isCluster,
  };
}

export function Topology() {
  const state = usePolled(load, PERIOD);
  return <Page title="Replicas and cluster" wide>
    <Loaded state={state} what="INFO">{(data) => <>
      <Replication fields={data.replication} port={data.port} />
      <Problem error={data.error} what="CLUSTER" />
      {data.isCluster ? <Cluster info={data.cluster} nodes={data.nodes} /> : <Card title="Cluster"><Empty>This server is not a member of a cluster.</Empty></Card>}
    </>}</Loaded>
  </Page>;
}

function Replication({ fields, port }) {
  const replicas = Object.entries(fields).filter(([name]) => /^slave\d+$/.test(name)).map(([name, text]) => ({ name, ...parsePairs(text) }));
  const isReplica = fields.role === 'slave';
  const offset = Number(fields.master_repl_offset);
  return <Card title="Replication" note={`offset ${exact(offset)}`}>
    <div class="map" role="img" aria-label="Primary and replicas">
      {isReplica && <><Box title={`${fields.master_host}:${fields.master_port}`} kind="primary" note={`link ${fields.master_link_status}`} tone={fields.master_link_status === 'up' ? 'good' : 'bad'} /><span class="arrow" aria-hidden="true" /></>}
      <Box title={`this server, port ${port}`} kind={isReplica ? 'replica' : 'primary'} own />
      {replicas.length > 0 && <><span class="arrow" aria-hidden="true" /><div class="map-column">{replicas.map((replica) => <Box key={replica.name} title={`${replica.ip}:${replica.port}`} kind="replica" tone={replica.state === 'online' ? 'good' : 'warn'}
        note={`${replica.state}, ${bytes(Math.max(0, offset - Number(replica.offset)))} behind`} />)}</div></>}
    </div>
    {replicas.length === 0 && !isReplica && <p class="note">No replicas.</p>}
  </Card>;
}

function Box({ title, kind, note, tone = '', own }) {
  return <div class={`map-box ${tone} ${own ? 'own' : ''}`}><strong class="mono">{title}</strong><small>{kind}{note ? ` · ${note}` : ''}</small></div>;
}

function Cluster({ info, nodes }) {
  const primaries = nodes.filter((node) => node.slots.length > 0);
  const tone = new Map(primaries.map((node, at) => [node.id, at % TONES]));
  return <>
    {info && <Stats>
      <Stat label="Cluster" value={info.cluster_state} tone={info.cluster_state === 'ok' ? '' : 'bad'} />
      <Stat label="Members" value={exact(nodes.length)} note={`${exact(info.cluster_size)} with slots`} />
      <Stat label="Slots assigned" value={exact(info.cluster_slots_assigned)} note={`of ${exact(SLOTS)}`} />
      {info.cluster_slots_under_replicated !== undefined && <Stat label="Under-replicated" value={exact(info.cluster_slots_under_replicated)} tone={Number(info.cluster_slots_under_replicated) > 0 ? 'warn' : ''} />}
      <Stat label="Epoch" value={exact(info.cluster_current_epoch)} />
    </Stats>}
    <Card title="Slots"><SlotMap nodes={primaries} tone={tone} /></Card>
    <Card title="Members"><Table label="Members" rows={nodes} rowKey={({ id }) => id} columns={[
      { name: 'Address', cell: (node) => <><i class={`swatch tone-${tone.get(node.id) ?? 'none'}`} aria-hidden="true" /><span class="mono">{node.address}</span> {node.host} {node.flags.includes('myself') && <Tag>this server</Tag>}</>, sort: ({ address }) => address },
      { name: 'Role', cell: ({ flags, primary }) => (primary ? `replica of ${nodes.find(({ id }) => id === primary)?.address ?? primary.slice(0, 8)}` : flags.includes('slave') ? 'replica' : 'primary') },
      { name: 'State', cell: ({ flags, link }) => { const failed = flags.some((flag) => flag.startsWith('fail')); return <Tag tone={failed || link !== 'connected' ? 'bad' : 'good'}>{failed ? 'failed' : link}</Tag>; } },
      { name: 'Slots', cell: (node) => <><Bar share={slotCount(node) / SLOTS} />{exact(slotCount(node))}</>, class: 'bar-cell', sort: slotCount },
      { name: 'Id', cell: ({ id }) => <span class="mono" title={id}>{id.slice(0, 12)}</span> },
    ]} /></Card>
  </>;
}

const ROWS = 8;
const ROW_SLOTS = SLOTS / ROWS;

/** All slots in rows, each range in the colour of its primary; slots without one stay empty. */
function SlotMap({ nodes, tone }) {
  const pieces = nodes.flatMap((node) => node.slots.flatMap(([first, last]) => split(first, last).map(([from, to]) => ({ node, from, to }))));
  return <svg class="slot-map" viewBox={`0 0 ${ROW_SLOTS} ${ROWS * 100}`} preserveAspectRatio="none" role="img" aria-label="Slots by member">
    {pieces.map(({ node, from, to }) => <rect key={from} class={`tone-${tone.get(node.id)}`} x={from % ROW_SLOTS} y={Math.floor(from / ROW_SLOTS) * 100} width={to - from + 1} height={88}><title>{`${from} to ${to}: ${node.address}`}</title></rect>)}
  </svg>;
}

function split(first, last) {
  const pieces = [];
  for (let from = first; from <= last; ) {
    const to = Math.min(last, (Math.floor(from / ROW_SLOTS) + 1) * ROW_SLOTS - 1);
    pieces.push([from, to]);
    from = to + 1;
  }
  return pieces;
}
