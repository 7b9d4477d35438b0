// Keys: a list by pattern and type, and the value of the selected key beside it.
import { useRef, useState } from 'preact/hooks';
import { Page, Problem, Select, Table, Tag } from '../../ui/basics.jsx';
import { Bytes } from '../../ui/basics.jsx';
import { More, useCursor } from '../../ui/paging.jsx';
import { navigate, useLoad } from '../../ui/hooks.js';
import { bytes, ttl } from '../../ui/numbers.js';
import { fromPath, toPath, unescapeBytes } from '../../resp/text.js';
import { describe, isEnd, scan } from '../../server/scan.js';
import { send } from '../../server/session.js';
import { TYPES, typeName } from '../../server/types.js';
import { KeyDetail } from './detail.jsx';
import { CreateKey } from './create.jsx';

/** Keys that are found per page, and keys that are looked at for one. */
const WANTED = 100;
const LIMIT = 200_000;

export const keyPath = (key) => `keys/=${toPath(key)}`;

/** A pattern with escapes such as \x00 as bytes; glob escapes such as \* stay. */
function patternBytes(text) {
  return unescapeBytes(text.replace(/\\(?!x[0-9a-fA-F]{2})/g, '\\\\'));
}

export function Keys({ rest }) {
  const [pattern, setPattern] = useState('');
  const [type, setType] = useState('');
  const [creating, setCreating] = useState(false);
  const search = useRef(null);
  const total = useLoad(() => send('DBSIZE'), []);
  const walk = useCursor(async ({ cursor, isStale, onProgress }) => {
    const glob = pattern === '' ? undefined : patternBytes(/[*?[]/.test(pattern) ? pattern : `*${pattern}*`);
    const page = await scan({ cursor: cursor ?? '0', pattern: glob, type, wanted: WANTED, limit: LIMIT, isStale, onProgress });
    return { rows: await describe(page.keys), cursor: page.cursor, done: isEnd(page.cursor) };
  }, [pattern, type]);
  const selected = rest.startsWith('=') ? fromPath(rest.slice(1)) : null;
  const submit = (event) => {
    event.preventDefault();
    if (search.current.value === pattern) walk.reload();
    else setPattern(search.current.value);
  };
  const changed = () => { total.reload(); walk.reload(); };
  return <Page title="Keys" wide actions={<button type="button" class="primary" onClick={() => setCreating(true)}>New key</button>}>
    <div class={`split ${selected ? 'has-detail' : ''}`}>
      <section class="card list-pane" aria-label="List of keys">
        <form class="toolbar" role="search" onSubmit={submit}>
          <input ref={search} type="search" data-search class="mono grow" placeholder="Pattern, such as user:*" aria-label="Pattern" />
          <Select label="Type" value={type} onChange={setType} options={[['', 'any type'], ...TYPES]} />
          <button type="submit">Search</button>
        </form>
        <Problem error={walk.error} what="SCAN" />
        <KeyTable rows={walk.rows} selected={rest.slice(1)} loading={walk.loading} />
        <More walk={walk} total={pattern === '' && type === '' ? total.data : undefined} />
      </section>
      {selected && <KeyDetail key={rest} name={selected} onGone={changed} onChanged={changed} />}
      {!selected && <p class="empty detail-pane">Select a key to see its value.</p>}
    </div>
    {creating && <CreateKey onClose={() => setCreating(false)} onCreated={(key) => { changed(); navigate(keyPath(key)); }} />}
  </Page>;
}

function KeyTable({ rows, selected, loading }) {
  return <Table label="Keys" rows={rows} rowKey={({ key }) => toPath(key)} selected={selected} empty={loading ? 'Looking for keys …' : 'No key found.'}
    onRow={({ key }) => navigate(keyPath(key))} columns={[
      { name: 'Key', cell: ({ key }) => <a href={`#/${keyPath(key)}`} class="mono"><Bytes value={key} max={80} /></a>, class: 'wide-cell' },
      { name: 'Type', cell: ({ type }) => <Tag tone={type}>{typeName(type)}</Tag> },
      { name: 'Size', cell: ({ size }) => bytes(size), class: 'number', sort: ({ size }) => size },
      { name: 'TTL', cell: ({ ttl: ms }) => (ms === -1 ? '' : ttl(ms)), class: 'number', sort: ({ ttl: ms }) => ms },
    ]} />;
}
