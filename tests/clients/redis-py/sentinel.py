"""redis-py where a sentinel watches: the client follows when the primary is killed.

PETREL_SENTINEL is the sentinel's port, PETREL_PRIMARY_PID the primary's process; the servers go by the name `petrel`. Prints
`ok NAME` or `FAIL NAME: why`.
"""

import os
import signal
import time

import redis
from redis.sentinel import Sentinel

NAME = "follows a primary that is killed"
WRITES = 50
PATIENCE_SECONDS = 45


def follows():
    sentinel = Sentinel([("127.0.0.1", int(os.environ["PETREL_SENTINEL"]))], socket_timeout=2)
    before = sentinel.discover_master("petrel")
    client = sentinel.master_for("petrel", socket_timeout=2)
    for number in range(WRITES):
        client.set("last", number)
    assert client.wait(1, 10_000) == 1, "the replica does not acknowledge"
    os.kill(int(os.environ["PETREL_PRIMARY_PID"]), signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            client.set("after", "1")
            break
        except redis.RedisError as error:
            assert time.monotonic() < deadline, f"no write after {PATIENCE_SECONDS} s: {error}"
            time.sleep(0.02)
    after = sentinel.discover_master("petrel")
    assert after != before, f"the primary is still {after}"
    role = client.execute_command("ROLE")
    assert role[0] in (b"master", "master"), role
    last = client.get("last")
    assert last == str(WRITES - 1).encode(), f"got {last!r}, which was acknowledged by the replica"


try:
    follows()
    print(f"ok {NAME}")
except Exception as error:
    print(f"FAIL {NAME}: {error!r}")
