"""What the workers of rq_jobs.py import."""


def double(n):
    return n * 2
