"""200 jobs, half of which wait for another, for four workers that end when there is nothing left."""

import multiprocessing
import os

from redis import Redis
from rq import Queue, SimpleWorker

from rq_tasks import double

JOBS = 200
WORKERS = 4


def connect():
    return Redis(port=int(os.environ["PETREL_PORT"]), retry=None)


def work():
    connection = connect()
    worker = SimpleWorker([Queue("jobs", connection=connection)], connection=connection)
    worker.work(burst=True, logging_level="ERROR")


def main():
    connection = connect()
    queue = Queue("jobs", connection=connection)
    firsts = queue.enqueue_many([Queue.prepare_data(double, (n,)) for n in range(JOBS // 2)])
    seconds = [queue.enqueue(double, JOBS // 2 + n, depends_on=job) for n, job in enumerate(firsts)]
    workers = [multiprocessing.Process(target=work, daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for n, job in enumerate(firsts + seconds):
        result = job.latest_result(timeout=20)
        assert result is not None and result.return_value == n * 2, f"job {n}: {result}"
    for worker in workers:
        worker.join(20)
        assert worker.exitcode == 0, f"a worker ended with {worker.exitcode}"
    assert len(queue) == 0 and queue.failed_job_registry.count == 0
    assert queue.finished_job_registry.count == JOBS
    print(f"ok {JOBS} jobs")


if __name__ == "__main__":
    main()
