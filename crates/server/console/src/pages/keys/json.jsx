// JSON as a tree. Each node is read when it is opened, its children a page at a time.
import { useState } from 'preact/hooks';
import { Card, Loaded, Problem } from '../../ui/basics.jsx';
import { attempt, confirm } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { useLoad } from '../../ui/hooks.js';
import { bytes, exact } from '../../ui/numbers.js';
import { ReplyError } from '../../resp/codec.js';
import { toText } from '../../resp/text.js';
import { pipeline, send } from '../../server/session.js';
import { RowActions } from './row-actions.jsx';

const PAGE = 50;
/** Bytes up to which a string is shown, and memory up to which a value is edited as JSON. */
const SHOWN = 2000;
const EDITED = 256 * 1024;
/** Members up to which an object is listed: JSON.OBJKEYS cannot be asked for a part of them. */
const LISTED = 20_000;

const member = (path, name) => `${path}[${JSON.stringify(name)}]`;
const isContainer = (type) => type === 'object' || type === 'array';
const first = (reply) => (reply instanceof ReplyError || reply === null ? null : reply[0]);
// In RESP3 the types are nested once more than other replies.
const typeOf = (reply) => {
  const type = [first(reply)].flat()[0];
  return type === null || type === undefined ? null : toText(type);
};

/** Reads type, length and, if short, the value at each of the paths. */
async function readNodes(name, children) {
  const types = (await pipeline(children.map(({ path }) => ['JSON.TYPE', name, path]))).map(typeOf);
  const lengths = (await pipeline(children.map(({ path }, at) => [{ object: 'JSON.OBJLEN', array: 'JSON.ARRLEN', string: 'JSON.STRLEN' }[types[at]] ?? 'JSON.TYPE', name, path]))).map(first);
  const read = children.map((_, at) => types[at] && !isContainer(types[at]) && !(types[at] === 'string' && lengths[at] > SHOWN));
  const values = await pipeline(children.filter((_, at) => read[at]).map(({ path }) => ['JSON.GET', name, path]));
  let next = 0;
  return children.map((child, at) => {
    const value = read[at] ? values[next++] : null;
    return { ...child, type: types[at], length: lengths[at], text: value instanceof Uint8Array ? toText(value).slice(1, -1) : null };
  }).filter(({ type }) => type !== null);
}

/** The one match in an indented reply of JSON.GET: without the array around it, and a level less indented. */
const matchOf = (text) => text.slice(1, -1).replace(/^\n/, '').replace(/\n$/, '').replace(/^ {2}/gm, '');

async function readChildren(name, node, offset) {
  if (node.type === 'array') {
    const end = Math.min(node.length, offset + PAGE);
    const indexes = Array.from({ length: Math.max(0, end - offset) }, (_, at) => offset + at);
    return { total: node.length, nodes: await readNodes(name, indexes.map((index) => ({ label: String(index), path: `${node.path}[${index}]` }))) };
  }
  if (node.length > LISTED) throw new Error(`This object has ${exact(node.length)} members, too many to list. Ask for one with JSON.GET on the command line.`);
  const keys = (first(await send('JSON.OBJKEYS', name, node.path)) ?? []).map(toText);
  return { total: keys.length, nodes: await readNodes(name, keys.slice(offset, offset + PAGE).map((key) => ({ label: JSON.stringify(key), path: member(node.path, key) }))) };
}

