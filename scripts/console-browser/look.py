"""Starts a cluster and looks at a replica's console in a browser; see console-browser.sh."""

import argparse
import base64
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from urllib.parse import urlsplit

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from browser import Browser  # noqa: E402

# The most bytes of a picture.
PICTURE_BYTES_MAX = 200_000
# A name that is a script, where names are shown as HTML.
HOSTILE = "<img src=x onerror=alert(1)>"
DESK, PHONE = (1100, 1180), (390, 844)

ROWS = "[...document.querySelectorAll('#%s tr')].slice(1).map(row => row.innerText)"
POINTS = "(document.querySelector('#%s polyline')?.getAttribute('points') || '').split(' ').length"


def check(is_right, what, seen=None):
    if not is_right:
        raise SystemExit(f"{what}: {seen}")
    print(f"ok: {what}")


class Cluster:
    """A cluster of its own, which is ended with this."""

    def __init__(self, program, folder, port, *options):
        words = [program, "up", "--data-dir", folder, "--port", str(port), *options]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("endpoints:"):
                break
        else:
            raise SystemExit(f"the cluster does not start: see the logs in {folder}")
        self.folder = folder
        self.port = port

    def url(self, replica):
        return f"http://127.0.0.1:{self.port + 2 * (replica - 1)}"

    def signal(self, replica, number):
        os.kill(int((self.folder / str(replica) / "lock").read_text()), number)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)


def size(browser, width_and_height):
    width, height = width_and_height
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
    )


def scheme(browser, name):
    features = [{"name": "prefers-color-scheme", "value": name}]
    browser.call("Emulation.setEmulatedMedia", features=features)


def picture(browser, path):
    taken = browser.call("Page.captureScreenshot", format="png")
    path.write_bytes(base64.b64decode(taken["data"]))
    bytes_taken = path.stat().st_size
    check(0 < bytes_taken < PICTURE_BYTES_MAX, f"a picture of {bytes_taken} bytes is in {path}")


def open_page(browser, url):
    browser.call("Page.navigate", url=f"{url}/console")
    ready = "document.readyState === 'complete' && !!document.querySelector('#members tr:nth-child(2)')"
    browser.wait("members", ready)


def is_wide(browser):
    return browser.evaluate("document.documentElement.scrollWidth > window.innerWidth")


def look(browser, cluster, pictures):
    size(browser, DESK)
    scheme(browser, "light")
    open_page(browser, cluster.url(1))
    members = browser.evaluate(ROWS % "members")
    check(len(members) == 3, "three members are shown", members)
    browser.wait("that all is well", "document.getElementById('health').className === 'good'")
    moved = f"{POINTS % 'rate-plot'} >= 12 && {POINTS % 'total-plot'} >= 12"
    browser.wait("rates and times", moved)
    rate = browser.evaluate("Number(document.getElementById('rate').innerText.replaceAll(',', ''))")
    check(rate > 0, f"{rate} commands in a second are shown")
    places = browser.evaluate(ROWS % "places")
    total = next((row for row in places if row.startswith("total")), "")
    check("us" in total or "ms" in total, "times by place are shown", places)
    limit = browser.evaluate("document.getElementById('limit').innerText")
    check("limit" in limit, f"what limits is named: {limit}")
    check(len(browser.evaluate(ROWS % "epochs")) == 1, "its configuration is shown")
    picture(browser, pictures / "console.png")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    focused = browser.evaluate("document.activeElement.tagName + document.activeElement.getAttribute('href')")
    check(focused.startswith("Ahttp") and focused.endswith("/console"), "the keyboard reaches links", focused)
    before = browser.evaluate(POINTS % "rate-plot")
    browser.wait("another look", f"{POINTS % 'rate-plot'} > {before}")
    check(browser.evaluate("document.activeElement.tagName") == "A", "and stays there while figures come")
    scheme(browser, "dark")
    dark = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    check(dark == "rgb(20, 23, 29)", "it is dark in the dark", dark)
    size(browser, PHONE)
    check(not is_wide(browser), "it fits on a phone")
    picture(browser, pictures / "console-phone.png")
    cluster.signal(3, signal.SIGKILL)
    browser.wait("that a member is gone", f"({ROWS % 'members'}).some(row => row.includes('DOWN'))")
    print("ok: a member that died is seen")
    cluster.signal(1, signal.SIGSTOP)
    browser.wait("that the replica is frozen", "/no answer/.test(document.getElementById('health').innerText)")
    print("ok: a replica that is frozen is seen")
    cluster.signal(1, signal.SIGCONT)


def look_at_hostile_names(browser, cluster):
    size(browser, DESK)
    open_page(browser, cluster.url(1))
    members = browser.evaluate(ROWS % "members")
    check(HOSTILE in members[0], "a name that is a script is shown as text", members)
    check(browser.evaluate("document.images.length") == 0, "and makes no element")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quorate", required=True)
    parser.add_argument("--browser", required=True)
    parser.add_argument("--pictures", type=pathlib.Path, default=pathlib.Path("docs/guide"))
    parser.add_argument("--port", type=int, default=9400)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="console-browser-"))
    browser, load, clusters = None, None, []
    try:
        clusters.append(Cluster(options.quorate, folder / "three", options.port))
        words = ["bench", "put", "--total", "2000000", "--clients", "8", "--endpoints", clusters[0].url(1)]
        load = subprocess.Popen([options.quorate, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        browser = Browser(options.browser, folder / "browser")
        look(browser, clusters[0], options.pictures)
        hostile = ["--replicas", "1", f"--server-arg=--name={HOSTILE}"]
        clusters.append(Cluster(options.quorate, folder / "one", options.port + 20, *hostile))
        look_at_hostile_names(browser, clusters[1])
        check(not browser.errors, "no script fails, and nothing is refused", browser.errors)
        hosts = [urlsplit(cluster.url(1)).netloc for cluster in clusters]
        elsewhere = [url for url in browser.asked if urlsplit(url).netloc not in hosts and not url.startswith("data:")]
        check(not elsewhere, f"{len(browser.asked)} requests, all to the replica", elsewhere)
    finally:
        if load:
            load.kill()
            load.wait()
        if browser:
            browser.close()
        for cluster in clusters:
            cluster.end()
        shutil.rmtree(folder, ignore_errors=True)


main()
