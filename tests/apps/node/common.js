export const JOBS = 500;
export const CONCURRENCY = 20;
export const connection = { host: '127.0.0.1', port: Number(process.env.PETREL_PORT) };

// Seconds that a workload of some hundred milliseconds may take; far below those after which a library looks for jobs that
// were lost.
const SECONDS = 20;

export function expect(found, wanted) {
  if (found !== wanted) throw new Error(`${found} where ${wanted} was expected`);
}

export function within(promise, what) {
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`after ${SECONDS} s ${what()}`)), SECONDS * 1000);
  });
  return Promise.race([promise, late]);
}

process.on('unhandledRejection', (error) => {
  console.log(`FAIL ${error?.message ?? error}`);
  process.exit(1);
});
process.on('uncaughtException', (error) => {
  console.log(`FAIL ${error.message}`);
  process.exit(1);
});
