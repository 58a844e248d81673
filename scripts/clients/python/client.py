"""Puts in batches through the package etcd3; ../README.md says what is read and printed.

The package takes one endpoint: there is a client for each, and puts take them in turns.
"""

import collections
import concurrent.futures
import random
import sys
import time
import urllib.parse

import etcd3


def main():
    urls = [urllib.parse.urlsplit(url) for url in sys.argv[1].split(",")]
    clients = [etcd3.client(host=url.hostname, port=url.port) for url in urls]
    for line in sys.stdin:
        prefix, *numbers = line.split()
        outcomes = batch(clients, prefix, *map(int, numbers))
        for outcome, times in outcomes.items():
            print(f"{times}\t{outcome}")
        print(flush=True)


def batch(clients, prefix, count, spread_ms, least_ms, most_ms):
    """Puts `count` keys, each at a moment of its own, and counts how the calls ended."""

    def put(number):
        client = clients[number % len(clients)]
        request = client._build_put_request(f"{prefix}{number}", "v")
        time.sleep(random.uniform(0, spread_ms) / 1000)
        timeout = random.uniform(least_ms, most_ms) / 1000
        try:
            # As client.put does, with a deadline of this call's own.
            client.kvstub.Put(request, timeout, metadata=client.metadata)
        except Exception as error:
            code = getattr(error, "code", lambda: type(error).__name__)()
            details = getattr(error, "details", lambda: str(error))()
            return f"{code} {details}".replace("\n", " ")
        return "ok"

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return collections.Counter(pool.map(put, range(count)))


main()
