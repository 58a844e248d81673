"""Runs applications of Redis on Quorate while executors are killed, and at the same moments on one server whose
connections are cut, and on one that is killed. Prints a line for each, and ends with 1 when Quorate lost or doubled what
it may not."""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from systems import Cut, Killed, Quorate, find_server

here = pathlib.Path(__file__).parent
APPS = {"bullmq": "bullmq.mjs", "ioredis": "ioredis.mjs", "lock": "lock.py", "celery": "celery_jobs.py",
        "queue": "queue_jobs.py", "sidekiq": "sidekiq_jobs.py"}


class App:
    """One application on one system."""

    def __init__(self, name, system, options, folder):
        self.name, self.system = name, system
        self.log = pathlib.Path(folder, f"{name}-{type(system).__name__}.log")
        program = APPS[name]
        if program.endswith(".py"):
            command = [sys.executable, str(here / program)]
        else:
            # Modules are found beside the program alone, so it runs where its libraries are.
            command = ["node", str(pathlib.Path(options.modules, program))]
        command += map(str, system.ports)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.log, "w"), text=True)

    def await_ready(self):
        """Waits until it works, and ends the run where it does not start."""
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{self.name} does not start on {self.system.name}:\n{self.log.read_text()[-2000:]}")

    def finish(self):
        """Lets it finish its work, and takes what it says of it."""
        self.process.stdin.close()
        watch = threading.Timer(240, self.process.kill)
        watch.start()
        said = self.process.stdout.read().strip()
        self.process.wait()
        watch.cancel()
        if not said:
            return {"counts": {}, "faults": [f"it does not finish: {self.log.read_text()[-500:]}"], "breaks": 0}
        return json.loads(said.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apps", default="bullmq,ioredis,lock,queue,celery", help="of: " + ", ".join(APPS))
    parser.add_argument("--kills", type=int, default=20, help="kills of each kind")
    parser.add_argument("--kinds", default="replica,server", help="what of the executor is killed, in turns")
    parser.add_argument("--protocol", default="rabia")
    parser.add_argument("--redis-server", help="a server [REDIS_SERVER, or one in PATH]")
    parser.add_argument("--quorate", required=True)
    parser.add_argument("--modules", required=True)
    parser.add_argument("--seed", type=int, default=1, help="of the pauses between kills")
    parser.add_argument("--keep", help="a folder for logs and data, kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(run(options, pathlib.Path(options.keep or scratch)))


def run(options, folder):
    """One run; the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    server, dice = find_server(options.redis_server), random.Random(options.seed)
    names = options.apps.split(",")
    alone = [Cut(server, folder), Killed(server, folder)]
    quorate = Quorate(options.quorate, [f"--redis-server={server}"], options.protocol, folder)
    systems = [quorate, *alone]
    apps = [App(name, system, options, folder) for system in systems for name in names]
    try:
        for app in apps:
            app.await_ready()
        kinds, gaps = options.kinds.split(","), []
        for turn in range(options.kills * len(kinds)):
            time.sleep(dice.uniform(1, 3))
            hurting = [threading.Thread(target=one.hurt) for one in alone]
            for thread in hurting:
                thread.start()
            gaps.append(quorate.hurt(kinds[turn % len(kinds)]))
            for thread in hurting:
                thread.join()
        print(f"{options.kills} kills of each of: {', '.join(kinds)}; the next executor after "
              f"{statistics.median(gaps):.2f} s (median), {max(gaps):.2f} s (most)", flush=True)
        return judge(apps, quorate)
    finally:
        for app in apps:
            app.process.kill()
        for system in systems:
            system.stop()


def judge(apps, quorate):
    """Prints a line for each application on each system; the exit code."""
    code, threads, said = 0, [], {}
    for app in apps:
        def take(app=app):
            said[app] = app.finish()
        threads.append(threading.Thread(target=take))
        threads[-1].start()
    for thread in threads:
        thread.join()
    for app in sorted(apps, key=lambda app: (app.name, app.system is not quorate)):
        counts = ", ".join(f"{name} {count}" for name, count in said[app]["counts"].items())
        faults = said[app]["faults"]
        print(f"{app.name} on {app.system.name}: {counts}" + "".join(f"; FAULT: {fault}" for fault in faults))
        if faults and app.system is quorate:
            code = 1
    return code


if __name__ == "__main__":
    main()
