"""Tasks of the Celery worker: each run writes a line to the file RUNS."""

import os

from celery import Celery

app = Celery("jobs", broker=os.environ["BROKER"], backend=os.environ["BACKEND"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    # What a worker took and did not acknowledge comes back after this time, not after the hour that is usual.
    # Who brings it back has a lock, which a worker that dies with it keeps for five minutes otherwise.
    broker_transport_options={"visibility_timeout": 5, "unacked_mutex_expire": 5},
    # A task that a worker has is done again if the worker dies.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_hijack_root_logger=False,
)


@app.task(bind=True, max_retries=3, name="double")
def double(self, i):
    """Doubles a number; every tenth fails once and is retried."""
    with open(os.environ["RUNS"], "a", buffering=1) as runs:
        runs.write(f"{i} {self.request.retries}\n")
    if i % 10 == 0 and self.request.retries == 0:
        raise self.retry(countdown=0.1)
    return i * 2
