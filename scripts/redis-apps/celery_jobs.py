"""Celery with Redis as broker and as store of results. Arguments: three ports: where tasks are sent, where the worker
takes them, and where results go."""

import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

folder = tempfile.TemporaryDirectory()
runs_file = pathlib.Path(folder.name, "runs")
runs_file.touch()
send, take, results = sys.argv[1:4]
os.environ["RUNS"] = str(runs_file)
os.environ["BACKEND"] = f"redis://127.0.0.1:{results}/5"
command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "--loglevel", "warning"]
log = pathlib.Path(folder.name, "worker.log")
environment = {**os.environ, "BROKER": f"redis://127.0.0.1:{take}/4"}
stopping = threading.Event()


class Supervisor(threading.Thread):
    """Keeps a worker running, as supervisors do in production: some errors of its connection end it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.began, self.worker = 0, None

    def run(self):
        while not stopping.is_set():
            with open(log, "a") as out:
                here = os.path.dirname(os.path.abspath(__file__))
                self.worker = subprocess.Popen(command, cwd=here, stdout=out, stderr=out, env=environment)
                self.began += 1
                self.worker.wait()


supervisor = Supervisor()
supervisor.start()
os.environ["BROKER"] = f"redis://127.0.0.1:{send}/4"

from celery.exceptions import CeleryError  # noqa: E402
from kombu.exceptions import KombuError  # noqa: E402
from redis.exceptions import RedisError  # noqa: E402

from tasks import double  # noqa: E402
from work import begin, eventually, report, stopped  # noqa: E402


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

eventually(60, lambda: all(done(i) in runs() for i in sent))
ran = runs()
lost = [i for i in sent if done(i) not in ran]
twice = sum(1 for line, count in ran.items() if count > 1)
finished = [i for i in sent if i not in lost]
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
stopping.set()
supervisor.worker.terminate()
supervisor.join(60)
said = log.read_text()
print(said, file=sys.stderr)
# The worker takes tasks by BRPOP: one is lost with a connection that breaks behind that, before its answer is read.
broken = said.count("Connection to broker lost") + supervisor.began - 1
# A worker that cannot store a result, or send a retry, gives the task up.
given_up = said.count("raised unexpected: network:")
breaks = broken + given_up
faults = []
if len(lost) > breaks:
    faults.append(f"lost {len(lost)} over {breaks} broken connections: {lost[:5]}")
if len(missing) > given_up + broken:
    faults.append(f"{len(missing)} without result over {breaks} broken connections: {missing[:5]}")
if wrong:
    faults.append(f"{wrong} results are wrong")
report(
    {"tasks": len(sent), "lost": len(lost), "without result": len(missing), "ran twice": twice, "unknown": unknown,
     "broken connections": broken, "given up by the worker": given_up, "workers": supervisor.began},
    faults,
    breaks,
)
