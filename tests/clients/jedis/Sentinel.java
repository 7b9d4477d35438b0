// Jedis where a sentinel watches: the client follows when the primary is killed.
//
// PETREL_SENTINEL is the sentinel's port, PETREL_PRIMARY_PID the primary's process; the servers go by the name `petrel`. Prints
// `ok NAME` or `FAIL NAME: why`.

import java.util.Set;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisSentinelPool;
import redis.clients.jedis.exceptions.JedisException;

public class Sentinel {
    static final String NAME = "follows a primary that is killed";
    static final int WRITES = 50;
    static final long PATIENCE_MS = 45_000;

    public static void main(String[] args) {
        try {
            follows();
            System.out.println("ok " + NAME);
        } catch (Throwable error) {
            System.out.println("FAIL " + NAME + ": " + error);
        }
        System.exit(0);
    }

    static void follows() throws Exception {
        Set<String> sentinels = Set.of("127.0.0.1:" + System.getenv("PETREL_SENTINEL"));
        try (var pool = new JedisSentinelPool("petrel", sentinels)) {
            HostAndPort before = pool.getCurrentHostMaster();
            try (Jedis jedis = pool.getResource()) {
                for (int number = 0; number < WRITES; number++) {
                    jedis.set("last", String.valueOf(number));
                }
                check(jedis.waitReplicas(1, 10_000) == 1, "the replica does not acknowledge");
            }
            long pid = Long.parseLong(System.getenv("PETREL_PRIMARY_PID"));
            check(ProcessHandle.of(pid).orElseThrow().destroyForcibly(), "the primary is not killed");
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (!writes(pool)) {
                check(System.currentTimeMillis() < deadline, "no write after " + PATIENCE_MS + " ms");
                Thread.sleep(20);
            }
            check(!pool.getCurrentHostMaster().equals(before), "the primary is still " + before);
            try (Jedis jedis = pool.getResource()) {
                check(jedis.role().get(0).equals("master"), "it is no primary");
                String last = jedis.get("last");
                check(String.valueOf(WRITES - 1).equals(last), "last is " + last);
            }
        }
    }

    static boolean writes(JedisSentinelPool pool) {
        try (Jedis jedis = pool.getResource()) {
            jedis.set("after", "1");
            return true;
        } catch (JedisException error) {
            return false;
        }
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }
}
