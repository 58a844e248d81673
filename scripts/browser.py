"""A browser without a window, told what to do over a pair of pipes (the DevTools protocol)."""

import json
import os
import select
import subprocess
import time


class Browser:
    """A browser with one page, which remembers what went wrong on it and what it asked for."""

    def __init__(self, program, folder):
        theirs_in, self.to = os.pipe()
        self.source, theirs_out = os.pipe()
        options = [
            "--headless",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            "about:blank",
        ]
        if os.geteuid() == 0:
            options.insert(0, "--no-sandbox")
        # The browser reads from its descriptor 3 and writes to 4.
        words = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", words, program, *options],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.received = b""
        self.number = 0
        self.session = None
        self.errors = []
        self.asked = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ["Page", "Runtime", "Network", "Log"]:
            self.call(f"{domain}.enable")

    def close(self):
        """Ends the browser."""
        self.process.kill()
        self.process.wait()

    def call(self, method, **params):
        """Has the browser do something, and returns what it came to."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + 30
        while True:
            message = self.next(deadline)
            if message is None:
                raise SystemExit(f"the browser does not answer {method}")
            if message.get("id") != self.number:
                self.note(message)
            elif "error" in message:
                raise SystemExit(f"{method}: {message['error']}")
            else:
                return message["result"]

    def next(self, deadline):
        """The next message, if one comes in time."""
        while b"\0" not in self.received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.source], [], [], left)[0]:
                return None
            some = os.read(self.source, 1 << 16)
            if not some:
                raise SystemExit("the browser has ended")
            self.received += some
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def note(self, message):
        """Remembers what the page asks for, and what goes wrong."""
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(f"the console says {params['args']}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.asked.append(params["url"])

    def evaluate(self, script):
        """What a script on the page comes to."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise SystemExit(f"{script}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def comes(self, script, seconds):
        """Waits until a script on the page comes to something that is true; says whether it did."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.evaluate(script):
                return True
            message = self.next(time.monotonic() + 0.05)
            if message:
                self.note(message)
        return False

    def wait(self, what, script):
        """Waits until a script on the page comes to something that is true."""
        if not self.comes(script, 30):
            shown = self.evaluate("document.body.innerText")
            raise SystemExit(f"the page does not show {what}; it shows: {shown}")
