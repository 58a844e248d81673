#!/usr/bin/env python3
"""Holds the alerts and the dashboard against a cluster that runs, scraped by a real Prometheus: rules are sound and pass
their own tests, every expression of the dashboard gives something, nothing is wrong while all is well, and the alert on
a replica that was killed fires. It takes Debian's prometheus and etcd-client, and a minute.

    packaging/test-metrics.py --program PATH [--port PORT]
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
REPLICAS = 3
# What the dashboard asks for and a small cluster without TLS does not have.
MAY_BE_EMPTY = ("quorate_certificate_expiry_seconds",)


def say(*words):
    print("test-metrics:", *words, flush=True)


def await_true(what, seconds, condition):
    """What the condition gives once it gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    sys.exit(f"test-metrics: FAILED: {what} did not come within {seconds} s")


class Prometheus:
    """A Prometheus over the replicas, every second."""

    def __init__(self, work, port, targets):
        self.url = f"http://127.0.0.1:{port}"
        rules = os.path.join(HERE, "prometheus", "alerts.yaml")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [{"job_name": "test", "static_configs": [{"targets": targets}]}],
        }
        # JSON is YAML.
        path = os.path.join(work, "prometheus.yaml")
        with open(path, "w") as file:
            json.dump(config, file)
        subprocess.run(["promtool", "check", "config", path], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(work, "prometheus.log"), "w") as log:
            data = os.path.join(work, "prometheus")
            options = [f"--config.file={path}", f"--storage.tsdb.path={data}"]
            options.append(f"--web.listen-address=127.0.0.1:{port}")
            self.process = subprocess.Popen(["prometheus", *options], stdout=log, stderr=log)

    def get(self, path, **query):
        """What a question is answered; nothing while nobody answers."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            sys.exit(f"test-metrics: FAILED: {query}: {refused.read().decode()}")
        except OSError:
            return None

    def query(self, expression):
        """The series that an expression gives, with their values as numbers."""
        data = self.get("query", query=expression) or {"result": []}
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    def firing(self):
        return sorted({of["alertname"] for of, _ in self.query('ALERTS{alertstate="firing"}')})


def expressions():
    """Title and expression of each curve of the dashboard, as of a cluster that is called `test`."""
    with open(os.path.join(HERE, "grafana", "quorate.json")) as file:
        dashboard = json.load(file)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"].replace("$cluster", "test").replace("$__rate_interval", "15s")
            yield panel["title"], text


def begin_cluster(program, port, work):
    """Starts the replicas. The process of `quorate up`, and those of its replicas."""
    data = os.path.join(work, "data")
    command = [program, "up", "--replicas", str(REPLICAS), "--port", str(port), "--data-dir", data]
    path = os.path.join(work, "up.log")
    with open(path, "w") as log:
        up = subprocess.Popen(command, stdout=log, stderr=log)

    def replicas():
        with open(path) as log:
            return re.findall(r"^replica \d+: process (\d+)", log.read(), re.MULTILINE)

    await_true("the cluster", 30, lambda: len(replicas()) == REPLICAS)
    return up, [int(process) for process in replicas()]


def check_dashboard(prometheus):
    """Every curve has something to show."""
    count = 0
    for title, expression in expressions():
        count += 1
        if any(name in expression for name in MAY_BE_EMPTY):
            prometheus.get("query", query=expression)
            continue
        await_true(f"{title}: {expression}", 40, lambda: prometheus.query(expression))
    say(f"{count} curves of the dashboard have something to show")


def run(arguments, work):
    alerts = os.path.join(HERE, "prometheus")
    subprocess.run(["promtool", "check", "rules", "alerts.yaml"], cwd=alerts, check=True)
    subprocess.run(["promtool", "test", "rules", "alerts-test.yaml"], cwd=alerts, check=True)
    ports = [arguments.port + 2 * replica for replica in range(REPLICAS)]
    targets = [f"127.0.0.1:{port}" for port in ports]
    up, replicas = begin_cluster(arguments.program, arguments.port, work)
    prometheus = Prometheus(work, arguments.port + 2 * REPLICAS, targets)
    writer = None
    try:
        await_true("the scrapes", 60, lambda: len(prometheus.query("up == 1")) == REPLICAS)
        writes = f"i=0; while :; do etcdctl --endpoints {targets[0]} put k $((i+=1)); done"
        writer = subprocess.Popen(
            ["bash", "-c", writes], stdout=subprocess.DEVNULL, start_new_session=True
        )
        check_dashboard(prometheus)
        firing = prometheus.firing()
        if firing:
            sys.exit(f"test-metrics: FAILED: all is well, and {firing} fire")
        say("no alert fires while all is well")
        os.kill(replicas[-1], signal.SIGKILL)
        fires = await_true("an alert", 90, prometheus.firing)
        if fires != ["QuorateReplicaDown"]:
            sys.exit(f"test-metrics: FAILED: a replica was killed, and {fires} fire")
        say(f"a replica was killed, and {fires[0]} fires")
        both = ["QuorateMemberUnreachable", "QuorateReplicaDown"]
        await_true("the others' alert", 90, lambda: prometheus.firing() == both)
        say("the others say that they cannot reach it")
    finally:
        if writer:
            os.killpg(writer.pid, signal.SIGTERM)
            writer.wait()
        for process in (prometheus.process, up):
            process.terminate()
            process.wait()


def main():
    options = argparse.ArgumentParser(description="See the top of this file.")
    options.add_argument("--program", required=True, help="the quorate executable")
    options.add_argument("--port", type=int, default=23790, help="the first of seven ports")
    arguments = options.parse_args()
    for needed in ("prometheus", "promtool", "etcdctl"):
        if not shutil.which(needed):
            sys.exit(f"there is no {needed} (Debian: prometheus, etcd-client)")
    work = tempfile.mkdtemp(prefix="quorate-metrics-")
    try:
        run(arguments, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


main()
