"""Tasks that share a client: ``python examples/tasks.py redis://localhost``."""

import asyncio
import sys

import petrel.asyncio


async def main() -> None:
    async with petrel.asyncio.from_url(sys.argv[1], decode_responses=True) as client:
        # One write and one read for all of them.
        await asyncio.gather(*(client.set(f"key:{number}", number) for number in range(100)))
        print(await client.mget("key:1", "key:2"))

        async with client.pubsub() as pubsub:
            await pubsub.subscribe("news")
            await client.publish("news", "hello")
            async for message in pubsub:
                print(message["channel"], message["data"])
                break

        async with client.lock("job", timeout=5):
            async with client.pipeline() as pipe:
                pipe.incr("jobs").delete("key:1")
                print(await pipe.execute())


asyncio.run(main())
