"""redis-py's lock, with a token that INCR draws while it is held. Arguments: three ports.

Nobody may hold the lock while somebody else does, within the time that it is good for, and tokens rise from one holder
to the next."""

import random
import sys
import threading
import time

import redis
from redis.exceptions import LockError, RedisError

from work import begin, report, stopped

GOOD_FOR = 2.0


class Worker(threading.Thread):
    """One client that takes the lock again and again."""

    def __init__(self, port):
        super().__init__()
        self.client = redis.Redis(port=port, db=3, socket_timeout=10)
        self.holds, self.errors, self.late = [], 0, 0

    def acquire(self, lock):
        """Takes the lock, and tells when it was asked for: from some moment after that on it is good."""
        while not stopped.is_set():
            asked = time.monotonic()
            if lock.acquire(blocking=False):
                return asked
            time.sleep(0.01)
        return None

    def run(self):
        while not stopped.is_set():
            lock = self.client.lock("lock", timeout=GOOD_FOR)
            try:
                asked = self.acquire(lock)
                if asked is None:
                    continue
                began = time.monotonic()
                fence = self.client.incr("fence")
                drawn = time.monotonic()
                time.sleep(random.uniform(0.001, 0.01))
                ended = time.monotonic()
                self.holds.append((began, min(ended, asked + GOOD_FOR), fence, drawn < asked + GOOD_FOR))
                lock.release()
            except LockError:
                # The release was sent twice, or came after the lock's time.
                self.late += 1
            except RedisError as error:
                self.errors += 1
                print(type(error).__name__, error, file=sys.stderr)


workers = [Worker(int(port)) for port in sys.argv[1:]]
begin()
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()

holds = sorted(hold for worker in workers for hold in worker.holds)
overlaps = sum(1 for one, next in zip(holds, holds[1:]) if one[1] > next[0])
# A token that was drawn after the lock's time is of no holder.
drawn_in_time = [hold for hold in holds if hold[3]]
falling = sum(1 for one, next in zip(drawn_in_time, drawn_in_time[1:]) if one[2] >= next[2])
faults = []
if overlaps:
    faults.append(f"held twice at once {overlaps} times")
if falling:
    faults.append(f"tokens did not rise {falling} times")
if len({hold[2] for hold in holds}) < len(holds):
    faults.append("a token was given twice")
last = int(workers[0].client.get("fence"))
if last < len(holds):
    faults.append(f"{len(holds) - last} tokens were lost")
errors, late = (sum(getattr(worker, name) for worker in workers) for name in ("errors", "late"))
report(
    {"held": len(holds), "overlaps": overlaps, "tokens drawn again": last - len(holds), "released late": late,
     "errors": errors},
    faults,
    0,
)
