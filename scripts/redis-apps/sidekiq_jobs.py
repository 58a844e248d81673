"""Sidekiq: a process that works, and one that sends jobs. Arguments: three ports: where jobs are sent, where they are
taken, and where what is left is looked for.

Jobs are taken by BRPOP and kept in memory: one may be lost with each connection, or worker, that breaks."""

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from redis import Redis
from redis.exceptions import RedisError

from work import Supervisor, begin, eventually, report, stopped

# What Sidekiq's log says of a connection that broke.
BROKEN = re.compile(r"Redis::\w+Error|Errno::E\w+|EOFError")

folder = tempfile.TemporaryDirectory()
runs_file = pathlib.Path(folder.name, "runs")
runs_file.touch()
log = pathlib.Path(folder.name, "worker.log")
here = pathlib.Path(__file__).parent
send, take, look = sys.argv[1:4]


def environment(port):
    """What a process of Ruby is told."""
    return {**os.environ, "RUNS": str(runs_file), "BROKER": f"redis://127.0.0.1:{port}/7"}


def runs():
    """How often each job ran."""
    return collections.Counter(map(int, runs_file.read_text().split()))


def at_broker(ask):
    """What the broker has, if it answers."""
    try:
        return ask(Redis(port=int(look), db=7, socket_timeout=10))
    except RedisError:
        return None


def left():
    """Jobs that nobody has taken, one after the other."""
    return at_broker(lambda broker: broker.lrange("queue:default", 0, -1) + broker.zrange("retry", 0, -1))


command = ["sidekiq", "-r", str(here / "sidekiq_jobs.rb"), "-c", "2"]
supervisor = Supervisor(command, log, environment(take))
supervisor.start()
if not eventually(60, lambda: at_broker(lambda broker: broker.scard("processes"))):
    sys.exit("the worker does not start")
pusher = subprocess.Popen(["ruby", str(here / "sidekiq_push.rb")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True, env=environment(send))
begin()
stopped.wait()
pusher.stdin.close()
sent = [int(line) for line in pusher.stdout]
pusher.wait()


def is_done(job, ran):
    """Whether a job ran to its end: every tenth fails at first."""
    return ran[job] >= (2 if job % 10 == 0 else 1)


eventually(60, lambda: all(is_done(job, found) for found in [runs()] for job in sent))
eventually(60, lambda: left() == [])
ran, left_over = runs(), left()
lost = [job for job in sent if not is_done(job, ran)]
again = sum(1 for job, count in ran.items() if count > (2 if job % 10 == 0 else 1))
supervisor.stop()
said = log.read_text()
print(said, file=sys.stderr)
broken = sum(1 for line in said.splitlines() if BROKEN.search(line)) + supervisor.began - 1
faults = []
if left_over:
    faults.append(f"{len(left_over)} are left at the broker, and nobody takes them")
if len(lost) > broken:
    faults.append(f"lost {len(lost)} over {broken} broken connections: {lost[:5]}")
report(
    {"jobs": len(sent), "lost": len(lost), "ran again": again, "broken connections": broken,
     "workers": supervisor.began},
    faults,
    broken,
)
