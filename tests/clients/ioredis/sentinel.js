// ioredis where a sentinel watches: the client follows when the primary is killed.
//
// PETREL_SENTINEL is the sentinel's port, PETREL_PRIMARY_PID the primary's process; the servers go by the name `petrel`. Prints
// `ok NAME` or `FAIL NAME: why`.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const name = "follows a primary that is killed";
const writes = 50;
const patienceMs = 45_000;

const client = new Redis({
  sentinels: [{ host: "127.0.0.1", port: Number(process.env.PETREL_SENTINEL) }],
  name: "petrel",
});
client.on("error", () => {});

async function follows() {
  for (let number = 0; number < writes; number++) await client.set("last", number);
  const before = client.stream.remotePort;
  assert.equal(await client.wait(1, 10_000), 1);
  process.kill(Number(process.env.PETREL_PRIMARY_PID), "SIGKILL");
  const deadline = Date.now() + patienceMs;
  for (;;) {
    try {
      await client.set("after", "1");
      break;
    } catch (error) {
      assert.ok(Date.now() < deadline, `no write after ${patienceMs} ms: ${error.message}`);
      await sleep(20);
    }
  }
  assert.notEqual(client.stream.remotePort, before);
  assert.equal((await client.call("ROLE"))[0], "master");
  assert.equal(await client.get("last"), String(writes - 1));
}

try {
  await follows();
  console.log(`ok ${name}`);
} catch (error) {
  console.log(`FAIL ${name}: ${error.message.replaceAll("\n", " ")}`);
}
client.disconnect();
