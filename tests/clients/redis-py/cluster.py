"""redis-py as a client of Redis Cluster: three members, of which one is killed while the client writes.

PETREL_CLUSTER is the port of a member, PETREL_VICTIM_PID the process of another. Prints `ok NAME` or `FAIL NAME: why`.
"""

import os
import signal
import time

import redis
from redis.cluster import RedisCluster

KEYS = 60
PATIENCE_SECONDS = 45


def commands(client):
    for number in range(KEYS):
        client.set(f"key{number}", number)
    assert [client.get(f"key{number}") for number in range(KEYS)] == [str(n) for n in range(KEYS)]
    assert len(client.get_primaries()) == 3, client.get_nodes()
    assert sorted(client.scan_iter(count=7)) == sorted(f"key{number}" for number in range(KEYS))
    with client.pipeline() as pipe:
        for number in range(KEYS):
            pipe.incr(f"key{number}")
        assert pipe.execute() == [number + 1 for number in range(KEYS)]
    with client.pipeline(transaction=True) as pipe:
        pipe.set("{tag}a", 1)
        pipe.incr("{tag}a")
        assert pipe.execute() == ["OK", 2]
    code = "#!lua name=lib\nredis.register_function('f', function(keys, args) return args[1] end)"
    client.function_load(code)
    assert client.fcall("f", 1, "key1", "x") == "x"
    client.function_delete("lib")


def failover(client):
    counts = [0] * KEYS
    os.kill(int(os.environ["PETREL_VICTIM_PID"]), signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_SECONDS
    for number in range(KEYS):
        while True:
            try:
                counts[number] = client.incr(f"count{number}")
                break
            except redis.RedisError as error:
                assert time.monotonic() < deadline, f"no write after {PATIENCE_SECONDS} s: {error}"
                time.sleep(0.02)
    for number in range(KEYS):
        assert int(client.get(f"count{number}")) >= counts[number] > 0
    assert client.get("key7") == "8", "a write before the failure is lost"


client = RedisCluster("127.0.0.1", int(os.environ["PETREL_CLUSTER"]), decode_responses=True, socket_timeout=2)
for name, case in [("commands of a cluster client", commands), ("a member is killed", failover)]:
    try:
        case(client)
        print(f"ok {name}")
    except Exception as error:
        print(f"FAIL {name}: {error!r}")
