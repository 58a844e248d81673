"""What every program in Python here has: until when it makes work, and how it says what became of it."""

import json
import subprocess
import sys
import threading
import time

stopped = threading.Event()


def begin():
    """Says that work begins, and watches for the end of standard input, after which no more is wanted."""

    def watch():
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=watch, daemon=True).start()
    print("ready", flush=True)


def eventually(seconds, condition):
    """Waits until a condition holds, and tells whether it does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return condition()


def report(counts, faults, breaks):
    """Says counts, things that must never be (`faults`), and how often a connection broke."""
    print(json.dumps({"counts": counts, "faults": faults, "breaks": breaks}), flush=True)


class Supervisor(threading.Thread):
    """Keeps a worker running, as supervisors do in production: some errors of its connection end it."""

    def __init__(self, command, log, environment, folder=None):
        super().__init__(daemon=True)
        self.command, self.log, self.environment, self.folder = command, log, environment, folder
        self.began, self.worker, self.is_stopping = 0, None, False

    def run(self):
        while not self.is_stopping:
            with open(self.log, "a") as out:
                self.worker = subprocess.Popen(
                    self.command, cwd=self.folder, stdout=out, stderr=out, env=self.environment)
            self.began += 1
            self.worker.wait()

    def stop(self):
        """Ends the worker, and tells whether it ended by itself when it was asked to."""
        self.is_stopping = True
        self.worker.terminate()
        self.join(30)
        is_ended = not self.is_alive()
        if not is_ended:
            self.worker.kill()
            self.join()
        return is_ended
