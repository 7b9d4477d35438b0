// Paging: by cursor for scans, by offset for what has ranks.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { useSession } from './hooks.js';
import { exact } from './numbers.js';

/** Rows that stay loaded; the oldest are dropped when more are asked for. */
const MAX_ROWS = 1000;

/** Elements per page, fewer if they are large on average. */
export function pageSize(bytes, elements) {
  const average = elements > 0 && bytes > 0 ? bytes / elements : 1;
  return Math.max(1, Math.min(100, Math.floor((512 * 1024) / average)));
}

/**
 * Rows of a walk by cursor. `load({ cursor, isStale, onProgress })` resolves to `{ rows, cursor, done }`.
 * The walk begins again when `deps` change.
 */
export function useCursor(load, deps) {
  const blank = { rows: [], cursor: null, done: false, loading: true, error: null, progress: null, dropped: 0 };
  const [state, setState] = useState(blank);
  const walk = useRef(0);
  const { generation } = useSession();
  const run = useCallback(async (cursor, old) => {
    const number = (walk.current += 1);
    const isStale = () => number !== walk.current;
    setState({ ...old, loading: true, error: null, progress: null });
    try {
      const onProgress = (progress) => { if (!isStale()) setState((now) => ({ ...now, progress })); };
      const page = await load({ cursor, isStale, onProgress });
      if (isStale()) return;
      const rows = [...old.rows, ...page.rows];
      const excess = Math.max(0, rows.length - MAX_ROWS);
      setState({ rows: rows.slice(excess), dropped: old.dropped + excess, cursor: page.cursor, done: page.done, loading: false, error: null, progress: null });
    } catch (error) {
      if (!isStale()) setState({ ...old, loading: false, error });
    }
  }, deps);
  const reload = useCallback(() => run(null, blank), [run]);
  useEffect(() => {
    reload();
    return () => { walk.current += 1; };
  }, [reload, generation]);
  const stop = () => {
    walk.current += 1;
    setState((old) => ({ ...old, loading: false, done: false }));
  };
  const change = (edit) => setState((old) => ({ ...old, rows: edit(old.rows) }));
  return { ...state, reload, stop, change, more: () => run(state.cursor, state) };
}

/** Button and note below the rows of `useCursor`. */
export function More({ walk, total }) {
  const { rows, dropped, done, loading, progress } = walk;
  return <div class="pager">
    <span class="note">{exact(dropped + rows.length)}{total !== undefined && total !== null ? ` of ${exact(total)}` : ''} shown{dropped > 0 ? `, the first ${exact(dropped)} are no longer listed` : ''}{loading && progress ? `; ${exact(progress.looked)} looked at` : ''}</span>
    {loading && <><span class="note" aria-busy="true">loading …</span><button type="button" onClick={walk.stop}>Stop</button></>}
    {!loading && !done && <button type="button" onClick={walk.more}>More</button>}
  </div>;
}

/** Buttons for pages by offset. */
export function Pager({ offset, size, total, onChange }) {
  const lastPage = Math.max(0, Math.floor((total - 1) / size) * size);
  if (total <= size) return <div class="pager"><span class="note">{exact(total)} in all</span></div>;
  return <div class="pager">
    <button type="button" disabled={offset === 0} onClick={() => onChange(0)} aria-label="First page">«</button>
    <button type="button" disabled={offset === 0} onClick={() => onChange(Math.max(0, offset - size))} aria-label="Previous page">‹</button>
    <span class="note">{exact(offset)} to {exact(Math.min(offset + size, total) - 1)} of {exact(total)}</span>
    <button type="button" disabled={offset >= lastPage} onClick={() => onChange(offset + size)} aria-label="Next page">›</button>
    <button type="button" disabled={offset >= lastPage} onClick={() => onChange(lastPage)} aria-label="Last page">»</button>
  </div>;
}
