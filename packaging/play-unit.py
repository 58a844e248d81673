"""Plays a service manager for one unit in a folder that is a machine's root, where none runs: starts what the unit says,
as its user and in its state folder, waits for READY=1, and does what a stand-in for systemctl in the root asks for.

    play-unit.py ROOT NAME

It says "ready" whenever the service is, and serves until SIGTERM, which stops the service."""

import configparser
import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
import threading

root, name = sys.argv[1], sys.argv[2]
REQUESTS = os.path.join(root, "run/play-unit")
SYSTEMCTL = """#!/bin/sh
# Stands in for systemctl: hands its words to whoever plays the service manager, and answers as that says.
exec 9>/run/play-unit.lock
flock 9
[ -p /run/play-unit ] || exit 1
echo "$*" >/run/play-unit
read -r code </run/play-unit.answer
exit "$code"
"""


def unit():
    """The unit's keys, each with its last value."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(os.path.join(root, "lib/systemd/system", name + ".service"))
    return parser


class Service:
    """The process of the unit, as it is started, watched and stopped."""

    def __init__(self):
        self.process = None
        self.listener = None
        self.wanted = False
        self.lock = threading.Lock()

    def start(self):
        """Starts it and waits until it says that it is ready."""
        service = unit()["Service"]
        assert service["Type"] == "notify", service["Type"]
        with open(os.path.join(root, "etc/passwd"), encoding="utf-8") as users:
            entry = next(line.split(":") for line in users if line.startswith(service["User"] + ":"))
        user, group = int(entry[2]), int(entry[3])
        state = os.path.join(root, "var/lib", service["StateDirectory"])
        os.makedirs(state, exist_ok=True)
        os.chown(state, user, group)
        os.chmod(state, int(service["StateDirectoryMode"], 8))
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        place = os.path.join(root, "run", name + ".notify")
        if os.path.exists(place):
            os.unlink(place)
        listener.bind(place)
        os.chown(place, user, group)
        listener.settimeout(60)
        self.listener = listener

        # Not everybody who plays may raise limits.
        limit = min(int(service["LimitNOFILE"]), resource.getrlimit(resource.RLIMIT_NOFILE)[1])

        def become():
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            os.chroot(root)
            os.chdir("/")
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)

        log = open(os.path.join(root, "var/log", name + ".log"), "ab")
        self.wanted = True
        self.process = subprocess.Popen(
            shlex.split(service["ExecStart"]),
            preexec_fn=become,
            env={"NOTIFY_SOCKET": f"/run/{name}.notify", "PATH": "/usr/bin"},
            stdout=log,
            stderr=log,
        )
        process = self.process
        threading.Thread(target=self.watch, args=(process, unit()["Service"]), daemon=True).start()
        while b"READY=1" not in listener.recv(4096):
            pass
        print("ready", flush=True)

    def watch(self, process, service):
        """Starts it again when it fails, as the unit says."""
        code = process.wait()
        if self.wanted and process is self.process and code != 0 and service["Restart"] == "on-failure":
            print(f"failed with {code}, started again", flush=True)
            with self.lock:
                self.start()

    def stop(self):
        """Stops it, and kills it if it takes longer than the unit says."""
        self.wanted = False
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(int(unit()["Service"]["TimeoutStopSec"]))
                # It was told before it ended, and waits in the socket.
                self.listener.settimeout(0)
                said = self.listener.recv(4096)
                print(f"stopped with {code}, said {said.decode().strip()}", flush=True)
            except subprocess.TimeoutExpired:
                self.process.kill()
                print("killed", flush=True)

    def is_active(self):
        return self.process is not None and self.process.poll() is None


def obey(service, words):
    """What systemctl is asked for; the code that it ends with."""
    words = [word for word in words if not word.startswith("-")]
    match words[:1]:
        case ["is-active"]:
            return 0 if service.is_active() else 3
        case ["restart"]:
            service.stop()
            service.start()
        case ["disable"]:
            service.stop()
        case ["daemon-reload"]:
            pass
        case other:
            print(f"systemctl {other}: unknown here", flush=True)
            return 1
    return 0


def main():
    os.makedirs(os.path.join(root, "run/systemd/system"), exist_ok=True)
    stand_in = os.path.join(root, "usr/bin/systemctl")
    with open(stand_in, "w", encoding="utf-8") as file:
        file.write(SYSTEMCTL)
    os.chmod(stand_in, 0o755)
    for pipe in [REQUESTS, REQUESTS + ".answer"]:
        if os.path.exists(pipe):
            os.unlink(pipe)
        os.mkfifo(pipe)
    service = Service()

    def end(*_):
        service.stop()
        for pipe in [REQUESTS, REQUESTS + ".answer"]:
            os.unlink(pipe)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    with service.lock:
        service.start()
    while True:
        with open(REQUESTS, encoding="utf-8") as requests:
            line = requests.readline()
        with service.lock:
            code = obey(service, line.split())
        with open(REQUESTS + ".answer", "w", encoding="utf-8") as answer:
            answer.write(f"{code}\n")


main()
