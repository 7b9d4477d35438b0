// Hooks: session state, loading, polling, the address bar.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { session } from '../server/session.js';

/** Renders again when the session changes. */
export function useSession() {
  const [, render] = useState(0);
  useLayoutEffect(() => {
    const update = () => render((count) => count + 1);
    session.addEventListener('change', update);
    return () => session.removeEventListener('change', update);
  }, []);
  return session;
}

/**
 * Loads data when `deps` change and after each login. `load(isStale)` may ask whether a newer load has begun.
 * Data stays shown while it is loaded again.
 */
export function useLoad(load, deps) {
  const [state, setState] = useState({ data: undefined, error: null, loading: true });
  const latest = useRef(0);
  const { generation } = useSession();
  const reload = useCallback(async () => {
    const number = (latest.current += 1);
    const isStale = () => number !== latest.current;
    setState((old) => ({ ...old, loading: true }));
    try {
      const data = await load(isStale);
      if (!isStale()) setState({ data, error: null, loading: false });
    } catch (error) {
      if (!isStale()) setState((old) => ({ data: old.data, error, loading: false }));
    }
  }, deps);
  useEffect(() => {
    if (session.status === 'ready') reload();
    return () => { latest.current += 1; };
  }, [reload, generation]);
  return { ...state, reload };
}

/** Calls `action` now and `period` ms after each call has ended, while the tab is visible and the session ready. */
export function usePoll(action, period, deps = []) {
  const { status } = useSession();
  useEffect(() => {
    if (status !== 'ready' || period <= 0) return undefined;
    let timer = 0;
    let stopped = false;
    let running = false;
    const turn = async () => {
      clearTimeout(timer);
      if (running || stopped || document.hidden) return;
      running = true;
      try {
        await action();
      } finally {
        running = false;
        if (!stopped && !document.hidden) timer = setTimeout(turn, period);
      }
    };
    const onVisible = () => { if (!document.hidden) turn(); };
    document.addEventListener('visibilitychange', onVisible);
    turn();
    return () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisible);
    };
  }, [status, period, ...deps]);
}

/** Data that is loaded again every `period` ms. */
export function usePolled(load, period, deps = []) {
  const state = useLoad(load, deps);
  const first = useRef(true);
  usePoll(async () => {
    if (first.current) first.current = false;
    else await state.reload();
  }, period, deps);
  return state;
}

export function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useLayoutEffect(() => {
    const update = () => setHash(location.hash);
    addEventListener('hashchange', update);
    return () => removeEventListener('hashchange', update);
  }, []);
  const [page, ...rest] = hash.replace(/^#\/?/, '').split('/');
  return { page: page || 'overview', rest: rest.join('/') };
}

export const navigate = (path) => { location.hash = `#/${path}`; };

/** Goes from one place to another; nothing if the user has left `from` meanwhile. */
export function replace(from, to) {
  if (location.hash === `#/${from}`) navigate(to);
}
