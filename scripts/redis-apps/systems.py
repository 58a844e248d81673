"""What the applications run on: Quorate over real servers, whose executor can be killed, and one server alone, whose
connections can be cut."""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

PATIENCE = 60


def free_ports(count):
    """The first of so many free ports in a row."""
    while True:
        first = random.randrange(12000, 31000)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue


def await_true(what, condition, seconds=PATIENCE):
    """Waits until a condition holds, and gives up with an error."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not in {seconds} s: {what}")
        time.sleep(0.02)
    return found


def ask(port, *words):
    """The first line of the reply to one request, or nothing without one."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as stream:
            stream.sendall((" ".join(words) + "\r\n").encode())
            return stream.makefile("rb").readline().decode().strip()
    except OSError:
        return None


def children(pid):
    """The processes that a process started."""
    found = []
    for tasks in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in tasks.read_text().split()]
        except OSError:
            continue
    return found


class Alone:
    """One server without Quorate."""

    def __init__(self, server, folder, port=None):
        self.folder = pathlib.Path(folder, type(self).__name__.lower())
        self.folder.mkdir(parents=True)
        port = port or free_ports(1)
        self.ports = [port] * 3
        self.command = [server, "--port", str(port), "--dir", str(self.folder), "--save", "", *self.durability]
        self.start()

    def start(self):
        """Starts the server, and waits until it answers."""
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        await_true("the server alone starts", lambda: ask(self.ports[0], "PING") == "+PONG")

    def stop(self):
        """Kills the server."""
        self.process.kill()
        self.process.wait()


class Cut(Alone):
    """A fault cuts the connections of all clients."""

    name = "one server, connections cut"
    durability = ["--appendonly", "no"]

    def hurt(self):
        """Cuts the connections of all clients."""
        for kind in ("normal", "pubsub"):
            ask(self.ports[0], "CLIENT", "KILL", "TYPE", kind)


class Killed(Alone):
    """A fault kills the server, whose writes are on the disk before they are answered, and starts it again."""

    name = "one server, killed"
    durability = ["--appendonly", "yes", "--appendfsync", "always"]
    # As long as another executor takes, or so.
    away = 0.4

    def hurt(self):
        """Kills the server, and starts it again."""
        self.stop()
        time.sleep(self.away)
        self.start()


class Quorate:
    """A cluster of three, each replica with a server of its own."""

    name = "quorate, executors killed"

    def __init__(self, quorate, store, protocol, folder, more=(), port=None):
        self.folder = pathlib.Path(folder, "quorate")
        port = port or free_ports(9)
        self.ports = [port, port + 2, port + 4]
        self.pages = [f"http://127.0.0.1:{port + 6 + i}/redis" for i in range(3)]
        self.log = pathlib.Path(folder, "up.log")
        command = [quorate, "up", "--face", "redis", "--protocol", protocol, "--port", str(port), "--restart",
                   "--data-dir", str(self.folder), *store, *more]
        self.process = subprocess.Popen(command, stdout=open(self.log, "w"), stderr=subprocess.STDOUT)
        await_true("the cluster starts", lambda: all(ask(port, "PING") == "+PONG" for port in self.ports))

    def page(self, replica):
        """What a replica says of its server."""
        try:
            with urllib.request.urlopen(self.pages[replica], timeout=2) as page:
                return json.load(page)
        except (OSError, ValueError):
            return None

    def executor(self):
        """The replica that executes, from 1, and its epoch, when the servers of the others follow it."""
        pages = [self.page(replica) for replica in range(3)]
        roles = [page and page["role"] for page in pages]
        if sorted(map(str, roles)) != ["executing", "following", "following"]:
            return None
        if any(page["lag_bytes"] > 1 << 20 for page in pages):
            return None
        replica = roles.index("executing")
        return replica + 1, pages[replica]["epoch"]

    def processes(self, replica):
        """The processes of a replica and of its server."""
        for pid in children(self.process.pid):
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"--id" in command and command[command.index(b"--id") + 1] == str(replica).encode():
                return pid, children(pid)
        raise ProcessLookupError(f"there is no process of replica {replica}")

    def hurt(self, kind):
        """Kills the executor's replica or its server, and tells how long it took until a replica executed again."""
        # Asked for later, the epoch might be that of another replica, and the next one not come for a long time.
        replica, epoch = await_true("one executes, two follow", self.executor)
        pid, servers = self.processes(replica)
        victim = pid if kind == "replica" else servers[0]
        began = time.monotonic()
        os.kill(victim, signal.SIGKILL)

        def again():
            pages = [self.page(other) for other in range(3)]
            return any(page and page["role"] == "executing" and page["epoch"] > epoch for page in pages)

        await_true("another executor", again)
        return time.monotonic() - began

    def stop(self):
        """Ends the cluster, and removes nothing."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()


def find_server(given):
    """The server to run: the one that is named, or one in PATH."""
    found = given or os.environ.get("REDIS_SERVER") or shutil.which("valkey-server") or shutil.which("redis-server")
    if not found:
        raise SystemExit("--redis-server names no server, and PATH has none")
    return os.path.abspath(found)
