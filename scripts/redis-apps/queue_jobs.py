"""A queue by LPUSH and BRPOP, as libraries build theirs upon. Arguments: three ports.

Nothing comes twice, and what is lost is the reply to a BRPOP whose connection broke: no more than as many."""

import collections
import random
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from work import begin, eventually, report, stopped

finished = threading.Event()


def connect(port):
    """A client that sends nothing twice by itself."""
    return redis.Redis(port=port, db=6, socket_timeout=15, retry=Retry(NoBackoff(), 0))


class Pusher(threading.Thread):
    """Puts one name after the other into the queue."""

    def __init__(self, number, port):
        super().__init__()
        self.number, self.client = number, connect(port)
        self.known, self.unknown = set(), set()

    def run(self):
        count = 0
        while not stopped.is_set():
            count += 1
            name = f"{self.number}:{count}"
            try:
                self.client.lpush("queue", name)
                self.known.add(name)
            except RedisError:
                self.unknown.add(name)
                time.sleep(0.02)
            time.sleep(random.uniform(0.001, 0.01))


class Taker(threading.Thread):
    """Takes names, and waits for them."""

    def __init__(self, port):
        super().__init__()
        self.client, self.taken, self.broken = connect(port), collections.Counter(), 0

    def run(self):
        while not finished.is_set():
            try:
                found = self.client.brpop("queue", timeout=1)
                if found:
                    self.taken[found[1].decode()] += 1
            except RedisError as error:
                self.broken += 1
                print(type(error).__name__, error, file=sys.stderr)
                time.sleep(0.02)


ports = [int(port) for port in sys.argv[1:]]
pushers = [Pusher(number, port) for number, port in enumerate(ports)]
takers = [Taker(port) for port in ports]
begin()
for worker in pushers + takers:
    worker.start()
for pusher in pushers:
    pusher.join()
known = set().union(*(pusher.known for pusher in pushers))
unknown = set().union(*(pusher.unknown for pusher in pushers))
eventually(30, lambda: all(any(name in taker.taken for taker in takers) for name in known))
finished.set()
for taker in takers:
    taker.join()

taken = sum((taker.taken for taker in takers), collections.Counter())
broken = sum(taker.broken for taker in takers)
lost = [name for name in known if name not in taken]
twice = [name for name, count in taken.items() if count > 1]
faults = []
if len(lost) > broken:
    faults.append(f"lost {len(lost)} over {broken} broken replies: {lost[:5]}")
if twice:
    faults.append(f"{len(twice)} came twice: {twice[:5]}")
if set(taken) - known - unknown:
    faults.append("names came that nobody sent")
report(
    {"pushed": len(known), "taken": len(taken), "lost": len(lost), "twice": len(twice), "unknown": len(unknown),
     "broken replies": broken},
    faults,
    broken,
)
