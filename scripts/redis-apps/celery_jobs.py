"""Celery with Redis as broker and as store of results. Arguments: three ports: where tasks are sent, where the worker
takes them, and where results go. POOL says how the worker runs tasks: threads, prefork or solo [threads].

A task may be lost with a broken connection in three ways, on any Redis, and is counted as one of them. The worker takes
tasks by BRPOP, whose reply may be on its way; it keeps what it took in its memory until a second request has recorded it
as not acknowledged; and it gives a task up when it cannot store its result or send its retry."""

import collections
import os
import pathlib
import sys
import tempfile
import time

from work import Supervisor, begin, eventually, report, stopped

folder = tempfile.TemporaryDirectory()
runs_file = pathlib.Path(folder.name, "runs")
runs_file.touch()
send, take, results = sys.argv[1:4]
os.environ["RUNS"] = str(runs_file)
os.environ["BACKEND"] = f"redis://127.0.0.1:{results}/5"
command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "--loglevel", "warning",
           "--pool", os.environ.get("POOL", "threads")]
log = pathlib.Path(folder.name, "worker.log")
environment = {**os.environ, "BROKER": f"redis://127.0.0.1:{take}/4"}
supervisor = Supervisor(command, log, environment, os.path.dirname(os.path.abspath(__file__)))
supervisor.start()
os.environ["BROKER"] = f"redis://127.0.0.1:{send}/4"

from celery.exceptions import CeleryError  # noqa: E402
from kombu.exceptions import KombuError  # noqa: E402
from redis import Redis  # noqa: E402
from redis.exceptions import RedisError  # noqa: E402

from tasks import double  # noqa: E402


def runs():
    """How often each attempt of each task ran."""
    return collections.Counter(runs_file.read_text().splitlines())


def done(i):
    """The line that the last run of a task writes."""
    return f"{i} {1 if i % 10 == 0 else 0}"


def answers():
    """Whether the worker runs, and takes what is sent to it."""
    try:
        return double.app.control.ping(timeout=1)
    except (CeleryError, KombuError, RedisError, OSError, AttributeError):
        return False


sent, unknown, i = {}, 0, 0
if not eventually(60, answers):
    sys.exit("the worker does not start")
begin()
while not stopped.is_set():
    i += 1
    try:
        sent[i] = double.apply_async((i,), countdown=0.3 if i % 7 == 0 else None)
    except (CeleryError, KombuError, RedisError, OSError, AttributeError) as error:
        # Kombu uses a connection that it has closed for good, and stumbles over what is not there any more.
        unknown += 1
        print(type(error).__name__, error, file=sys.stderr)
    time.sleep(0.1)



def waiting():
    """What the broker has of tasks: those to be taken, and those that were taken and not acknowledged."""
    broker = Redis(port=int(take), db=4, socket_timeout=10)
    try:
        return b"".join(broker.lrange("celery", 0, -1) + broker.hvals("unacked"))
    except RedisError:
        return None


eventually(60, lambda: all(done(i) in runs() for i in sent))
# What is left at the broker is not lost: a worker that goes on takes it.
eventually(60, lambda: waiting() == b"")
ran, left_over = runs(), waiting() or b""
undone = [i for i in sent if done(i) not in ran]
left = [i for i in undone if sent[i].id.encode() in left_over]
lost = [i for i in undone if i not in left]
begun = [i for i in lost if f"{i} 0" in ran]
twice = sum(1 for line, count in ran.items() if count > 1)
finished = [i for i in sent if i not in undone]
wrong, missing = 0, []


def result(i):
    """The result of a task, once it is stored."""
    try:
        return sent[i].result if sent[i].state == "SUCCESS" else None
    except (CeleryError, KombuError, RedisError, OSError, AttributeError):
        return None


eventually(30, lambda: all(result(i) is not None for i in finished[-200:]))
for i in finished:
    found = result(i)
    if found is None:
        missing.append(i)
    elif found != i * 2:
        wrong += 1
is_hung = not supervisor.stop()
said = log.read_text()
print(said, file=sys.stderr)
broken = said.count("Connection to broker lost") + supervisor.began - 1
given_up = said.count("raised unexpected: network:")
breaks = broken + given_up
faults = []
if left:
    faults.append(f"{len(left)} are left at the broker, and nobody takes them: {left[:5]}")
if len(lost) - len(begun) > broken:
    faults.append(f"lost {len(lost) - len(begun)} on the way over {broken} broken connections: {lost[:5]}")
if len(begun) > breaks:
    faults.append(f"lost {len(begun)} that had begun over {breaks} broken connections: {begun[:5]}")
if len(missing) > breaks:
    faults.append(f"{len(missing)} without result over {breaks} broken connections: {missing[:5]}")
if wrong:
    faults.append(f"{wrong} results are wrong")
report(
    {"tasks": len(sent), "lost": len(lost), "without result": len(missing), "ran twice": twice, "unknown": unknown,
     "broken connections": broken, "given up by the worker": given_up, "workers": supervisor.began,
     "hung at the end": int(is_hung)},
    faults,
    breaks,
)
