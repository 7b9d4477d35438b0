"""Checked by ``mypy --strict``: what methods take and return. It is not run."""

from __future__ import annotations

import asyncio

from typing_extensions import assert_type

import petrel
import petrel.asyncio


def threads(client: petrel.Client[bytes]) -> None:
    assert_type(client.get("k"), "bytes | None")
    assert_type(client.set("k", "v", ex=10), "bool | None")
    assert_type(client.set("k", "v", get=True), "bytes | None")
    assert_type(client.hgetall("h"), dict[bytes, bytes])
    assert_type(client.smembers("s"), set[bytes])
    assert_type(client.zrange("z", 0, -1), list[bytes])
    assert_type(client.zrange("z", 0, -1, withscores=True), list[tuple[bytes, float]])
    assert_type(client.lpop("l"), "bytes | None")
    assert_type(client.lpop("l", 2), list[bytes])
    assert_type(client.expire("k", 10, nx=True), bool)
    assert_type(client.near_cache().get("k"), "bytes | None")
    assert_type(client.near_cache().statistics(), dict[str, int])
    assert_type([key for key in client.scan_iter("k*")], list[bytes])
    with client.pipeline() as pipe:
        pipe.set("k", "v").incr("n").expire("k", 10)
        pipe.execute()
    with client.lock("name", timeout=1.0) as lock:
        assert_type(lock.is_lost(), bool)
    with petrel.Client(decode_responses=True) as text:
        assert_type(text.get("k"), "str | None")
    with petrel.RedisCluster(port=7000, decode_responses=True) as cluster:
        assert_type(cluster.get("k"), "str | None")
        assert_type(cluster.dbsize(), int)
        assert_type([primary.dbsize() for primary in cluster.primaries()], list[int])
        cluster.connection("key").close()
    try:
        client.ping()
    except petrel.ResponseError as error:
        print(error.code)
    except petrel.ConnectionError as error:
        print(error.command)


async def tasks(client: petrel.asyncio.Client[bytes]) -> None:
    assert_type(await client.get("k"), "bytes | None")
    assert_type(await client.zrange("z", 0, -1, withscores=True), list[tuple[bytes, float]])
    values = await asyncio.gather(client.get("k"), client.get("l"))
    assert_type(values, "tuple[bytes | None, bytes | None]")
    task = asyncio.create_task(client.incr("n"))
    assert_type(await task, int)
    async with client.pubsub() as pubsub:
        await pubsub.subscribe("news")
        async for message in pubsub:
            print(message["data"])
    async with client.pipeline() as pipe:
        pipe.incr("n")
        await pipe.execute()
    cluster = petrel.asyncio.RedisCluster(startup_nodes=[("localhost", 7000)])
    assert_type(await cluster.get("k"), "bytes | None")
    assert_type([key async for key in cluster.scan_iter()], list[bytes])
    near = await client.near_cache(prefixes=["user:"])
    assert_type(await near.get("k"), "bytes | None")
