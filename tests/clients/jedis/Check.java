// Jedis against a started server: the same cases in RESP2 and in RESP3.
//
// Address: 127.0.0.1:PETREL_PORT. Prints one line for each case, `ok NAME` or `FAIL NAME: why`.

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.exceptions.JedisDataException;

public class Check {
    interface Case {
        void run(Jedis jedis, RedisProtocol protocol) throws Exception;
    }

    public static void main(String[] args) {
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("handshake", Check::handshake);
        cases.put("pipeline", Check::pipeline);
        cases.put("transaction", Check::transaction);
        cases.put("messages", Check::messages);
        cases.put("script", Check::script);
        cases.put("blocking pop", Check::blockingPop);
        cases.put("types", Check::types);
        cases.put("errors", Check::errors);
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            try (Jedis jedis = connect(protocol)) {
                jedis.flushAll();
            }
            cases.forEach((name, run) -> {
                try (Jedis jedis = connect(protocol)) {
                    run.run(jedis, protocol);
                    System.out.println("ok " + name + " " + protocol);
                } catch (Throwable error) {
                    System.out.println("FAIL " + name + " " + protocol + ": " + error);
                }
            });
        }
        System.exit(0);
    }

    static Jedis connect(RedisProtocol protocol) {
        int port = Integer.parseInt(System.getenv("PETREL_PORT"));
        var config = DefaultJedisClientConfig.builder().protocol(protocol).socketTimeoutMillis(10_000).build();
        return new Jedis(new HostAndPort("127.0.0.1", port), config);
    }

    static void same(String what, Object got, Object expected) {
        if (!Objects.equals(got, expected)) {
            throw new AssertionError(what + ": got " + got + ", expected " + expected);
        }
    }

    static void handshake(Jedis jedis, RedisProtocol protocol) {
        same("PING", jedis.ping(), "PONG");
        String info = jedis.clientInfo();
        same("lib-name in " + info, info.contains(" lib-name=jedis"), true);
        same("resp in " + info, info.contains(" resp=" + (protocol == RedisProtocol.RESP3 ? 3 : 2)), true);
    }

    static void pipeline(Jedis jedis, RedisProtocol protocol) {
        List<Response<String>> gets = new ArrayList<>();
        try (Pipeline pipeline = jedis.pipelined()) {
            for (int i = 0; i < 1000; i++) {
                pipeline.set("p:" + i, "" + i);
                gets.add(pipeline.get("p:" + i));
            }
        }
        for (int i = 0; i < 1000; i++) {
            same("GET in a pipeline", gets.get(i).get(), "" + i);
        }
    }

    static void transaction(Jedis jedis, RedisProtocol protocol) {
        try (AbstractTransaction transaction = jedis.multi()) {
            transaction.set("t", "1");
            transaction.incr("t");
            same("EXEC", transaction.exec(), List.of("OK", 2L));
        }
        try (Jedis other = connect(protocol)) {
            jedis.watch("t");
            other.set("t", "5");
            try (AbstractTransaction transaction = jedis.multi()) {
                transaction.incr("t");
                same("EXEC after a conflict", transaction.exec(), null);
            }
            same("GET", jedis.get("t"), "5");
        }
    }

    static void messages(Jedis jedis, RedisProtocol protocol) throws Exception {
        var received = new LinkedBlockingQueue<String>();
        var subscriber = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String message) {
                received.add(channel + " " + message);
            }

            @Override
            public void onSubscribe(String channel, int subscribed) {
                received.add("subscribed");
            }
        };
        try (Jedis other = connect(protocol)) {
            var reading = CompletableFuture.runAsync(() -> jedis.subscribe(subscriber, "news"));
            same("SUBSCRIBE", received.poll(10, TimeUnit.SECONDS), "subscribed");
            same("PUBLISH", other.publish("news", "said"), 1L);
            same("message", received.poll(10, TimeUnit.SECONDS), "news said");
            subscriber.unsubscribe();
            reading.get(10, TimeUnit.SECONDS);
        }
        same("PING afterwards", jedis.ping(), "PONG");
    }

    static void script(Jedis jedis, RedisProtocol protocol) {
        String sha = jedis.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        same("EVALSHA", jedis.evalsha(sha, List.of("script"), List.of("7")), 7L);
        same("EVAL", jedis.eval("return {KEYS[1], ARGV[1], 3}", List.of("k"), List.of("a")), List.of("k", "a", 3L));
    }

    static void blockingPop(Jedis jedis, RedisProtocol protocol) throws Exception {
        try (Jedis other = connect(protocol)) {
            var popped = CompletableFuture.supplyAsync(() -> jedis.blpop(10, "none", "queue"));
            untilSomebodyWaits(other);
            other.rpush("queue", "a");
            same("BLPOP", popped.get(10, TimeUnit.SECONDS), List.of("queue", "a"));
            var moved = CompletableFuture.supplyAsync(
                () -> jedis.blmove("queue", "done", ListDirection.LEFT, ListDirection.RIGHT, 10));
            untilSomebodyWaits(other);
            other.rpush("queue", "b");
            same("BLMOVE", moved.get(10, TimeUnit.SECONDS), "b");
            other.del("done");
        }
    }

    static void untilSomebodyWaits(Jedis jedis) throws InterruptedException {
        for (int i = 0; i < 2000 && jedis.info("clients").contains("blocked_clients:0"); i++) {
            Thread.sleep(5);
        }
    }

    static void types(Jedis jedis, RedisProtocol protocol) {
        jedis.hset("hash", Map.of("f", "1", "g", "2"));
        same("HGETALL", jedis.hgetAll("hash"), Map.of("f", "1", "g", "2"));
        jedis.zadd("scores", 1.5, "a");
        same("ZSCORE", jedis.zscore("scores", "a"), 1.5);
        same("ZRANGE", jedis.zrangeWithScores("scores", 0, -1).get(0).getScore(), 1.5);
        jedis.sadd("set", "x", "y");
        same("SMEMBERS", jedis.smembers("set").size(), 2);
        jedis.del("log");
        same("XADD", jedis.xadd("log", Map.of("f", "v"), new redis.clients.jedis.params.XAddParams().id("1-1")).toString(), "1-1");
        same("XRANGE", jedis.xrange("log", "-", "+").get(0).getFields(), Map.of("f", "v"));
    }

    static void errors(Jedis jedis, RedisProtocol protocol) {
        jedis.set("word", "no number");
        same("INCR", failure(() -> jedis.incr("word")), "ERR value is not an integer or out of range");
        same("LPUSH", failure(() -> jedis.lpush("word", "1")).startsWith("WRONGTYPE "), true);
    }

    static String failure(Runnable call) {
        try {
            call.run();
        } catch (JedisDataException error) {
            return error.getMessage();
        }
        return "no error";
    }
}
