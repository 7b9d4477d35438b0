// 500 jobs with priorities, added at once, for one worker that does 20 at a time.
import Queue from 'bull';
import { JOBS, CONCURRENCY, connection, expect, within } from './common.js';

const queue = new Queue('jobs', { redis: connection });
const results = new Map();
const done = new Promise((resolve, reject) => {
  queue.on('completed', (job, result) => {
    results.set(job.data.n, result);
    if (results.size === JOBS) resolve();
  });
  queue.on('failed', (job, error) => reject(error));
  queue.on('error', reject);
});
queue.process('double', CONCURRENCY, async (job) => job.data.n * 2).catch((error) => console.log(error));
const jobs = Array.from({ length: JOBS }, (_, n) => ({ name: 'double', data: { n }, opts: { priority: 1 + (n % 10) } }));
await within(Promise.all([queue.addBulk(jobs), done]), () => `${results.size} of ${JOBS} jobs are done`);
for (const [n, result] of results) expect(result, n * 2);
const counts = await queue.getJobCounts();
expect([counts.completed, counts.active, counts.waiting, counts.failed].join(), `${JOBS},0,0,0`);
console.log(`ok ${JOBS} jobs`);
process.exit(0);
