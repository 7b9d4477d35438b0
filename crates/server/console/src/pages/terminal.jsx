// Command line: a connection of its own, completion and hints from the command table, replies as in redis-cli.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Page } from '../ui/basics.jsx';
import { useLoad } from '../ui/hooks.js';
import { formatReply } from '../resp/format.js';
import { splitCommand, toText } from '../resp/text.js';
import { commandOf, commandTable, completions, hint } from '../server/commands.js';
import { session } from '../server/session.js';

/** Entries of the transcript and lines of the history that are kept. */
const KEPT = 300;
const REFUSED = new Map([
  ['SYNC', 'The console is not a replica.'], ['PSYNC', 'The console is not a replica.'],
]);

/** Why a command is not sent; empty if it is. */
function refusal(words) {
  const [first, second, third] = words.map((word) => toText(word).toUpperCase());
  if (REFUSED.has(first)) return REFUSED.get(first);
  if (first === 'CLIENT' && second === 'REPLY' && third !== 'ON') return 'The console needs replies.';
  if (first === 'HELLO' && second !== undefined && second !== '3') return 'The console speaks RESP3.';
  return '';
}

/** Transcript, history and connection; they outlast changes of the page. */
class CommandLine extends EventTarget {
  entries = [];
  history = [];
  busy = '';
  database = 0;
  #connection = null;
  #number = 0;
  #scheduled = false;

  #changed() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setTimeout(() => { this.#scheduled = false; this.dispatchEvent(new Event('change')); }, 16);
  }

  #add(kind, text) {
    this.#number += 1;
    this.entries = [...this.entries.slice(1 - KEPT), { id: this.#number, kind, text }];
    this.#changed();
  }

  clear() {
    this.entries = [];
    this.#changed();
  }

  /** Closes the connection, which ends a command that waits, MONITOR and subscriptions. */
  stop() {
    this.#connection?.close();
  }

  async #open() {
    if (this.#connection?.isOpen) return this.#connection;
    this.#connection = await session.openConnection({
      onPush: (node) => this.#add('push', formatReply(node)),
      onClose: () => {
        this.#connection = null;
        this.database = 0;
        this.#add('note', 'connection closed; the next command opens another');
      },
    });
    return this.#connection;
  }

  async run(line) {
    this.history = [...this.history.filter((old) => old !== line), line].slice(-KEPT);
    this.#add('command', line);
    const words = splitCommand(line);
    const reason = words === null ? 'Invalid argument(s): quotes are unbalanced.' : refusal(words);
    if (reason) return this.#add('error', reason);
    if (/^clear$/i.test(line.trim())) return this.clear();
    const name = toText(words[0]).toUpperCase();
    this.busy = name;
    this.#changed();
    try {
      const connection = await this.#open();
      const node = await connection.request(words);
      if (node.type === '+' && name === 'SELECT') this.database = Number(toText(words[1]));
      if (node.type !== '>') this.#add(node.type === '-' ? 'error' : 'reply', formatReply(node));
    } catch (error) {
      this.#add('error', error.message);
    }
    this.busy = '';
    this.#changed();
  }
}

const shell = new CommandLine();
session.addEventListener('change', () => { if (session.status === 'login') { shell.stop(); shell.clear(); } });

export function Terminal() {
  const [, render] = useState(0);
  const end = useRef(null);
  const table = useLoad(commandTable, []);
  useLayoutEffect(() => {
    const update = () => render((count) => count + 1);
    shell.addEventListener('change', update);
    return () => shell.removeEventListener('change', update);
  }, []);
  useEffect(() => { end.current?.scrollIntoView({ block: 'nearest' }); }, [shell.entries]);
  return <Page title="Command line" wide actions={<>
    {shell.busy && <span class="waiting" role="status">waiting for {shell.busy}</span>}
    <button type="button" onClick={() => shell.stop()} title="Closes the connection of the command line">Stop</button>
    <button type="button" onClick={() => shell.clear()}>Clear</button>
  </>}>
    <div class="terminal card">
      <div class="transcript mono" role="log" aria-live="polite" aria-label="Replies" tabindex={0}>
        {shell.entries.length === 0 && <p class="note">Commands are executed as {session.user} on a connection of their own. Tab completes, arrows recall, Stop ends a command that waits.</p>}
        {shell.entries.map(({ id, kind, text }) => <pre key={id} class={kind}>{kind === 'command' ? `> ${text}` : text}</pre>)}
        <div ref={end} />
      </div>
      <Prompt commands={table.data ?? new Map()} />
    </div>
  </Page>;
}

function Prompt({ commands }) {
  const [line, setLine] = useState('');
  const [recalled, setRecalled] = useState(0);
  const input = useRef(null);
  useEffect(() => input.current.focus(), []);
  const found = completions(commands, line);
  const recall = (step) => {
    const at = Math.max(0, Math.min(shell.history.length, recalled + step));
    setRecalled(at);
    setLine(at === 0 ? '' : shell.history.at(-at));
  };
  const complete = (name) => {
    setLine(`${name} `);
    input.current.focus();
  };
  const onKeyDown = (event) => {
    if (event.key === 'Tab' && found.length > 0 && !event.shiftKey) complete(found[0]);
    else if (event.key === 'ArrowUp') recall(1);
    else if (event.key === 'ArrowDown') recall(-1);
    else if (event.key === 'l' && event.ctrlKey) shell.clear();
    else if (event.key === 'c' && event.ctrlKey && input.current.selectionStart === input.current.selectionEnd) shell.stop();
    else return;
    event.preventDefault();
  };
  const submit = (event) => {
    event.preventDefault();
    if (line.trim() === '') return;
    setRecalled(0);
    setLine('');
    shell.run(line);
  };
  const remains = line.endsWith(' ') || found.length === 0 ? hint(commands, line) : '';
  const command = commandOf(commands, line.trim().split(/\s+/));
  return <form class="prompt" onSubmit={submit}>
    <div class="completions" aria-label="Completions">{found.map((name) => <button key={name} type="button" tabindex={-1} onClick={() => complete(name)}>{name}</button>)}</div>
    <div class="prompt-line mono">
      <span class="prompt-mark">{shell.database > 0 ? `[${shell.database}]` : ''}&gt;</span>
      <span class="prompt-field">
        <span class="ghost" aria-hidden="true"><span class="typed">{line}</span>{line.endsWith(' ') ? '' : ' '}{remains}</span>
        <input ref={input} data-search class="mono" value={line} autocomplete="off" autocapitalize="off" spellcheck={false} aria-label="Command" aria-describedby="hint" onInput={(event) => setLine(event.currentTarget.value)} onKeyDown={onKeyDown} />
      </span>
      <button type="submit" class="primary">Run</button>
    </div>
    <p id="hint" class="note">{command ? <><strong>{command.name}</strong> {command.syntax.join(' ')} <br />{command.summary} {command.since && `Since ${command.since}.`}</> : ' '}</p>
  </form>;
}
