"""redis-py against a running server: the same cases in RESP2 and in RESP3.

Address: PETREL_SOCKET if set, else 127.0.0.1:PETREL_PORT. Prints one line for each case, `ok NAME` or `FAIL NAME: why`.
"""

import os
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PASSWORD = "s3cret phrase"
# Redis-py tries a refused connection ten times, a second apart.
ONCE = {"retry": Retry(NoBackoff(), 0)}


def connect(protocol, **options):
    """A client with the library's defaults for everything that `options` leaves out."""
    if socket := os.environ.get("PETREL_SOCKET"):
        return redis.Redis(unix_socket_path=socket, protocol=protocol, **options)
    return redis.Redis(port=int(os.environ["PETREL_PORT"]), protocol=protocol, **options)


def equal(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"


def raises(message, call):
    """`call` must fail with an error whose text begins with `message`."""
    try:
        got = call()
    except redis.RedisError as error:
        assert str(error).startswith(message), f"got error {error!s}, expected {message}"
    else:
        raise AssertionError(f"got {got!r}, expected error {message}")


def handshake(protocol):
    client = connect(protocol)
    equal(client.ping(), True)
    hello = client.execute_command("HELLO", protocol)
    if isinstance(hello, list):
        hello = dict(zip(hello[::2], hello[1::2]))
    equal(hello[b"proto"], protocol)
    equal(hello[b"role"], b"master")
    me = client.client_info()
    equal(me["lib-name"].split("(")[0], "redis-py")
    equal(me["lib-ver"], redis.__version__)
    equal(me["resp"], str(protocol))


def authentication(protocol):
    admin = connect(protocol)
    admin.config_set("requirepass", PASSWORD)
    try:
        raises("Authentication required" if protocol == 2 else "HELLO must be called", connect(protocol, **ONCE).ping)
        raises("invalid username-password pair", connect(protocol, password="wrong", **ONCE).ping)
        equal(connect(protocol, password=PASSWORD).ping(), True)
        equal(connect(protocol, username="default", password=PASSWORD).ping(), True)
        equal(admin.execute_command("AUTH", PASSWORD), True)
    finally:
        admin.config_set("requirepass", "")
    equal(connect(protocol).ping(), True)


def set_options(protocol):
    client = connect(protocol, decode_responses=True)
    equal(client.set("k", "1"), True)
    equal(client.set("k", "2", nx=True), None)
    equal(client.set("absent", "2", xx=True), None)
    equal(client.set("k", "2", xx=True), True)
    equal(client.set("k", "3", get=True), "2")
    equal(client.set("fresh", "3", get=True), None)
    equal(client.set("k", "4", nx=True, get=True), "3")
    client.set("k", "5", ex=100)
    assert 99 <= client.ttl("k") <= 100
    client.set("k", "6", keepttl=True)
    assert 99_000 <= client.pttl("k") <= 100_000
    client.set("k", "7")
    equal(client.ttl("k"), -1)
    client.set("k", "8", px=50_000)
    assert 49_000 <= client.pttl("k") <= 50_000
    client.set("k", "9", exat=4_000_000_000)
    equal(client.expiretime("k"), 4_000_000_000)
    client.set("k", "10", pxat=4_000_000_000_123)
    equal(client.pexpiretime("k"), 4_000_000_000_123)
    equal(client.execute_command("SET", "k", "11", "IFEQ", "other"), None)
    equal(client.execute_command("SET", "k", "11", "IFEQ", "10"), True)
    equal(client.get("k"), "11")
    raises("syntax error", lambda: client.execute_command("SET", "k", "v", "EX", "1", "PX", "1"))
    raises("invalid expire time", lambda: client.set("k", "v", ex=-1))


def strings(protocol):
    client = connect(protocol, decode_responses=True)
    equal(client.mset({"s1": "a", "s2": "b"}), True)
    equal(client.mget("s1", "none", "s2"), ["a", None, "b"])
    equal(client.msetnx({"s1": "x", "s3": "y"}), False)
    equal(client.append("s1", "bcd"), 4)
    equal(client.strlen("s1"), 4)
    equal(client.getrange("s1", 1, -2), "bc")
    equal(client.setrange("s1", 6, "z"), 7)
    equal(client.get("s1"), "abcd\0\0z")
    equal(client.getset("s2", "c"), "b")
    equal(client.getdel("s2"), "c")
    equal(client.exists("s2"), 0)
    equal(client.incr("n"), 1)
    equal(client.incrby("n", 41), 42)
    equal(client.decrby("n", 2), 40)
    equal(client.incrbyfloat("n", 2.5), 42.5)
    client.mset({"l1": "ohmytext", "l2": "mynewtext"})
    equal(client.lcs("l1", "l2"), "mytext")
    equal(client.lcs("l1", "l2", len=True), 6)
    client.getex("n", ex=100)
    assert 99 <= client.ttl("n") <= 100


def expiry(protocol):
    client = connect(protocol)
    client.set("gone", "v", px=30)
    client.set("stays", "v")
    equal(client.pexpire("stays", 10_000), True)
    equal(client.expire("stays", 5, nx=True), False)
    equal(client.expire("stays", 5, gt=True), False)
    equal(client.expire("stays", 5, lt=True), True)
    equal(client.persist("stays"), True)
    equal(client.ttl("stays"), -1)
    equal(client.ttl("never"), -2)
    time.sleep(0.05)
    equal(client.get("gone"), None)
    equal(client.exists("gone", "stays", "stays"), 2)


def pipeline(protocol):
    with connect(protocol).pipeline(transaction=False) as batch:
        for i in range(1000):
            batch.set(f"p:{i}", i)
            batch.get(f"p:{i}")
        replies = batch.execute()
    equal(replies[0::2], [True] * 1000)
    equal(replies[1::2], [str(i).encode() for i in range(1000)])


def transactions(protocol):
    client, other = connect(protocol), connect(protocol)
    client.set("t", "1")
    with client.pipeline() as transaction:
        equal(transaction.incr("t").get("t").execute(), [2, b"2"])
        transaction.watch("t")
        other.set("t", "changed")
        transaction.multi()
        transaction.set("t", "lost")
        try:
            transaction.execute()
            raise AssertionError("a watched key changed and EXEC went through")
        except redis.WatchError:
            pass
        equal(client.get("t"), b"changed")
        transaction.watch("t")
        transaction.multi()
        transaction.set("t", "kept")
        equal(transaction.execute(), [True])
        transaction.incr("t").ping()
        replies = transaction.execute(raise_on_error=False)
        assert "not an integer" in str(replies[0]), replies
        equal(replies[1], True)


def scan(protocol):
    client = connect(protocol)
    names = {f"scan:{i}".encode() for i in range(1000)}
    client.mset({name: "v" for name in names})
    for count in (10, 100, 5000):
        seen = list(client.scan_iter(match="scan:*", count=count))
        equal(len(seen), 1000)
        equal(set(seen), names)
    equal(set(client.scan_iter(match="scan:*", _type="string")), names)
    equal(list(client.scan_iter(match="scan:*", _type="list")), [])
    equal(set(client.keys("scan:99?")), {f"scan:99{i}".encode() for i in range(10)})


def binary(protocol):
    client = connect(protocol)
    big = os.urandom(1 << 20)
    key = b"\x00\r\n$3\r\n\xff\xfe key " + bytes(range(256))
    equal(client.set(key, big), True)
    assert client.get(key) == big, "1 MiB came back changed"
    equal(client.strlen(key), len(big))
    equal(client.getrange(key, 1000, 1009), big[1000:1010])
    equal(client.set(b"", b""), True)
    equal(client.get(b""), b"")
    equal(client.delete(key, b""), 2)


def clients(protocol):
    client = connect(protocol, client_name="first", single_connection_client=True)
    other = connect(protocol, single_connection_client=True)
    equal(client.client_getname() in ("first", b"first"), True)
    equal(other.client_setname("second"), True)
    raises("Client names cannot contain spaces", lambda: other.client_setname("two words"))
    listed = {entry["id"]: entry for entry in client.client_list()}
    equal(listed[str(client.client_id())]["name"], "first")
    equal(listed[str(other.client_id())]["name"], "second")
    assert listed[str(client.client_id())]["cmd"].startswith("client"), listed
    equal(client.client_kill_filter(_id=other.client_id()), 1)
    names = [entry["name"] for entry in client.client_list()]
    assert "second" not in names, names
    equal(client.client_no_touch("ON") in ("OK", b"OK"), True)


def info_and_config(protocol):
    client = connect(protocol, decode_responses=True)
    info = client.info()
    for field in (
        "redis_version", "tcp_port", "uptime_in_seconds", "connected_clients", "used_memory", "maxmemory_policy",
        "total_commands_processed", "keyspace_hits", "expired_keys", "evicted_keys", "role", "used_cpu_user",
    ):
        assert field in info, f"INFO has no {field}"
    equal(info["redis_mode"], "standalone")
    equal(info["tcp_port"], int(os.environ["PETREL_PORT"]))
    client.set("counted", "v")
    assert client.info("keyspace")["db0"]["keys"] >= 1
    assert "cmdstat_set" in client.info("commandstats")
    equal(client.config_get("maxmemory-policy"), {"maxmemory-policy": "noeviction"})
    equal(client.config_set("maxmemory-samples", 7), True)
    equal(client.config_get("maxmemory-s*")["maxmemory-samples"], "7")
    client.config_set("maxmemory-samples", 5)
    raises("Unknown option or number of arguments", lambda: client.config_set("no-such-parameter", 1))
    equal(client.config_resetstat(), True)
    assert client.command_count() > 50
    assert "get" in client.command()
    assert client.memory_usage("counted") > 0
    seconds, microseconds = client.time()
    assert abs(seconds - time.time()) < 5 and 0 <= microseconds < 1_000_000


def databases(protocol):
    client, ninth = connect(protocol), connect(protocol, db=9)
    ninth.flushdb()
    ninth.set("only-here", "v")
    equal(client.exists("only-here"), 0)
    equal(ninth.dbsize(), 1)
    equal(ninth.move("only-here", 0), True)
    equal(client.rename("only-here", "moved"), True)
    equal(client.copy("moved", "copied", destination_db=9), True)
    equal(ninth.randomkey(), b"copied")
    raises("DB index is out of range", lambda: client.select(4711))
    raises("no such key", lambda: client.rename("absent", "x"))


def many_connections(protocol):
    client = connect(protocol)
    client.delete("together")
    start = threading.Barrier(50)
    failures = []

    def work():
        try:
            own = connect(protocol, single_connection_client=True)
            start.wait(20)
            for _ in range(40):
                own.incr("together")
            own.close()
        except Exception as error:  # pylint: disable=broad-except
            failures.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(failures, [])
    equal(client.get("together"), b"2000")


def blocking(protocol):
    client = connect(protocol, decode_responses=True, single_connection_client=True)
    other = connect(protocol, decode_responses=True)

    def meanwhile(wait, act):
        """What `wait` returns if `act` is done once it waits."""
        got = []
        waiter = threading.Thread(target=lambda: got.append(wait()))
        waiter.start()
        deadline = time.time() + 10
        while other.info("clients")["blocked_clients"] == 0 and time.time() < deadline:
            time.sleep(0.005)
        act()
        waiter.join(10)
        return got[0]

    def unblocked():
        try:
            client.blpop("queue")
        except redis.ResponseError as error:
            return str(error)
        return None

    pushed = meanwhile(lambda: client.blpop(["none", "queue"], timeout=10), lambda: other.rpush("queue", "a", "b"))
    equal(tuple(pushed), ("queue", "a"))
    equal(tuple(client.brpop("queue", timeout=1)), ("queue", "b"))
    equal(client.blpop("queue", timeout=0.02), None)
    moved = meanwhile(lambda: client.blmove("queue", "done", 10), lambda: other.rpush("queue", "c"))
    equal((moved, other.lrange("done", 0, -1)), ("c", ["c"]))
    popped = meanwhile(lambda: client.blmpop(10, 1, "queue", direction="RIGHT", count=2),
                       lambda: other.rpush("queue", 1, 2, 3))
    equal(popped, ["queue", ["3", "2"]])
    least = meanwhile(lambda: client.bzpopmin("scores", timeout=10), lambda: other.zadd("scores", {"m": 1.5}))
    equal(list(least), ["scores", "m", 1.5])
    entries = meanwhile(lambda: client.xread({"log": "$"}, block=10_000), lambda: other.xadd("log", {"f": "v"}, id="1-1"))
    entries = entries["log"][0] if protocol == 3 else entries[0][1]
    equal(entries, [("1-1", {"f": "v"})])
    other.delete("queue")
    number = client.client_id()
    equal(meanwhile(unblocked, lambda: other.client_unblock(number, error=True)),
          "UNBLOCKED client unblocked via CLIENT UNBLOCK")
    equal(other.client_unblock(number), False)
    with client.pipeline() as transaction:
        equal(transaction.blpop("queue", timeout=0).ping().execute(), [None, True])


def messages(protocol):
    client, other = connect(protocol), connect(protocol)
    subscriber = client.pubsub(ignore_subscribe_messages=True)
    subscriber.subscribe("news")
    subscriber.psubscribe("new?")
    received = []

    def listen():
        while len(received) < 2:
            message = subscriber.get_message(timeout=10)
            if message:
                received.append((message["type"], message["pattern"], message["channel"], message["data"]))

    while other.pubsub_numsub("news")[0][1] == 0 or other.pubsub_numpat() == 0:
        subscriber.get_message(timeout=0.01)
    equal(other.publish("news", "said"), 2)
    listen()
    equal(received, [("message", None, b"news", b"said"), ("pmessage", b"new?", b"news", b"said")])
    subscriber.close()


def script(protocol):
    client = connect(protocol)
    client.delete("script")
    add = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    equal([add(keys=["script"], args=[7]) for _ in range(2)], [7, 14])
    equal(client.eval("return {KEYS[1], ARGV[1], 3}", 1, "k", "a"), [b"k", b"a", 3])


def errors(protocol):
    client = connect(protocol, **ONCE)
    client.set("word", "not a number")
    raises("unknown command 'NOSUCH', with args beginning with: 'a' 'b'",
           lambda: client.execute_command("NOSUCH", "a", "b"))
    raises("wrong number of arguments for 'get' command", lambda: client.execute_command("GET"))
    raises("value is not an integer or out of range", lambda: client.incr("word"))
    raises("AUTH <password> called without any password",
           lambda: client.execute_command("AUTH", "anything"))
    raises("invalid username-password pair", lambda: client.execute_command("AUTH", "nobody", "anything"))
    raises("NOPROTO unsupported protocol version", lambda: client.execute_command("HELLO", "9"))
    equal(client.get("word"), b"not a number")


def reply_types(protocol):
    client = connect(protocol)
    config = client.connection_pool.get_connection()
    config.send_command("CONFIG", "GET", "maxclients")
    reply = config.read_response()
    equal(type(reply), dict if protocol == 3 else list)
    config.send_command("RESET")
    equal(config.read_response(), b"RESET")


CASES = [
    handshake, authentication, set_options, strings, expiry, pipeline, transactions, scan, binary, clients,
    info_and_config, databases, many_connections, blocking, messages, script, errors,
    reply_types,
]

if __name__ == "__main__":
    for version in (2, 3):
        connect(version).flushall()
        for case in CASES:
            label = f"{case.__name__} RESP{version}"
            try:
                case(version)
                print(f"ok {label}")
            except Exception as error:  # pylint: disable=broad-except
                print(f"FAIL {label}: {type(error).__name__} {error}")
