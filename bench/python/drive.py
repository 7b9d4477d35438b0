"""Drives client libraries of Python with tasks of asyncio, for ``petrel-bench client``: the order
is the only argument, as JSON, and the answer is printed."""

import asyncio
import importlib
import json
import random
import sys
import time

WARM_UP = 0.1

MODULES = {"petrel-python": "petrel.asyncio", "redis-py": "redis.asyncio"}


async def drive(order):
    module = importlib.import_module(MODULES[order["client"]])
    own = {} if order["client"] == "petrel-python" else {"max_connections": order["tasks"]}
    client = module.from_url(f"redis://{order['address']}", **own)
    keys = [f"key:{number:012}" for number in range(order["keys"])]
    value = b"x" * order["value"]
    counts = [0, 0]
    phase = 0

    async def work(seed):
        choose = random.Random(seed).choices
        while phase < 2:
            for key in choose(keys, k=20):
                if order["operation"] == "set":
                    await client.set(key, value)
                else:
                    got = await client.get(key)
                    if len(got) != len(value):
                        raise ValueError(f"a value of {len(got)} bytes instead of {len(value)}")
                if phase < 2:
                    counts[phase] += 1

    tasks = [asyncio.create_task(work(seed)) for seed in range(order["tasks"])]
    await asyncio.sleep(WARM_UP)
    phase, began, used = 1, time.perf_counter(), time.process_time()
    await asyncio.sleep(order["milliseconds"] / 1000)
    phase, took = 2, time.perf_counter() - began
    used = time.process_time() - used
    await asyncio.gather(*tasks)
    await client.aclose()
    return {
        "operations": counts[1],
        "nanoseconds": int(took * 1e9),
        "cpu_nanoseconds": int(used * 1e9),
        # Allocations are not counted.
        "counted_operations": 0,
        "counted_allocations": 0,
        "counted_bytes": 0,
    }


print(json.dumps(asyncio.run(drive(json.loads(sys.argv[1])))))
