"""What every program in Python here has: until when it makes work, and how it says what became of it."""

import json
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
