// ioredis as a client of Redis Cluster: three members, of which one is killed while the client writes.
//
// PETREL_CLUSTER is the port of a member, PETREL_VICTIM_PID the process of another. Prints `ok NAME` or `FAIL NAME: why`.

import assert from "node:assert/strict";
import { Cluster } from "ioredis";

const KEYS = 60;
const PATIENCE_MS = 45_000;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function commands(client) {
    for (let n = 0; n < KEYS; n++) await client.set(`key${n}`, n);
    for (let n = 0; n < KEYS; n++) assert.equal(await client.get(`key${n}`), String(n));
    assert.equal(client.nodes("master").length, 3);
    const reply = await client.multi().set("{tag}a", 1).incr("{tag}a").exec();
    assert.deepEqual(reply, [[null, "OK"], [null, 2]]);
}

async function failover(client) {
    const counts = [];
    process.kill(Number(process.env.PETREL_VICTIM_PID), "SIGKILL");
    const deadline = Date.now() + PATIENCE_MS;
    for (let n = 0; n < KEYS; n++) {
        for (;;) {
            try {
                counts[n] = await client.incr(`count${n}`);
                break;
            } catch (error) {
                assert(Date.now() < deadline, `no write after ${PATIENCE_MS} ms: ${error}`);
                await sleep(20);
            }
        }
    }
    for (let n = 0; n < KEYS; n++) {
        const now = Number(await client.get(`count${n}`));
        assert(now >= counts[n] && counts[n] > 0);
    }
    assert.equal(await client.get("key7"), "7", "a write before the failure is lost");
}

const client = new Cluster([{ host: "127.0.0.1", port: Number(process.env.PETREL_CLUSTER) }]);
client.on("error", () => {});
for (const [name, run] of [["commands of a cluster client", commands], ["a member is killed", failover]]) {
    try {
        await run(client);
        console.log(`ok ${name}`);
    } catch (error) {
        console.log(`FAIL ${name}: ${error}`);
    }
}
client.disconnect();
