// 500 jobs with priorities, added at once, for one worker that does 20 at a time.
import { Queue, Worker } from 'bullmq';
import { JOBS, CONCURRENCY, connection, expect, within } from './common.js';

const queue = new Queue('jobs', { connection });
const worker = new Worker('jobs', async (job) => job.data.n * 2, { connection, concurrency: CONCURRENCY });
const results = new Map();
const done = new Promise((resolve, reject) => {
  worker.on('completed', (job, result) => {
    results.set(job.data.n, result);
    if (results.size === JOBS) resolve();
  });
  worker.on('failed', (job, error) => reject(error));
  worker.on('error', reject);
  queue.on('error', reject);
});
await worker.waitUntilReady();
const jobs = Array.from({ length: JOBS }, (_, n) => ({ name: 'double', data: { n }, opts: { priority: 1 + (n % 10) } }));
await within(Promise.all([queue.addBulk(jobs), done]), () => `${results.size} of ${JOBS} jobs are done`);
for (const [n, result] of results) expect(result, n * 2);
const counts = await queue.getJobCounts();
expect([counts.completed, counts.active, counts.waiting, counts.prioritized, counts.failed].join(), `${JOBS},0,0,0,0`);
await worker.close();
await queue.close();
console.log(`ok ${JOBS} jobs`);
process.exit(0);
