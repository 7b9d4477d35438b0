"""Threads that share a client; waiting, messages, caches and locks."""

import os
import signal
import threading
import time

import pytest

import petrel


def run_threads(count, work):
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def test_replies_never_cross(client):
    def work(number):
        for turn in range(300):
            value = f"{number}:{turn}".encode()
            assert client.echo(value) == value
            client.set(f"k{number}", value)
            assert client.get(f"k{number}") == value

    run_threads(16, work)


def test_commands_that_wait(client):
    assert client.blpop("none", timeout=0.05) is None
    waiting = threading.Thread(target=lambda: client.rpush("done", *client.blpop("l", timeout=10)))
    waiting.start()
    # The client's other commands go on meanwhile.
    while not client.client_list() or all(c["cmd"] != "blpop" for c in client.client_list()):
        time.sleep(0.01)
    client.lpush("l", "x")
    waiting.join(10)
    assert client.lrange("done", 0, -1) == [b"l", b"x"]


def test_signals_end_a_wait(client):
    def handler(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            client.blpop("none", timeout=30)
    finally:
        signal.signal(signal.SIGALRM, previous)
    # The connection that waited is closed.
    until = time.monotonic() + 30
    while any(one["cmd"] == "blpop" for one in client.client_list()):
        assert time.monotonic() < until
        time.sleep(0.01)
    client.rpush("none", "kept")
    assert client.lpop("none") == b"kept"


def test_messages(server, client):
    handled = []
    with client.pubsub() as pubsub:
        pubsub.subscribe("news", other=handled.append)
        pubsub.psubscribe("n*")
        assert pubsub.get_message(timeout=0.01) is None
        assert client.publish("news", "hello") == 2
        messages = [pubsub.get_message(timeout=5), pubsub.get_message(timeout=5)]
        assert sorted(message["type"] for message in messages) == ["message", "pmessage"]
        assert messages[0]["channel"] == b"news" and messages[0]["data"] == b"hello"
        client.publish("other", "x")
        assert pubsub.get_message(timeout=5) is None
        assert handled[0]["data"] == b"x"
        pubsub.unsubscribe("news")
        pubsub.punsubscribe("n*")
        assert client.publish("news", "unheard") == 0
        pubsub.subscribe("many")
        run_threads(4, lambda number: [client.publish("many", number) for _ in range(100)])
        listening = pubsub.listen()
        assert len([next(listening) for _ in range(400)]) == 400


def test_near_cache(server, client):
    near = client.near_cache()
    client.set("k", "old")
    assert near.get("k") == b"old"
    for _ in range(10):
        assert near.get("k") == b"old"
    assert near.statistics()["hits"] >= 10
    with petrel.Client(port=server.port) as other:
        other.set("k", "new")
    until = time.monotonic() + 5
    while near.get("k") != b"new":
        assert time.monotonic() < until
    assert near.statistics()["invalidations"] >= 1
    assert near.hgetall("none") == {}
    near.forget("k")
    near.clear()
    assert near.statistics()["keys"] == 0
    assert near.set("k", "through") is True


def test_locks(client):
    inside = []

    def work(number):
        for _ in range(3):
            with client.lock("lock", timeout=5):
                inside.append(number)
                time.sleep(0.005)
                assert inside.pop() == number and not inside

    run_threads(4, work)
    lock = client.lock("lock")
    assert lock.acquire() and lock.owned()
    assert client.lock("lock", blocking=False).acquire() is False
    assert client.lock("lock").acquire(blocking_timeout=0.05) is False
    client.delete("lock")
    with pytest.raises(petrel.LockNotOwnedError):
        lock.release()
    with pytest.raises(petrel.LockError):
        lock.release()


def test_reconnection(server, client):
    client.set("k", "v")
    server.kill()
    with pytest.raises((petrel.ConnectionError, petrel.TimeoutError)):
        with petrel.Client(port=server.port, socket_timeout=0.5) as other:
            other.get("k")
    server.start()
    # Reads are sent again by themselves; what writes may have to be.
    assert client.get("k") is None
    assert client.set("k", "again") is True and client.get("k") == b"again"
    assert client.blpop("none", timeout=0.01) is None


def test_kills_under_load(server):
    """Each call returns its own reply or fails, over kills of all connections."""
    client = petrel.Client(port=server.port, retries=0)
    killer = petrel.Client(port=server.port, client_name="killer")
    failures = []

    def work(number):
        if number == 0:
            for _ in range(20):
                time.sleep(0.01)
                killer.client_kill(type="normal", skipme="yes")
            return
        for turn in range(400):
            value = f"{number}:{turn}".encode()
            try:
                assert client.echo(value) == value
            except petrel.ConnectionError as error:
                failures.append(error)

    run_threads(8, work)
    try:
        client.ping()
    except petrel.ConnectionError:
        # The last kill was noticed by this call.
        assert client.ping() is True
    client.close()
    killer.close()


def test_a_closed_client(server):
    client = petrel.Client(port=server.port)
    client.ping()
    client.close()
    with pytest.raises(petrel.ConnectionError, match="closed"):
        client.ping()


def test_fork(server, client):
    """A forked process makes connections of its own."""
    client.set("k", "v")
    client.blpop("none", timeout=0.01)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            same = all(client.echo(f"child{n}") == f"child{n}".encode() for n in range(200))
            status = 0 if same and client.blpop("none", timeout=0.01) is None else 2
        finally:
            os._exit(status)
    for number in range(200):
        assert client.echo(f"parent{number}") == f"parent{number}".encode()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
