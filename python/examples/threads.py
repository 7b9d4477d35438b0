"""Threads that share a client: ``python examples/threads.py redis://localhost``."""

import sys
import threading

import petrel

with petrel.from_url(sys.argv[1], decode_responses=True) as client:
    client.delete("visits")

    def visit(number: int) -> None:
        for _ in range(100):
            client.incr("visits")
            client.zadd("board", {f"thread {number}": 1}, incr=True)

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(client.get("visits"), client.zrange("board", 0, 2, desc=True, withscores=True))

    near = client.near_cache()
    for _ in range(1000):
        near.get("visits")
    print(near.statistics())
    client.delete("visits", "board")
