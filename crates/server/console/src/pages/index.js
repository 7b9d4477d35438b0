// Table of pages: name in the address bar, title, key after `g`.
import { Overview } from './overview.jsx';
import { Keys } from './keys/page.jsx';
import { SlowLog } from './slowlog.jsx';
import { Latency } from './latency.jsx';
import { HotKeys } from './hotkeys.jsx';
import { BigKeys } from './bigkeys.jsx';
import { Clients } from './clients.jsx';
import { PubSub } from './pubsub.jsx';
import { Configuration } from './configuration.jsx';
import { Acl } from './acl.jsx';
import { Topology } from './topology.jsx';
import { Terminal } from './terminal.jsx';

export const pages = [
  { name: 'overview', title: 'Overview', key: 'o', Component: Overview },
  { name: 'keys', title: 'Keys', key: 'k', Component: Keys },
  { name: 'terminal', title: 'Command line', key: 'e', Component: Terminal },
  { name: 'latency', title: 'Latency', key: 'l', Component: Latency },
  { name: 'slowlog', title: 'Slow log', key: 's', Component: SlowLog },
  { name: 'hotkeys', title: 'Hot keys', key: 'h', Component: HotKeys },
  { name: 'bigkeys', title: 'Big keys', key: 'b', Component: BigKeys },
  { name: 'clients', title: 'Clients', key: 'c', Component: Clients },
  { name: 'pubsub', title: 'Pub/sub', key: 'p', Component: PubSub },
  { name: 'topology', title: 'Replicas and cluster', key: 'r', Component: Topology },
  { name: 'acl', title: 'Users', key: 'u', Component: Acl },
  { name: 'configuration', title: 'Configuration', key: 'f', Component: Configuration },
];
