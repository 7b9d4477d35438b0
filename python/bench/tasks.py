"""Tasks of asyncio that set and get keys: this package beside redis-py, by turns, on one server.

    python bench/tasks.py redis://localhost:6379 [--tasks 100] [--seconds 3] [--rounds 3]

Prints operations per second and the CPU time of this process, all of its threads included, per
operation: the best of the rounds, and each. It overwrites keys that begin with ``bench:``.
"""

import argparse
import asyncio
import random
import time

import redis.asyncio

import petrel.asyncio

VALUE = b"v" * 64


async def measure(client, command, tasks, seconds):
    """Operations and CPU seconds of tasks that run for so long."""
    keys = [f"bench:{number:010}" for number in range(10_000)]
    until = time.perf_counter() + seconds
    count = 0

    async def work(seed):
        nonlocal count
        choose = random.Random(seed).choices
        while time.perf_counter() < until:
            for key in choose(keys, k=20):
                if command == "set":
                    await client.set(key, VALUE)
                else:
                    await client.get(key)
            count += 20

    began, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work(seed) for seed in range(tasks)))
    return count / (time.perf_counter() - began), (time.process_time() - used) / count * 1e6


async def main(arguments):
    clients = {
        "petrel": petrel.asyncio.from_url(arguments.url),
        "redis-py": redis.asyncio.from_url(arguments.url, max_connections=arguments.tasks),
    }
    results = {}
    for client in clients.values():
        await measure(client, "set", arguments.tasks, 0.5)
    for _ in range(arguments.rounds):
        for command in ("set", "get"):
            for name, client in clients.items():
                result = await measure(client, command, arguments.tasks, arguments.seconds)
                results.setdefault((command, name), []).append(result)
    print(f"redis-py {redis.__version__}, {arguments.tasks} tasks, values of {len(VALUE)} B")
    for command in ("set", "get"):
        best = {}
        for name in clients:
            rounds = results[command, name]
            best[name] = max(rounds)
            each = " ".join(f"{rate:.0f}" for rate, _ in rounds)
            rate, cpu = best[name]
            print(f"{command} {name:9} {rate:9.0f} ops/s {cpu:7.2f} us CPU/op   ({each})")
        ours, theirs = best["petrel"], best["redis-py"]
        print(f"{command} ratio     {ours[0] / theirs[0]:9.2f} x     {theirs[1] / ours[1]:7.2f} x")
    for client in clients.values():
        await client.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    asyncio.run(main(parser.parse_args()))
