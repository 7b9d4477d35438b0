// Strings: whole if short, else in pieces.
import { useRef, useState } from 'preact/hooks';
import { Card, Form, Loaded } from '../../ui/basics.jsx';
import { BytesInput } from '../../ui/bytes-input.jsx';
import { notify } from '../../ui/feedback.jsx';
import { useLoad } from '../../ui/hooks.js';
import { Pager } from '../../ui/paging.jsx';
import { equal } from '../../resp/text.js';
import { Changed, changeIfSame } from '../../server/edit.js';
import { send } from '../../server/session.js';

/** Bytes that are shown at once. */
const PIECE = 32 * 1024;

export function StringValue({ name, meta, onChanged }) {
  return meta.length > PIECE ? <Pieces name={name} length={meta.length} /> : <Whole name={name} meta={meta} onChanged={onChanged} />;
}

function Whole({ name, meta, onChanged }) {
  const value = useLoad(() => send('GET', name), [name, meta]);
  return <Card title="Value"><Loaded state={value} what="GET">{(bytes) => bytes && <Editor key={value.data} bytes={bytes} save={async (next) => {
    if (await send('SET', name, next, 'IFEQ', bytes, 'KEEPTTL') === null) throw new Changed();
    onChanged();
  }} />}</Loaded></Card>;
}

function Pieces({ name, length }) {
  const [offset, setOffset] = useState(0);
  const end = offset + PIECE - 1;
  const piece = useLoad(() => send('GETRANGE', name, offset, end), [name, offset]);
  const save = async (bytes, next) => {
    if (next.length !== bytes.length) throw new Error(`A piece of a long string keeps its length: it has ${bytes.length} bytes, not ${next.length}.`);
    await changeIfSame(name, ['GETRANGE', name, offset, end], (now) => equal(now, bytes), [['SETRANGE', name, offset, next]]);
    await piece.reload();
  };
  return <Card title="Value" note="bytes, in pieces">
    <Pager offset={offset} size={PIECE} total={length} onChange={setOffset} />
    <Loaded state={piece} what="GETRANGE">{(bytes) => <Editor key={bytes} bytes={bytes} save={(next) => save(bytes, next)} />}</Loaded>
  </Card>;
}

function Editor({ bytes, save }) {
  const handle = useRef(null);
  const [edition, setEdition] = useState(0);
  const submit = async () => {
    await save(handle.current.bytes());
    notify('Saved.');
  };
  return <Form label="Value" onSubmit={submit}>
    <BytesInput key={edition} handle={handle} initial={bytes} label="Value" rows={12} />
    <div class="actions"><button type="button" onClick={() => setEdition(edition + 1)}>Revert</button><button type="submit" class="primary">Save</button></div>
  </Form>;
}
