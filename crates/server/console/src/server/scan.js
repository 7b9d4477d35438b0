// Bounded walks over the keyspace.
import { ReplyError } from '../resp/codec.js';
import { pipeline, send } from './session.js';

/** Keys that one call of SCAN looks at: more where not all of them are wanted. */
const STEP = 100;
const FILTERED_STEP = 1000;

/**
 * Scans from `cursor` until `wanted` keys are found, `limit` keys have been looked at, or `isStale()`.
 * Resolves to `{ keys, cursor, looked }`; cursor '0' means that the end was reached.
 */
export async function scan({ cursor = '0', pattern, type, wanted, limit, isStale = () => false, onProgress = () => {} }) {
  const keys = [];
  let looked = 0;
  const step = pattern || type ? FILTERED_STEP : STEP;
  let at = cursor;
  do {
    const args = ['SCAN', at, 'COUNT', step];
    if (pattern) args.push('MATCH', pattern);
    if (type) args.push('TYPE', type);
    const [next, found] = await send(...args);
    at = next;
    looked += step;
    keys.push(...found);
    onProgress({ looked, found: keys.length });
    if (isEnd(at)) break;
  } while (keys.length < wanted && looked < limit && !isStale());
  return { keys, cursor: at, looked };
}

/** Whether a cursor returned by the server ends the scan. */
export const isEnd = (cursor) => (cursor instanceof Uint8Array ? cursor.length === 1 && cursor[0] === 48 : String(cursor) === '0');

/** Types, expiries and sizes of keys, in one round trip; null where the user may not ask. */
export async function describe(keys) {
  const replies = await pipeline(keys.flatMap((key) => [['TYPE', key], ['PTTL', key], ['MEMORY', 'USAGE', key, 'SAMPLES', 5]]));
  const value = (reply) => (reply instanceof ReplyError ? null : reply);
  return keys.map((key, at) => ({ key, type: value(replies[3 * at]), ttl: value(replies[3 * at + 1]), size: value(replies[3 * at + 2]) }));
}
