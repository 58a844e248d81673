"""Runs test suites of client libraries on a cluster and on one server, and tells which tests fail on the cluster
alone."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here.parent / "redis-apps"))

from systems import Cut, Quorate, find_server  # noqa: E402

PORT = 6379
# A suite takes minutes; one that hangs is ended.
SECONDS_MAX = 900
# Parts of redis-py's suite that ask servers for something.
REDIS_PY = """test_client test_commands test_connection test_connection_pool test_encoding test_function
test_keyspace_notifications test_lock test_multiprocessing test_pipeline test_pubsub test_scripting""".split()
# Kinds of tests for which there is no server here.
REDIS_PY_MARKS = "not (onlycluster or redismod or ssl or cp_integration or multidb_integration or replica)"


def run_redis_py(options, folder, skipped):
    """The outcome of each test of redis-py, by name."""
    report = folder / "redis-py.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-m", REDIS_PY_MARKS,
               "--timeout", "60", "--redis-url", f"redis://127.0.0.1:{PORT}/9", "--junitxml", str(report),
               *(f"--deselect={name}" for name in skipped), *(f"tests/{name}.py" for name in REDIS_PY)]
    run(command, options.redis_py, folder / "redis-py.log")
    outcomes = {}
    for case in xml.parse(report).iter("testcase"):
        kinds = {child.tag: child.get("message") or "" for child in case}
        name = case.get("classname").replace(".", "/", 1).replace(".", ".py::", 1) + "::" + case.get("name")
        bad = kinds.get("failure", kinds.get("error"))
        outcomes[name] = "skipped" if "skipped" in kinds else bad
    return outcomes


def run_ioredis(options, folder, skipped):
    """The outcome of each test of ioredis, by name."""
    report = folder / "ioredis.json"
    pattern = "|".join(f"^{re.escape(name)}" for name in skipped)
    command = ["node_modules/.bin/mocha", "--no-experimental-strip-types", "--exit", "--timeout", "20000",
               "--reporter", "json", "--reporter-option", f"output={report}",
               *(["--grep", pattern, "--invert"] if pattern else []), "test/helpers/*.ts", "test/functional/**/*.ts"]
    run(command, options.ioredis, folder / "ioredis.log", TS_NODE_TRANSPILE_ONLY="true", NODE_ENV="test")
    told = json.loads(report.read_text())
    outcomes = {}
    for kind, outcome in (("passes", None), ("pending", "skipped")):
        outcomes.update({test["fullTitle"]: outcome for test in told[kind]})
    outcomes.update({test["fullTitle"]: test["err"].get("message", "it failed") for test in told["failures"]})
    return outcomes


SUITES = {"redis-py": run_redis_py, "ioredis": run_ioredis}


def run(command, folder, log, **variables):
    """Runs a suite to its end."""
    with open(log, "w") as out:
        subprocess.run(command, cwd=folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX,
                       env={**os.environ, **variables}, check=False)


def expected():
    """Tests that cannot pass on a cluster: whether they are left out, by suite and name. A line is a suite, `fails` or
    `skip`, and a name; lines with # before them say why."""
    known = {name: {} for name in SUITES}
    for line in (here / "expected.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            suite, kind, name = line.split(None, 2)
            known[suite][name] = kind == "skip"
    return known


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suites", default="redis-py,ioredis")
    parser.add_argument("--redis-server", help="a server [REDIS_SERVER, or one in PATH]")
    parser.add_argument("--protocol", default="rabia")
    for name in ("--quorate", "--redis-py", "--ioredis"):
        parser.add_argument(name, required=True)
    parser.add_argument("--keep", help="a folder for logs and data, kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        sys.exit(judge(options, folder))


def begin(which, options, folder):
    """A system at the port of the suites."""
    server = find_server(options.redis_server)
    if which == "alone":
        return Cut(server, folder, PORT)
    quorate = Quorate(options.quorate, [f"--redis-server={server}"], options.protocol, folder, port=PORT)
    moved = [options.quorate, "redis", "move", "2", "--endpoints", f"redis://127.0.0.1:{PORT}"]
    subprocess.run(moved, check=True, stdout=subprocess.DEVNULL)
    return quorate


def judge(options, folder):
    """Runs each suite on each system; the exit code."""
    code, known = 0, expected()
    for suite in options.suites.split(","):
        found = {}
        for which in ("alone", "cluster"):
            own = folder / f"{suite}-{which}"
            own.mkdir(parents=True)
            system = begin(which, options, own)
            try:
                left_out = [name for name, is_skipped in known[suite].items() if is_skipped]
                found[which] = SUITES[suite](options, own, left_out if which == "cluster" else [])
            finally:
                system.stop()
        alone, cluster = found["alone"], found["cluster"]
        for which, outcomes in found.items():
            passed = sum(1 for outcome in outcomes.values() if outcome is None)
            failed = sum(1 for outcome in outcomes.values() if outcome not in (None, "skipped"))
            print(f"{suite}, {which}: {passed} passed, {failed} failed, {len(outcomes) - passed - failed} skipped")
        failing = {name: why for name, why in cluster.items() if why not in (None, "skipped")}
        differing = {name: why for name, why in failing.items() if alone.get(name) is None}
        gone = [name for name in alone if name not in cluster and alone[name] is None
                and not any(name.startswith(skipped) for skipped in known[suite])]
        new = {name: why for name, why in differing.items() if name not in known[suite]}
        print(f"{suite}: {len(differing)} failed on the cluster alone, {len(differing) - len(new)} of them as expected")
        for name, why in sorted(new.items()):
            print(f"  {name}: {' '.join(why.split())[:200]}")
        for name in gone:
            print(f"  {name}: it did not run on the cluster")
        code |= bool(new or gone)
    return code


if __name__ == "__main__":
    main()
