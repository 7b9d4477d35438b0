// Frame of the console: navigation, login, state of the connection, keyboard.
import { useEffect, useState } from 'preact/hooks';
import { toText } from './resp/text.js';
import { navigate, useRoute, useSession } from './ui/hooks.js';
import { Field, Form } from './ui/basics.jsx';
import { Dialog, FeedbackHost } from './ui/feedback.jsx';
import { ThemeSwitch } from './ui/theme.jsx';
import { useKeyboard } from './ui/keyboard.js';
import { pages } from './pages/index.js';
import { useSampler, useSamples } from './server/sampler.js';

export function App() {
  const session = useSession();
  useSampler();
  return <>
    {session.generation > 0 && session.status !== 'login' ? <Shell session={session} /> : <Entrance session={session} />}
    <FeedbackHost />
  </>;
}

function Entrance({ session }) {
  if (session.status === 'login') return <Login session={session} />;
  return <div class="entrance"><div class="card">
    <Brand />
    {session.status === 'connecting' && <p aria-busy="true">Connecting to the server …</p>}
    {session.status === 'lost' && <Lost session={session} />}
    {session.status === 'refused' && <Refused session={session} />}
  </div></div>;
}

const Brand = () => <span class="brand"><img src="icon.svg" alt="" width="24" height="24" />Petrel</span>;

function Refused({ session }) {
  return <div class="problem" role="alert">The server refused the connection: {session.error} <button type="button" onClick={() => session.retry()}>Try again</button></div>;
}

function Lost({ session }) {
  return <div class="lost" role="status">No connection to the server{session.error ? `: ${session.error}` : ''}. Connecting again … <button type="button" onClick={() => session.retry()}>Now</button></div>;
}

function Login({ session }) {
  const [user, setUser] = useState('');
  const [password, setPassword] = useState('');
  return <div class="entrance"><div class="card login">
    <Brand />
    <Form label="Log in" onSubmit={() => session.login(user, password)}>
      <Field label="User"><input name="user" value={user} placeholder="default" autocomplete="username" onInput={(event) => setUser(event.currentTarget.value)} /></Field>
      <Field label="Password"><input name="password" type="password" value={password} autocomplete="current-password" onInput={(event) => setPassword(event.currentTarget.value)} /></Field>
      {session.error && <p class="problem" role="alert">{loginError(session.error)}</p>}
      <button class="primary" type="submit">Log in</button>
    </Form>
  </div></div>;
}

function loginError(text) {
  return text.startsWith('WRONGPASS') ? 'Wrong user name or password, or the user is disabled.' : text;
}

function Shell({ session }) {
  const { page, rest } = useRoute();
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  const current = pages.find(({ name }) => name === page) ?? pages[0];
  const { Component } = current;
  useKeyboard(pages, () => setHelp(true));
  useEffect(() => {
    document.title = `${current.title} · Petrel`;
    setMenu(false);
  }, [current]);
  return <div class={`shell ${menu ? 'menu-open' : ''}`}>
    <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.querySelector('main')?.focus(); }}>Skip to content</a>
    <header class="top">
      <button type="button" class="quiet menu-button" aria-label="Menu" aria-expanded={menu} onClick={() => setMenu(!menu)}>☰</button>
      <Brand />
      <ServerState session={session} />
      <span class="spacer" />
      <Waiting session={session} />
      <Database session={session} />
      <button type="button" class="quiet shortcuts-button" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={() => setHelp(true)}>?</button>
      <ThemeSwitch />
      <button type="button" class="quiet user" title="Log in as another user" onClick={() => session.logout()}><span class="user-name">{session.user}</span> ⏏</button>
    </header>
    <nav aria-label="Pages">{pages.map(({ name, title, key }) => <a key={name} href={`#/${name}`} aria-current={name === current.name ? 'page' : undefined}>{title}<kbd>{key}</kbd></a>)}</nav>
    <div class="content">
      {session.status === 'lost' && <Lost session={session} />}
      {session.status === 'refused' && <Refused session={session} />}
      <Component key={current.name} rest={rest} />
    </div>
    {help && <Help onClose={() => setHelp(false)} />}
  </div>;
}

function ServerState({ session }) {
  const { role, mode, version } = session.server;
  const { info } = useSamples();
  const petrel = info?.server?.petrel_version;
  const roleName = { master: 'primary', slave: 'replica' }[toText(role)] ?? toText(role);
  return <span class="server-state"><i class={`lamp ${session.status}`} aria-hidden="true" />{location.host}
    <small>{[roleName, toText(mode), petrel ? `Petrel ${petrel}` : `Redis ${toText(version)}`].filter(Boolean).join(' · ')}</small></span>;
}

/** Names the command whose reply has been awaited for more than a second. */
function Waiting({ session }) {
  const [text, setText] = useState('');
  useEffect(() => {
    const timer = setInterval(() => {
      const oldest = document.hidden ? null : session.connection?.waiting;
      const seconds = oldest ? (performance.now() - oldest.since) / 1000 : 0;
      setText(seconds > 1 ? `waiting for ${oldest.name.toUpperCase()}, ${Math.floor(seconds)} s` : '');
    }, 500);
    return () => clearInterval(timer);
  }, []);
  return text ? <span class="waiting" role="status">{text}</span> : null;
}

function Database({ session }) {
  const [open, setOpen] = useState(false);
  const [number, setNumber] = useState('');
  return <>
    <button type="button" class="quiet" title="Select another database" onClick={() => { setNumber(String(session.database)); setOpen(true); }}>db {session.database}</button>
    {open && <Dialog title="Database" onClose={() => setOpen(false)}>
      <Form label="Database" onSubmit={async () => { await session.select(number); setOpen(false); }}>
        <Field label="Number"><input type="number" min="0" value={number} data-autofocus onInput={(event) => setNumber(event.currentTarget.value)} /></Field>
        <div class="actions"><button class="primary" type="submit">Select</button></div>
      </Form>
    </Dialog>}
  </>;
}

function Help({ onClose }) {
  return <Dialog title="Keyboard" onClose={onClose}>
    <dl class="shortcuts">
      <dt><kbd>/</kbd></dt><dd>search or filter of the page</dd>
      <dt><kbd>Esc</kbd></dt><dd>close a dialog, leave a field</dd>
      <dt><kbd>?</kbd></dt><dd>this list</dd>
      {pages.map(({ name, title, key }) => <><dt><kbd>g</kbd> <kbd>{key}</kbd></dt><dd><button type="button" class="link" onClick={() => { navigate(name); onClose(); }}>{title}</button></dd></>)}
    </dl>
  </Dialog>;
}
