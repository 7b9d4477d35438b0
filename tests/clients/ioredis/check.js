// ioredis against a started server: the same cases in RESP2 and in RESP3.
//
// Address: PETREL_SOCKET if set, else 127.0.0.1:PETREL_PORT. Prints one line for each case, `ok NAME` or `FAIL NAME: why`.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const password = "s3cret phrase";
const address = process.env.PETREL_SOCKET
  ? { path: process.env.PETREL_SOCKET }
  : { host: "127.0.0.1", port: Number(process.env.PETREL_PORT) };

/** Runs `work` with clients that are closed afterwards; everything but the address is the library's default. */
async function withClients(count, options, work) {
  const clients = Array.from({ length: count }, () => {
    const client = new Redis({ ...address, ...options });
    client.on("error", () => {});
    return client;
  });
  try {
    return await work(...clients);
  } finally {
    for (const client of clients) client.disconnect();
  }
}

const failsWith = (message, promise) =>
  assert.rejects(promise, (error) => {
    assert.ok(error.message.startsWith(message), `got error ${error.message}, expected ${message}`);
    return true;
  });

const infoFields = (text) =>
  Object.fromEntries(text.split("\r\n").filter((line) => line.includes(":")).map((line) => line.split(/:(.*)/s, 2)));

const cases = {
  async handshake(client, protocol) {
    assert.equal(await client.ping(), "PONG");
    await client.get("absent");
    const me = await client.client("INFO");
    assert.match(me, new RegExp(` resp=${protocol}( |$)`));
    assert.match(me, / lib-name=ioredis/);
  },

  async authentication(client, protocol) {
    const once = { protocol, maxRetriesPerRequest: 0, retryStrategy: () => null };
    await client.config("SET", "requirepass", password);
    try {
      await withClients(1, once, (refused) => failsWith("NOAUTH", refused.get("absent")));
      await withClients(1, { ...once, password }, async (admitted) => assert.equal(await admitted.get("absent"), null));
      await failsWith("WRONGPASS", client.auth("wrong"));
      assert.equal(await client.auth("default", password), "OK");
    } finally {
      await client.config("SET", "requirepass", "");
    }
  },

  async "set options"(client) {
    assert.equal(await client.set("k", "1"), "OK");
    assert.equal(await client.set("k", "2", "NX"), null);
    assert.equal(await client.set("k", "2", "XX"), "OK");
    assert.equal(await client.set("k", "3", "GET"), "2");
    assert.equal(await client.set("k", "4", "NX", "GET"), "3");
    await client.set("k", "5", "EX", 100);
    await client.set("k", "6", "KEEPTTL");
    const left = await client.pttl("k");
    assert.ok(left > 99_000 && left <= 100_000, `PTTL ${left}`);
    await client.set("k", "7", "PX", 1500);
    assert.ok((await client.pttl("k")) <= 1500);
    await client.set("k", "8", "EXAT", 4_000_000_000);
    assert.equal(await client.expiretime("k"), 4_000_000_000);
    await client.set("k", "9", "PXAT", 4_000_000_000_123);
    assert.equal(await client.pexpiretime("k"), 4_000_000_000_123);
    assert.equal(await client.call("SET", "k", "10", "IFEQ", "9"), "OK");
    assert.equal(await client.call("SET", "k", "11", "IFEQ", "9"), null);
    assert.equal(await client.get("k"), "10");
    assert.equal(await client.ttl("k"), -1);
  },

  async strings(client) {
    assert.equal(await client.mset({ s1: "a", s2: "b" }), "OK");
    assert.deepEqual(await client.mget("s1", "none", "s2"), ["a", null, "b"]);
    assert.equal(await client.msetnx("s1", "x", "s3", "y"), 0);
    assert.equal(await client.append("s1", "bcd"), 4);
    assert.equal(await client.getrange("s1", 1, -2), "bc");
    assert.equal(await client.setrange("s1", 6, "z"), 7);
    assert.equal(await client.getdel("s1"), "abcd\0\0z");
    assert.equal(await client.incrby("n", 42), 42);
    assert.equal(await client.incrbyfloat("n", 0.5), "42.5");
    await client.mset("l1", "ohmytext", "l2", "mynewtext");
    assert.equal(await client.lcs("l1", "l2"), "mytext");
    assert.equal(await client.getex("n", "EX", 100), "42.5");
    assert.ok((await client.ttl("n")) > 98);
  },

  async expiry(client) {
    await client.set("gone", "v", "PX", 30);
    await client.set("stays", "v");
    assert.equal(await client.expire("stays", 10), 1);
    assert.equal(await client.expire("stays", 5, "NX"), 0);
    assert.equal(await client.expire("stays", 5, "GT"), 0);
    assert.equal(await client.expire("stays", 5, "LT"), 1);
    assert.equal(await client.persist("stays"), 1);
    assert.equal(await client.ttl("never"), -2);
    await sleep(50);
    assert.equal(await client.get("gone"), null);
    assert.equal(await client.exists("gone", "stays", "stays"), 2);
  },

  async pipeline(client) {
    const batch = client.pipeline();
    for (let i = 0; i < 1000; i++) batch.set(`p:${i}`, i).get(`p:${i}`);
    const replies = await batch.exec();
    assert.equal(replies.length, 2000);
    replies.forEach(([error, reply], i) => {
      assert.equal(error, null);
      assert.equal(reply, i % 2 === 0 ? "OK" : String((i - 1) / 2));
    });
  },

  async transactions(client, protocol) {
    await client.set("t", "1");
    assert.deepEqual(await client.multi().incr("t").get("t").exec(), [[null, 2], [null, "2"]]);
    await withClients(1, { protocol }, async (other) => {
      await client.watch("t");
      await other.set("t", "changed");
      assert.equal(await client.multi().set("t", "lost").exec(), null);
    });
    assert.equal(await client.get("t"), "changed");
    await client.watch("t");
    assert.deepEqual(await client.multi().set("t", "kept").exec(), [[null, "OK"]]);
    const [[error], [, pong]] = await client.multi().incr("t").ping().exec();
    assert.match(error.message, /^ERR value is not an integer/);
    assert.equal(pong, "PONG");
    await client.multi({ pipeline: false });
    await failsWith("ERR unknown command", client.call("NOSUCH"));
    await failsWith("EXECABORT", client.exec());
  },

  async scan(client) {
    await client.mset(Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`scan:${i}`, "v"])));
    for (const count of [10, 100, 5000]) {
      const seen = [];
      for await (const keys of client.scanStream({ match: "scan:*", count, type: "string" })) seen.push(...keys);
      assert.equal(seen.length, 1000);
      assert.equal(new Set(seen).size, 1000);
    }
  },

  async binary(client) {
    const big = randomBytes(1 << 20);
    const key = Buffer.from([0, 13, 10, 36, 255, 254, 128, 32]);
    assert.equal(await client.set(key, big), "OK");
    assert.ok(big.equals(await client.getBuffer(key)), "1 MiB came back changed");
    assert.equal(await client.strlen(key), big.length);
    assert.equal(await client.set("", ""), "OK");
    assert.equal(await client.get(""), "");
    assert.equal(await client.del(key, ""), 2);
  },

  async clients(client, protocol) {
    await withClients(2, { protocol, connectionName: "first" }, async (first, second) => {
      assert.equal(await first.client("GETNAME"), "first");
      assert.equal(await second.client("SETNAME", "second"), "OK");
      const list = await client.client("LIST");
      assert.match(list, / name=first /);
      assert.match(list, / name=second /);
      await failsWith("ERR Client names cannot contain spaces", second.client("SETNAME", "two words"));
      assert.equal(await client.client("KILL", "ID", await second.client("ID")), 1);
    });
  },

  async "info and config"(client) {
    const info = infoFields(await client.info());
    assert.equal(info.redis_mode, "standalone");
    assert.equal(info.tcp_port, process.env.PETREL_PORT);
    for (const field of ["redis_version", "used_memory", "connected_clients", "keyspace_hits", "role", "db0"]) {
      assert.ok(field in info, `INFO has no ${field}`);
    }
    assert.deepEqual(await client.config("GET", "maxmemory-policy"), ["maxmemory-policy", "noeviction"]);
    await failsWith("ERR Unknown option or number of arguments", client.config("SET", "no-such-parameter", "1"));
    assert.ok((await client.command("COUNT")) > 50);
    assert.ok((await client.memory("USAGE", "")) === null);
  },

  async "many connections"(client, protocol) {
    await client.del("together");
    await withClients(50, { protocol }, async (...clients) => {
      await Promise.all(clients.map((each) => each.ping()));
      await Promise.all(clients.flatMap((each) => Array.from({ length: 40 }, () => each.incr("together"))));
    });
    assert.equal(await client.get("together"), "2000");
  },

  async blocking(client, protocol) {
    await withClients(1, { protocol }, async (waiter) => {
      const meanwhile = async (waiting, act) => {
        while (infoFields(await client.info("clients")).blocked_clients === "0") await sleep(5);
        await act();
        return waiting;
      };
      const id = await waiter.client("ID");
      const pushed = meanwhile(waiter.blpop("none", "queue", 10), () => client.rpush("queue", "a", "b"));
      assert.deepEqual(await pushed, ["queue", "a"]);
      assert.deepEqual(await waiter.brpop("queue", 1), ["queue", "b"]);
      assert.equal(await waiter.blpop("queue", 0.02), null);
      const moved = meanwhile(waiter.blmove("queue", "done", "LEFT", "RIGHT", 10), () => client.rpush("queue", "c"));
      assert.equal(await moved, "c");
      const least = meanwhile(waiter.bzpopmin("scores", 10), () => client.zadd("scores", 1.5, "m"));
      assert.deepEqual((await least).map(String), ["scores", "m", "1.5"]);
      const ahead = waiter.blpop("queue", 10);
      const behind = waiter.ping();
      await meanwhile(ahead, () => client.rpush("queue", "d"));
      assert.deepEqual([await ahead, await behind], [["queue", "d"], "PONG"]);
      const unblocked = failsWith("UNBLOCKED client unblocked", waiter.blpop("queue", 0));
      await meanwhile(unblocked, async () => assert.equal(await client.client("UNBLOCK", id, "ERROR"), 1));
      assert.equal(await client.client("UNBLOCK", id), 0);
    });
  },

  async messages(client, protocol) {
    await withClients(1, { protocol }, async (subscriber) => {
      const received = [];
      const two = new Promise((resolve) => {
        const note = (...message) => received.push(message.join(" ")) === 2 && resolve();
        subscriber.on("message", note);
        subscriber.on("pmessage", note);
      });
      assert.equal(await subscriber.subscribe("news"), 1);
      assert.equal(await subscriber.psubscribe("new?"), 2);
      assert.equal(await client.publish("news", "said"), 2);
      await two;
      assert.deepEqual(received, ["news said", "new? news said"]);
      assert.equal(await subscriber.unsubscribe("news"), 1);
      assert.equal(await client.publish("other", "said"), 0);
    });
  },

  async script(client) {
    client.defineCommand("addTo", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
    await client.del("script");
    assert.equal(await client.addTo("script", 7), 7);
    assert.equal(await client.addTo("script", 7), 14);
    assert.deepEqual(await client.eval("return {KEYS[1], ARGV[1], 3}", 1, "k", "a"), ["k", "a", 3]);
  },

  async errors(client) {
    await client.set("word", "not a number");
    await failsWith("ERR unknown command 'NOSUCH', with args beginning with: 'a'", client.call("NOSUCH", "a"));
    await failsWith("ERR wrong number of arguments for 'get' command", client.call("GET"));
    await failsWith("ERR value is not an integer or out of range", client.incr("word"));
    await failsWith("ERR syntax error", client.call("SET", "k", "v", "NOSUCH"));
    await failsWith("ERR DB index is out of range", client.select(4711));
    assert.equal(await client.get("word"), "not a number");
  },

  async "reply types"(_, protocol) {
    const typed = protocol === 3 ? { protocol, replyMapping: "resp3" } : { protocol };
    await withClients(1, typed, async (client) => {
      const reply = await client.call("CONFIG", "GET", "maxclients");
      assert.equal(Array.isArray(reply), protocol === 2);
    });
  },
};

for (const protocol of [2, 3]) {
  await withClients(1, { protocol }, (client) => client.flushall());
  for (const [name, run] of Object.entries(cases)) {
    try {
      await withClients(1, { protocol }, (client) => run(client, protocol));
      console.log(`ok ${name} RESP${protocol}`);
    } catch (error) {
      console.log(`FAIL ${name} RESP${protocol}: ${error.message.replaceAll("\n", " ")}`);
    }
  }
}