export function JsonValue({ name, meta, onChanged }) {
  const [dialog, setDialog] = useState(null);
  const root = useLoad(async () => (await readNodes(name, [{ label: '$', path: '$' }]))[0], [name, meta]);
  const edit = (node) => attempt(async () => {
    const size = await send('JSON.DEBUG', 'MEMORY', name, node.path).then((sizes) => sizes[0], () => 0);
    if (size > EDITED) throw new Error(`This value takes ${bytes(size)}; open it and edit a part of it.`);
    const text = toText(await send('JSON.GET', name, 'INDENT', '  ', 'NEWLINE', '\n', 'SPACE', ' ', node.path));
    setDialog({ kind: 'edit', node, text: matchOf(text) });
  });
  const remove = async (node) => {
    if (!await confirm({ title: 'Delete value', text: `${node.path} is removed from the document.`, action: 'Delete', danger: true })) return;
    await attempt(() => send('JSON.DEL', name, node.path), 'Deleted.');
    onChanged();
  };
  const actions = { edit, remove, add: (node) => setDialog({ kind: 'add', node }) };
  return <Card title="Document">
    <Loaded state={root} what="JSON.TYPE">{(node) => <ul class="tree" role="tree" aria-label="JSON document">{node && <Node key={meta} name={name} node={node} actions={actions} open />}</ul>}</Loaded>
    {dialog && <NodeDialog name={name} {...dialog} onClose={() => setDialog(null)} onChanged={onChanged} />}
  </Card>;
}

function Node({ name, node, actions, open: initiallyOpen = false }) {
  const container = isContainer(node.type);
  const [open, setOpen] = useState(initiallyOpen && container);
  return <li role="treeitem" aria-expanded={container ? open : undefined}>
    <div class="tree-row">
      {container ? <button type="button" class="quiet twist" aria-label={`${open ? 'Close' : 'Open'} ${node.path}`} onClick={() => setOpen(!open)}>{open ? '▾' : '▸'}</button> : <span class="twist" />}
      <span class="tree-label">{node.label}</span>
      <span class={`tree-value ${node.type}`}>{summary(node)}</span>
      <span class="row-actions">
        {container && <button type="button" class="quiet" aria-label={`Add to ${node.path}`} title="Add" onClick={() => actions.add(node)}>+</button>}
        <RowActions edit={() => actions.edit(node)} remove={node.path === '$' ? null : () => actions.remove(node)} what={node.path} />
      </span>
    </div>
    {open && <Children name={name} node={node} actions={actions} />}
  </li>;
}

function summary({ type, length, text }) {
  if (type === 'object') return `{ ${exact(length)} }`;
  if (type === 'array') return `[ ${exact(length)} ]`;
  return text ?? `string of ${bytes(length)}`;
}

function Children({ name, node, actions }) {
  const [offset, setOffset] = useState(0);
  const state = useLoad(() => readChildren(name, node, offset), [name, node, offset]);
  if (state.data === undefined) return state.error ? <Problem error={state.error} what="JSON.GET" /> : <p class="note" aria-busy="true">reading …</p>;
  const { total, nodes } = state.data;
  return <ul role="group">
    {offset > 0 && <li><button type="button" class="link" onClick={() => setOffset(Math.max(0, offset - PAGE))}>earlier ones</button></li>}
    {nodes.map((child) => <Node key={child.path} name={name} node={child} actions={actions} />)}
    {total > offset + PAGE && <li><button type="button" class="link" onClick={() => setOffset(offset + PAGE)}>{exact(total - offset - PAGE)} more</button></li>}
  </ul>;
}

function NodeDialog({ name, kind, node, text, onClose, onChanged }) {
  if (kind === 'edit') {
    return <FormDialog title={node.path} onClose={onClose} fields={[{ name: 'json', label: 'JSON', kind: 'lines', rows: 12, initial: text }]} submit={async ({ json }) => {
      await send('JSON.SET', name, node.path, checked(json));
      onChanged();
    }} />;
  }
  const fields = node.type === 'object' ? [{ name: 'label', label: 'Name' }] : [];
  return <FormDialog title={`Add to ${node.path}`} action="Add" onClose={onClose} fields={[...fields, { name: 'json', label: 'JSON', kind: 'lines', rows: 6 }]} submit={async ({ label, json }) => {
    if (node.type === 'array') await send('JSON.ARRAPPEND', name, node.path, checked(json));
    else if (await send('JSON.SET', name, member(node.path, label), checked(json), 'NX') === null) throw new Error('There is a member of this name already.');
    onChanged();
  }} />;
}

/** Returns JSON text as it is, so that long numbers keep their digits; throws if it is not JSON. */
export function checked(text) {
  JSON.parse(text);
  return text;
}
