// Bounded scans of collections.
import { toBytes } from '../../resp/text.js';
import { isEnd } from '../../server/scan.js';
import { send } from '../../server/session.js';

const WANTED = 50;
const COUNT = 100;
/** Calls for one page: a pattern that matches little must not walk the whole collection. */
const MAX_CALLS = 200;

/** One page of HSCAN, SSCAN or ZSCAN: `{ elements, cursor }`. */
export async function scanElements(command, name, { cursor, pattern, isStale, extra = [] }) {
  const glob = pattern === '' ? [] : ['MATCH', toBytes(/[*?[]/.test(pattern) ? pattern : `*${pattern}*`)];
  const elements = [];
  let at = cursor ?? '0';
  for (let call = 0; call < MAX_CALLS && elements.length < WANTED && !isStale(); call += 1) {
    const [next, found] = await send(command, name, at, 'COUNT', COUNT, ...glob, ...extra);
    at = next;
    elements.push(...found);
    if (isEnd(at)) break;
  }
  return { elements, cursor: at };
}
