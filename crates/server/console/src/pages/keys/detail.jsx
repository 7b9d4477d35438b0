// A key: what it is, actions on it, and the view of its type.
import { useState } from 'preact/hooks';
import { Action, Bytes, Card, Empty, Loaded, Tag } from '../../ui/basics.jsx';
import { attempt, confirm } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { navigate, replace, useLoad } from '../../ui/hooks.js';
import { bytes, exact, ttl } from '../../ui/numbers.js';
import { ReplyError } from '../../resp/codec.js';
import { display, toText } from '../../resp/text.js';
import { pipeline, send } from '../../server/session.js';
import { typeName } from '../../server/types.js';
import { keyPath } from './page.jsx';
import { StringValue } from './string.jsx';
import { ListValue } from './list.jsx';
import { HashValue } from './hash.jsx';
import { SetValue } from './set.jsx';
import { SortedSetValue } from './sorted-set.jsx';
import { StreamValue } from './stream.jsx';
import { JsonValue } from './json.jsx';
import { VectorSetValue } from './vector-set.jsx';
import { ArrayValue } from './array.jsx';
import { BloomValue, CountMinValue, CuckooValue, DigestValue, TopKValue } from './sketches.jsx';

/** View of each type, and the command that counts its elements. */
const VIEWS = {
  string: [StringValue, 'STRLEN'],
  list: [ListValue, 'LLEN'],
  hash: [HashValue, 'HLEN'],
  set: [SetValue, 'SCARD'],
  zset: [SortedSetValue, 'ZCARD'],
  stream: [StreamValue, 'XLEN'],
  'ReJSON-RL': [JsonValue, null],
  vectorset: [VectorSetValue, 'VCARD'],
  array: [ArrayValue, 'ARCOUNT'],
  'MBbloom--': [BloomValue, null],
  'MBbloomCF': [CuckooValue, null],
  'CMSk-TYPE': [CountMinValue, null],
  'TopK-TYPE': [TopKValue, null],
  'TDIS-TYPE': [DigestValue, null],
};

async function loadMeta(name) {
  const type = await send('TYPE', name);
  if (type === 'none') return { type };
  const counting = VIEWS[type]?.[1];
  const commands = [['PTTL', name], ['MEMORY', 'USAGE', name, 'SAMPLES', 5], ['OBJECT', 'ENCODING', name]];
  if (counting) commands.push([counting, name]);
  const [expiry, size, encoding, length] = (await pipeline(commands)).map((reply) => (reply instanceof ReplyError ? null : reply));
  return { type, expiry, size, encoding: encoding && toText(encoding), length };
}

export function KeyDetail({ name, onGone, onChanged }) {
  const meta = useLoad(() => loadMeta(name), [name]);
  return <section class="detail-pane" aria-label={`Key ${display(name)}`}>
    <Card class="detail-head">
      <div class="key-title"><button type="button" class="quiet back" aria-label="Back to the list" onClick={() => navigate('keys')}>‹</button><h2 class="mono"><Bytes value={name} max={300} /></h2></div>
      <Loaded state={meta} what="TYPE">{(data) => <Head name={name} meta={data} reload={meta.reload} onGone={onGone} onChanged={onChanged} />}</Loaded>
    </Card>
    {meta.data && <Value name={name} meta={meta.data} reload={meta.reload} />}
  </section>;
}

function Value({ name, meta, reload }) {
  if (meta.type === 'none') return <Card><Empty>This key does not exist (any more).</Empty></Card>;
  const View = VIEWS[meta.type]?.[0];
  if (!View) return <Card><Empty>There is no view for values of type {meta.type}.</Empty></Card>;
  return <View name={name} meta={meta} onChanged={reload} />;
}

function Head({ name, meta, reload, onGone, onChanged }) {
  const [dialog, setDialog] = useState(null);
  const remove = async () => {
    const text = `${display(name)} (${typeName(meta.type)}${meta.size ? `, ${bytes(meta.size)}` : ''}) is deleted for all clients. This cannot be undone.`;
    if (!await confirm({ title: 'Delete key', text, action: 'Delete', danger: true })) return;
    if (await attempt(() => send('UNLINK', name), 'Deleted.')) {
      replace(keyPath(name), 'keys');
      onGone();
    }
  };
  if (meta.type === 'none') return null;
  return <>
    <p class="facts">
      <Tag tone={meta.type}>{typeName(meta.type)}</Tag>
      {meta.length !== undefined && meta.length !== null && <span>{exact(meta.length)} {meta.type === 'string' ? 'bytes' : 'elements'}</span>}
      <span title="MEMORY USAGE">{bytes(meta.size)}</span>
      {meta.encoding && <span title="OBJECT ENCODING">{meta.encoding}</span>}
      <span title="PTTL">{ttl(meta.expiry)}</span>
    </p>
    <div class="actions">
      <Action run={reload}>Reload</Action>
      <button type="button" onClick={() => setDialog('rename')}>Rename</button>
      <button type="button" onClick={() => setDialog('expire')}>Expiry</button>
      <button type="button" class="danger" onClick={remove}>Delete</button>
    </div>
    {dialog === 'rename' && <Rename name={name} onClose={() => setDialog(null)} onDone={(next) => { replace(keyPath(name), keyPath(next)); onChanged(); }} />}
    {dialog === 'expire' && <Expire name={name} expiry={meta.expiry} onClose={() => setDialog(null)} onDone={reload} />}
  </>;
}

function Rename({ name, onClose, onDone }) {
  return <FormDialog title="Rename key" action="Rename" onClose={onClose} fields={[{ name: 'next', label: 'New name', kind: 'bytes', initial: name }]}
    submit={async ({ next }) => {
      if (await send('RENAMENX', name, next) === 0) throw new Error('A key of this name exists already.');
      onDone(next);
    }} />;
}

function Expire({ name, expiry, onClose, onDone }) {
  return <FormDialog title="Expiry" action="Set" onClose={onClose} submit={async ({ seconds }) => {
    const set = seconds.trim() === '' ? send('PERSIST', name) : send('PEXPIRE', name, milliseconds(seconds));
    await set;
    onDone();
  }} fields={[{ name: 'seconds', label: 'Seconds from now', kind: 'number', initial: expiry > 0 ? String(expiry / 1000) : '', hint: 'Empty: the key does not expire.' }]} />;
}

export function milliseconds(seconds) {
  const value = Math.round(1000 * Number(seconds));
  if (!(value > 0)) throw new Error('Seconds must be a number above 0.');
  return value;
}

