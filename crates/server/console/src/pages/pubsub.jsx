// Pub/sub: messages and keyspace events on a connection of their own; publishing.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Bytes, Card, Field, Form, Loaded, Page, Problem, Table } from '../ui/basics.jsx';
import { BytesInput } from '../ui/bytes-input.jsx';
import { attempt, confirm, notify } from '../ui/feedback.jsx';
import { useLoad, usePolled, useSession } from '../ui/hooks.js';
import { exact } from '../ui/numbers.js';
import { plain, ReplyError } from '../resp/codec.js';
import { display, toPath, toText, unescapeBytes } from '../resp/text.js';
import { pipeline, send, session } from '../server/session.js';

/** Messages that are kept, and the pause between renderings of those that arrive. */
const KEPT = 500;
const RENDER_PERIOD = 100;
const EVENTS = '__key*@*__:*';

class Feed {
  messages = [];
  number = 0;
  add(kind, channel, payload) {
    this.number += 1;
    this.messages.unshift({ id: this.number, time: new Date(), kind, channel, payload });
    if (this.messages.length > KEPT) this.messages.length = KEPT;
  }
}

/** Messages of a second connection that subscribes to `patterns`. */
function useFeed(patterns) {
  const feed = useRef(new Feed());
  const [, render] = useState(0);
  const [error, setError] = useState(null);
  const { generation } = useSession();
  useEffect(() => {
    if (patterns.length === 0) return undefined;
    let connection = null;
    let isOver = false;
    let timer = 0;
    const onPush = (node) => {
      const [kind, ...rest] = plain(node);
      const name = toText(kind);
      if (name === 'message') feed.current.add(name, rest[0], rest[1]);
      if (name === 'pmessage') feed.current.add(name, rest[1], rest[2]);
      timer ||= setTimeout(() => { timer = 0; render((count) => count + 1); }, RENDER_PERIOD);
    };
    const open = async () => {
      connection = await session.openConnection({ onPush });
      if (isOver) return connection.close();
      await connection.send('PSUBSCRIBE', ...patterns.map(unescapeBytes));
      setError(null);
    };
    open().catch((failure) => { if (!isOver) setError(failure); });
    return () => {
      isOver = true;
      clearTimeout(timer);
      connection?.close();
    };
  }, [patterns, generation]);
  const clear = () => {
    feed.current = new Feed();
    render((count) => count + 1);
  };
  return { feed: feed.current, error, clear };
}

export function PubSub() {
  const [patterns, setPatterns] = useState([]);
  const { feed, error, clear } = useFeed(patterns);
  const add = (pattern) => setPatterns((old) => (pattern === '' || old.includes(pattern) ? old : [...old, pattern]));
  const remove = (pattern) => setPatterns((old) => old.filter((other) => other !== pattern));
  return <Page title="Pub/sub and events" wide>
    <div class="grid">
      <Card title="Subscribe">
        <form class="toolbar" onSubmit={(event) => { event.preventDefault(); add(event.currentTarget.elements.pattern.value); event.currentTarget.reset(); }}>
          <input name="pattern" class="mono grow" data-search placeholder="Channel or pattern, such as news.*" aria-label="Channel or pattern" />
          <button type="submit" class="primary">Subscribe</button>
        </form>
        <div class="chips">{patterns.map((pattern) => <button key={pattern} type="button" class="chip" title="Unsubscribe" aria-label={`Unsubscribe from ${pattern}`} onClick={() => remove(pattern)}>{pattern} ✕</button>)}</div>
        <Problem error={error} what="PSUBSCRIBE" />
        <KeyspaceEvents isOn={patterns.includes(EVENTS)} subscribe={() => add(EVENTS)} />
      </Card>
      <Publish />
    </div>
    <Card title="Messages" note={`${exact(feed.number)} received, the newest ${exact(feed.messages.length)} shown`} actions={<button type="button" onClick={clear}>Clear</button>}>
      <Table label="Messages" rows={feed.messages} rowKey={({ id }) => id} empty={patterns.length === 0 ? 'Subscribe to see messages.' : 'No message yet.'} columns={[
        { name: 'Time', cell: ({ time }) => time.toLocaleTimeString('sv'), class: 'nowrap' },
        { name: 'Channel', cell: ({ channel }) => <Bytes value={channel} max={100} />, class: 'mono' },
        { name: 'Message', cell: ({ payload }) => <Bytes value={payload} max={400} />, class: 'wide-cell below mono' },
      ]} />
    </Card>
    <Channels subscribe={add} />
  </Page>;
}

