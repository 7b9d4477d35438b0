// 20 tasks that read a counter and write it back, each time under a lock that all of them want.
import Redis from 'ioredis';
import Redlock from 'redlock';
import { connection, expect, within } from './common.js';

const TASKS = 20;
const ROUNDS = 10;
const redis = new Redis(connection);
const redlock = new Redlock([redis], { retryCount: 2000, retryDelay: 5, retryJitter: 5 });
let held = 0;

async function task() {
  const own = new Redis(connection);
  for (let round = 0; round < ROUNDS; round++) {
    let lock = await redlock.lock(`lock:${round % 2}`, 20_000);
    const both = await redlock.lock('lock', 20_000);
    expect(++held, 1);
    const before = Number(await own.get('counter'));
    lock = await lock.extend(20_000);
    await own.set('counter', before + 1);
    held--;
    await both.unlock();
    await lock.unlock();
  }
  await own.quit();
}

await within(Promise.all(Array.from({ length: TASKS }, task)), () => 'not all tasks have had the lock');
expect(await redis.get('counter'), String(TASKS * ROUNDS));
expect(await redis.exists('lock', 'lock:0', 'lock:1'), 0);
console.log(`ok ${TASKS * ROUNDS} locks`);
process.exit(0);
