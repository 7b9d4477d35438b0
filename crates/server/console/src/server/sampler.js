// Samples of INFO and LATENCY HISTOGRAM, kept for ten minutes. Nothing is sampled while the tab is hidden.
import { useLayoutEffect, useState } from 'preact/hooks';
import { usePoll } from '../ui/hooks.js';
import { toText } from '../resp/text.js';
import { ReplyError } from '../resp/codec.js';
import { parseInfo, parsePairs } from './info.js';
import { difference, parseHistograms, percentile } from './histogram.js';
import { pipeline } from './session.js';

const PERIOD = 2000;
/** Number of samples that are kept: ten minutes. */
const CAPACITY = 300;

class Sampler extends EventTarget {
  samples = [];
  info = null;
  error = null;
  latencyError = null;
  #before = null;

  async sample() {
    let info;
    let latency;
    try {
      [info, latency] = await pipeline([['INFO', 'everything'], ['LATENCY', 'HISTOGRAM']]);
    } catch {
      this.#before = null;
      return;
    }
    this.error = info instanceof ReplyError ? info : null;
    this.latencyError = latency instanceof ReplyError ? latency : null;
    if (!this.error) this.#add(parseInfo(toText(info)), this.latencyError ? new Map() : parseHistograms(latency));
    this.dispatchEvent(new Event('sample'));
  }

  #add(info, histograms) {
    const now = Date.now() / 1000;
    const before = this.#before;
    this.info = info;
    this.#before = { now, info, histograms };
    // Rates need two samples of the same process.
    if (!before || before.info.server?.run_id !== info.server?.run_id) return;
    const buckets = difference(before.histograms, histograms);
    this.samples = [...this.samples.slice(1 - CAPACITY), { time: now, buckets, ...rates(before, { now, info }, buckets) }];
  }
}

function rates(before, after, buckets) {
  const seconds = after.now - before.now;
  const rate = (section, field) => Math.max(0, (Number(after.info[section]?.[field]) - Number(before.info[section]?.[field])) / seconds);
  const hits = rate('stats', 'keyspace_hits');
  const misses = rate('stats', 'keyspace_misses');
  return {
    operations: rate('stats', 'total_commands_processed'),
    input: rate('stats', 'total_net_input_bytes'),
    output: rate('stats', 'total_net_output_bytes'),
    hits,
    misses,
    hitRate: hits + misses > 0 ? hits / (hits + misses) : null,
    memory: Number(after.info.memory?.used_memory),
    resident: Number(after.info.memory?.used_memory_rss),
    user: rate('cpu', 'used_cpu_user'),
    system: rate('cpu', 'used_cpu_sys'),
    clients: Number(after.info.clients?.connected_clients),
    expired: rate('stats', 'expired_keys'),
    evicted: rate('stats', 'evicted_keys'),
    p50: percentile(buckets, 0.5),
    p99: percentile(buckets, 0.99),
    p999: percentile(buckets, 0.999),
    workers: workerRates(before, after, seconds),
  };
}

function workerRates(before, after, seconds) {
  return workers(after.info).map(({ name, fields }) => {
    const old = parsePairs(before.info.threads?.[name] ?? '');
    const rate = (field) => (fields[field] - (old[field] ?? fields[field])) / seconds;
    return { name, clients: fields.clients, reads: rate('reads'), writes: rate('writes'), cpu: rate('cpu_sys') + rate('cpu_user') };
  });
}

/** Workers in INFO threads: `io_thread_N:clients=..,reads=..,writes=..,cpu_sys=..,cpu_user=..`. */
export function workers(info) {
  return Object.entries(info.threads ?? {}).filter(([name]) => /^io_thread_\d+$/.test(name)).map(([name, text]) => ({ name, fields: parsePairs(text) }));
}

export const sampler = new Sampler();

/** Samples while the console is shown. */
export function useSampler() {
  usePoll(() => sampler.sample(), PERIOD);
}

/** The sampler; renders again with each sample. */
export function useSamples() {
  const [, render] = useState(0);
  useLayoutEffect(() => {
    const update = () => render((count) => count + 1);
    sampler.addEventListener('sample', update);
    return () => sampler.removeEventListener('sample', update);
  }, []);
  return sampler;
}