/** Subscribes to keyspace events, and offers to turn them on in the configuration. */
function KeyspaceEvents({ isOn, subscribe }) {
  const state = useLoad(async () => {
    const [reply] = await pipeline([['CONFIG', 'GET', 'notify-keyspace-events']]);
    return reply instanceof ReplyError ? null : toText(reply[0]?.[1]);
  }, []);
  const turnOn = async () => {
    const text = 'notify-keyspace-events is set to KEA until the server restarts: every change is published, which costs time for each write.';
    if (!await confirm({ title: 'Turn events on', text, action: 'Turn on' })) return;
    await attempt(() => send('CONFIG', 'SET', 'notify-keyspace-events', 'KEA'), 'Events are on.');
    await state.reload();
  };
  return <div class="toolbar">
    <button type="button" disabled={isOn} onClick={subscribe}>Keyspace events</button>
    {state.data === '' && <><span class="note">The server publishes none.</span><button type="button" class="link" onClick={turnOn}>Turn them on</button></>}
    {state.data && <span class="note">notify-keyspace-events {state.data}</span>}
  </div>;
}

function Publish() {
  const [channel, setChannel] = useState('');
  const handle = useRef(null);
  const publish = async () => {
    const receivers = await send('PUBLISH', unescapeBytes(channel), handle.current.bytes());
    notify(`Received by ${exact(receivers)} ${receivers === 1 ? 'client' : 'clients'}.`);
  };
  return <Card title="Publish"><Form label="Publish" onSubmit={publish}>
    <Field label="Channel"><input class="mono" value={channel} onInput={(event) => setChannel(event.currentTarget.value)} /></Field>
    <Field label="Message"><BytesInput handle={handle} label="Message" /></Field>
    <div class="actions"><button type="submit" class="primary">Publish</button></div>
  </Form></Card>;
}

const SHOWN_CHANNELS = 200;

function Channels({ subscribe }) {
  const state = usePolled(async () => {
    const [names, patterns] = await pipeline([['PUBSUB', 'CHANNELS'], ['PUBSUB', 'NUMPAT']]);
    if (names instanceof ReplyError) throw names;
    const shown = names.slice(0, SHOWN_CHANNELS);
    const counts = shown.length > 0 ? await send('PUBSUB', 'NUMSUB', ...shown) : [];
    return { total: names.length, patterns, rows: rowsOf(counts) };
  }, 5000);
  return <Card title="Channels with subscribers" note={state.data && `${exact(state.data.total)} channels, ${exact(Number(state.data.patterns))} patterns`}>
    <Loaded state={state} what="PUBSUB CHANNELS">{({ rows }) => <Table label="Channels" rows={rows} rowKey={({ name }) => toPath(name)} empty="No channel has subscribers." columns={[
      { name: 'Channel', cell: ({ name }) => <button type="button" class="link mono" onClick={() => subscribe(display(name))}><Bytes value={name} max={100} /></button> },
      { name: 'Subscribers', cell: ({ subscribers }) => exact(subscribers), class: 'number', sort: ({ subscribers }) => subscribers },
    ]} />}</Loaded>
  </Card>;
}

function rowsOf(counts) {
  if (Array.isArray(counts[0])) return counts.map(([name, subscribers]) => ({ name, subscribers }));
  const rows = [];
  for (let at = 0; at + 1 < counts.length; at += 2) rows.push({ name: counts[at], subscribers: counts[at + 1] });
  return rows;
}
