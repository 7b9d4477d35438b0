// 500 jobs, added at once, some of them delayed, for one worker that does 20 at a time.
import Queue from 'bee-queue';
import { JOBS, CONCURRENCY, connection, expect, within } from './common.js';

const queue = new Queue('jobs', { redis: connection, activateDelayedJobs: true, isWorker: true });
const results = new Map();
const done = new Promise((resolve, reject) => {
  queue.on('succeeded', (job, result) => {
    results.set(job.data.n, result);
    if (results.size === JOBS) resolve();
  });
  queue.on('failed', (job, error) => reject(error));
  queue.on('error', reject);
});
queue.process(CONCURRENCY, async (job) => job.data.n * 2);
const jobs = Array.from({ length: JOBS }, (_, n) => {
  const job = queue.createJob({ n });
  return n % 10 === 0 ? job.delayUntil(Date.now() + 100) : job;
});
const saved = queue.saveAll(jobs).then((errors) => expect(errors.size, 0));
await within(Promise.all([saved, done]), () => `${results.size} of ${JOBS} jobs are done`);
for (const [n, result] of results) expect(result, n * 2);
const health = await queue.checkHealth();
expect([health.succeeded, health.active, health.waiting, health.failed, health.delayed].join(), `${JOBS},0,0,0,0`);
console.log(`ok ${JOBS} jobs`);
process.exit(0);
