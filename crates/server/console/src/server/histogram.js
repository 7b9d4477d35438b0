// Latency histograms: differences between two replies of LATENCY HISTOGRAM, and percentiles of them.
import { toObject } from '../resp/codec.js';
import { toText } from '../resp/text.js';

/** Commands that this console sends by itself; left out of totals. */
const OWN = new Set(['info', 'latency|histogram', 'latency|latest', 'hello', 'command|docs', 'acl|whoami']);

/** Parses LATENCY HISTOGRAM to cumulative calls by upper bound in µs, per command. */
export function parseHistograms(reply) {
  const commands = new Map();
  for (const [name, fields] of reply) {
    const { histogram_usec: buckets } = toObject(fields);
    commands.set(toText(name), new Map(buckets.map(([bound, calls]) => [Number(bound), Number(calls)])));
  }
  return commands;
}

// Calls below or at `bound`: cumulative counts are reported only where they change.
function cumulativeAt(buckets, bound) {
  let calls = 0;
  for (const [upper, number] of buckets) if (upper <= bound) calls = number;
  return calls;
}

/** Calls between two replies, by log2 of the bucket's upper bound; all commands but the console's. */
export function difference(before, after) {
  const total = new Map();
  for (const [name, buckets] of after) {
    if (OWN.has(name)) continue;
    const old = before.get(name) ?? new Map();
    // After CONFIG RESETSTAT counts are lower than before; all of them are new then.
    const wasReset = last(old) > last(buckets);
    let below = 0;
    for (const [bound, calls] of buckets) {
      const added = calls - (wasReset ? 0 : cumulativeAt(old, bound));
      if (added > below) {
        const exponent = Math.max(0, Math.round(Math.log2(bound)));
        total.set(exponent, (total.get(exponent) ?? 0) + added - below);
      }
      below = Math.max(below, added);
    }
  }
  return total;
}

const last = (buckets) => Math.max(0, ...buckets.values());

/** Percentile in µs, interpolated within its bucket; null without calls. */
export function percentile(buckets, share) {
  const sorted = [...buckets].sort(([a], [b]) => a - b);
  const total = sorted.reduce((sum, [, calls]) => sum + calls, 0);
  if (total === 0) return null;
  let seen = 0;
  for (const [exponent, calls] of sorted) {
    if (seen + calls >= share * total) {
      const inside = (share * total - seen) / calls;
      return 2 ** (exponent - 1 + inside);
    }
    seen += calls;
  }
  return 2 ** sorted.at(-1)[0];
}
