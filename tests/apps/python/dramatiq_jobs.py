"""500 messages, some of them delayed, for two workers of eight threads."""

import os
import threading

import dramatiq
from dramatiq.brokers.redis import RedisBroker

JOBS = 500
SECONDS = 20

brokers = [RedisBroker(host="127.0.0.1", port=int(os.environ["PETREL_PORT"])) for _ in range(2)]
dramatiq.set_broker(brokers[0])
results = {}
lock = threading.Lock()
done = threading.Event()


def double(n):
    with lock:
        results.setdefault(n, []).append(n * 2)
        if len(results) == JOBS:
            done.set()


actors = [dramatiq.actor(double, broker=broker, actor_name="double", max_retries=0) for broker in brokers]
workers = [dramatiq.Worker(broker, worker_threads=8, worker_timeout=50) for broker in brokers]
for worker in workers:
    worker.start()
for n in range(JOBS):
    actors[n % 2].send_with_options(args=(n,), delay=200 if n % 10 == 0 else None)
assert done.wait(SECONDS), f"after {SECONDS} s {len(results)} of {JOBS} messages are handled"
for broker in brokers:
    broker.join("default", timeout=SECONDS * 1000)
for worker in workers:
    worker.stop()
assert results == {n: [n * 2] for n in range(JOBS)}, "a message was handled twice"
print(f"ok {JOBS} messages")
