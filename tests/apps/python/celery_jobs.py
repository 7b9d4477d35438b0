"""200 tasks in a group, 20 chords and as many tasks that are retried, for a worker of eight threads."""

import os

from celery import Celery, chord, group
from celery.contrib.testing.worker import start_worker

TASKS = 200
SECONDS = 20
url = f"redis://127.0.0.1:{os.environ['PETREL_PORT']}/0"
app = Celery("jobs", broker=url, backend=url)
app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)


@app.task
def double(n):
    return n * 2


@app.task
def total(values):
    return sum(values)


@app.task(bind=True, max_retries=3)
def retried(self, n):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return n


with start_worker(app, pool="threads", concurrency=8, perform_ping_check=False, loglevel="ERROR"):
    doubled = group(double.s(n) for n in range(TASKS)).apply_async()
    chords = [chord([double.s(n) for n in range(size)])(total.s()) for size in range(2, 22)]
    again = [retried.delay(n) for n in range(20)]
    assert doubled.get(timeout=SECONDS) == [n * 2 for n in range(TASKS)]
    for size, result in enumerate(chords, start=2):
        assert result.get(timeout=SECONDS) == size * (size - 1)
    assert [result.get(timeout=SECONDS) for result in again] == list(range(20))
print(f"ok {TASKS} tasks, {len(chords)} chords")
os._exit(0)
