"""The client for asyncio."""

import asyncio
import random

import pytest

import petrel
import petrel.asyncio


def runs(test):
    """Runs a coroutine function as a test, with a client that it is given."""

    def run(server):
        async def main():
            async with petrel.asyncio.Client(port=server.port) as client:
                await asyncio.wait_for(test(server, client), 60)

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


@runs
async def test_commands(server, client):
    assert await client.set("k", "v") is True
    assert await client.get("k") == b"v"
    assert await client.hset("h", mapping={"f": 1}) == 1
    assert await client.hgetall("h") == {b"f": b"1"}
    assert await client.zadd("z", {"a": 1.5}) == 1
    assert await client.zrange("z", 0, -1, withscores=True) == [(b"a", 1.5)]
    with pytest.raises(petrel.ResponseError):
        await client.lpush("k", "x")
    with pytest.raises(petrel.DataError):
        await client.set("k", None)


@runs
async def test_calls_are_coroutines(server, client):
    task = asyncio.create_task(client.set("k", "v"))
    assert await task is True
    assert await asyncio.gather(*(client.get("k") for _ in range(10))) == [b"v"] * 10
    assert await asyncio.wait_for(client.get("k"), 5) == b"v"
    done, _ = await asyncio.wait([asyncio.ensure_future(client.get("k"))])
    assert done.pop().result() == b"v"
    # Sent when they are made, awaited in any order.
    calls = [client.rpush("l", number) for number in range(5)]
    assert [await call for call in reversed(calls)] == [5, 4, 3, 2, 1]
    assert await client.lrange("l", 0, -1) == [b"0", b"1", b"2", b"3", b"4"]


@runs
async def test_replies_never_cross(server, client):
    async def work(number):
        for turn in range(100):
            value = f"{number}:{turn}".encode()
            assert await client.echo(value) == value
            await client.set(f"k{number}", value)
            assert await client.get(f"k{number}") == value

    await asyncio.gather(*(work(number) for number in range(100)))


@runs
async def test_cancelled_calls(server, client):
    async def work(number):
        for turn in range(100):
            value = f"{number}:{turn}".encode()
            task = asyncio.create_task(client.echo(value))
            for _ in range(random.randrange(4)):
                await asyncio.sleep(0)
            if random.random() < 0.5:
                task.cancel()
            try:
                assert await task == value
            except asyncio.CancelledError:
                pass

    await asyncio.gather(*(work(number) for number in range(30)))
    assert await client.ping() is True


@runs
async def test_a_cancelled_wait_takes_nothing(server, client):
    task = asyncio.create_task(client.blpop("l", timeout=0))
    while all(one["cmd"] != "blpop" for one in await client.client_list()):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while any(one["cmd"] == "blpop" for one in await client.client_list()):
        await asyncio.sleep(0.01)
    await client.rpush("l", "kept")
    assert await client.lpop("l") == b"kept"
    waiting = asyncio.create_task(client.blpop(["l", "m"], timeout=5))
    await asyncio.sleep(0.05)
    await client.rpush("m", "x")
    assert await waiting == (b"m", b"x")


@runs
async def test_pipelines_and_transactions(server, client):
    async with client.pipeline() as pipe:
        pipe.set("n", 1).incr("n")
        assert await pipe.execute() == [True, 2]
    attempts = []

    async def add(pipe):
        number = int(await pipe.get("n"))
        attempts.append(number)
        if len(attempts) == 1:
            await client.set("n", 10)
        pipe.multi()
        pipe.set("n", number + 1)

    assert await client.transaction(add, "n") == [True]
    assert attempts == [2, 10]


@runs
async def test_scripts_walks_and_connections(server, client):
    script = client.register_script("return ARGV[1]")
    assert await script(args=["x"]) == b"x"
    await client.mset({f"k{number}": number for number in range(200)})
    assert len({key async for key in client.scan_iter("k*")}) == 200
    await client.hset("h", mapping={"f": 1})
    assert [pair async for pair in client.hscan_iter("h")] == [(b"f", b"1")]
    async with await client.connection() as connection:
        await connection.select(1)
        await connection.set("only", "there")
    assert await client.get("only") is None


@runs
async def test_messages(server, client):
    async with client.pubsub() as pubsub:
        await pubsub.subscribe("news")
        assert await pubsub.get_message(timeout=0.01) is None

        async def publish():
            for number in range(1000):
                await client.publish("news", number)

        publishing = asyncio.create_task(publish())
        received = []
        async for message in pubsub:
            received.append(int(message["data"]))
            if len(received) == 1000:
                break
        await publishing
        assert received == list(range(1000))


@runs
async def test_near_cache(server, client):
    near = await client.near_cache()
    await client.set("k", "old")
    assert await asyncio.gather(*(near.get("k") for _ in range(50))) == [b"old"] * 50
    assert near.statistics()["misses"] == 1
    assert await near.get("k") == b"old"
    async with petrel.asyncio.Client(port=server.port) as other:
        await other.set("k", "new")
    while await near.get("k") != b"new":
        await asyncio.sleep(0.01)
    assert near.statistics()["invalidations"] >= 1


@runs
async def test_locks(server, client):
    inside = []

    async def work(number):
        async with client.lock("lock", timeout=5):
            inside.append(number)
            await asyncio.sleep(0.005)
            assert inside.pop() == number and not inside

    await asyncio.gather(*(work(number) for number in range(8)))
    # A wait that is cancelled takes no lock.
    async with client.lock("lock"):
        waiting = asyncio.create_task(client.lock("lock").acquire())
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await client.lock("lock").acquire(blocking_timeout=5)


@runs
async def test_a_killed_server(server, client):
    await client.set("k", "v")
    failures, calls, is_over = 0, 0, False

    async def work(number):
        nonlocal calls, failures
        while not is_over:
            calls += 1
            value = f"{number}:{calls}".encode()
            # Replies come in batches: some calls of each are such as are not sent again.
            is_first = number % 2
            try:
                if is_first:
                    assert await client.execute_command("INCR", f"n{number}") >= 1
                assert await client.echo(value) == value
                if not is_first:
                    assert await client.execute_command("INCR", f"n{number}") >= 1
            except (petrel.ConnectionError, petrel.TimeoutError):
                failures += 1

    working = asyncio.gather(*(work(number) for number in range(20)))
    for _ in range(3):
        before = calls
        while calls < before + 200:
            await asyncio.sleep(0.005)
        # Stopped before it is killed, so that calls are under way. Each of them may be such as are
        # sent again, so one is added that is not.
        server.stop()
        lost = asyncio.ensure_future(client.execute_command("INCR", "n"))
        await asyncio.sleep(0.05)
        server.kill()
        await asyncio.to_thread(server.start)
        try:
            assert await lost == 1  # it had not been sent yet
        except petrel.ConnectionError:
            failures += 1
    is_over = True
    await working
    assert failures
    assert await client.get("k") is None
    assert await client.set("k", "again") is True


def test_no_server():
    async def main():
        async with petrel.asyncio.Client(port=1) as client:
            with pytest.raises(petrel.ConnectionError):
                await client.get("k")

    asyncio.run(main())


def test_several_event_loops(server):
    """A client outlives an event loop, such as that of ``asyncio.run``."""
    client = petrel.asyncio.Client(port=server.port)

    async def use(number):
        assert await client.set("k", number) is True
        return await client.get("k")

    for number in range(3):
        assert asyncio.run(use(number)) == str(number).encode()
    asyncio.run(client.aclose())
