"""Starts an exchange and looks at its page in a browser; see exchange-browser.sh."""

import argparse
import base64
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from urllib.parse import urlsplit

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from browser import Browser  # noqa: E402

# The most bytes of the picture.
PICTURE_BYTES_MAX = 200_000
# What the page shows, as text: rows of its tables, the line's points, and the number of the last message.
SHOWN = """(() => {
  const rows = (id, name) => [...document.querySelectorAll(`#${id} tr.${name}`)].map(row => row.innerText);
  const state = document.getElementById("state").innerText;
  return {
    bids: rows("book", "buy"), asks: rows("book", "sell"),
    trades: [...document.querySelectorAll("#trades tr")].slice(1).map(row => row.innerText),
    message: Number((state.match(/message (\\d+)/) || [0, 0])[1]),
    leads: /replica \\d+ leads/.test(state),
    points: (document.getElementById("line").getAttribute("points") || "").split(" ").length,
    requests: Number((document.getElementById("fair").innerText.match(/^requests\\s+(\\d+)/m) || [0, 0])[1]),
    now: document.getElementById("now").innerText,
  };
})()"""


def check(is_right, what, seen):
    if not is_right:
        raise SystemExit(f"{what}: {seen}")
    print(f"ok: {what}")


def start_exchange(program, port, rate, folder):
    """An exchange whose participants trade, once its gateways are ready; and the address of a page."""
    options = ["--port", str(port), "--rate", str(rate), "--folder", str(folder), "--symbols", "2"]
    exchange = subprocess.Popen([program, "up", *options], stdout=subprocess.PIPE, text=True)
    page = None
    for line in exchange.stdout:
        if page is None and "http://" in line:
            page = "http://" + line.split("http://")[1].split(",")[0] + "/"
        if "Ctrl-C" in line:
            return exchange, page
    raise SystemExit(f"the exchange does not start: see the logs in {folder}")


def look(browser, page, picture):
    browser.call("Emulation.setDeviceMetricsOverride", width=1180, height=1040, deviceScaleFactor=1, mobile=False)
    browser.call("Page.navigate", url=page)
    browser.wait("itself", "document.readyState === 'complete' && !!document.getElementById('state')")
    ready = "%s.trades.length >= 8 && %s.points >= 30" % (SHOWN, SHOWN)
    browser.wait("a book, trades and unfairness", ready)
    first = browser.evaluate(SHOWN)
    check(first["bids"] and first["asks"], "the book has both sides", first)
    check(first["leads"], "a replica leads", first)
    check(first["requests"] > 0 and "%" in first["now"], "unfairness is shown", first)
    before = json.dumps(first)
    moved = f"""(() => {{ const now = {SHOWN}, before = {before};
      return now.message > before.message && now.requests > before.requests && now.points > before.points
        && now.trades.join() !== before.trades.join()
        && now.bids.concat(now.asks).join() !== before.bids.concat(before.asks).join(); }})()"""
    browser.wait("that everything moves", moved)
    print("ok: book, trades and unfairness move")
    trade(browser)
    taken = browser.call("Page.captureScreenshot", format="png")
    picture.write_bytes(base64.b64decode(taken["data"]))
    size = picture.stat().st_size
    check(0 < size < PICTURE_BYTES_MAX, f"a picture of {size} bytes is in {picture}", size)
    check(not browser.errors, "no script fails, and nothing is refused", browser.errors)
    host = urlsplit(page).netloc
    elsewhere = [url for url in browser.asked if urlsplit(url).netloc != host]
    check(not elsewhere, f"{len(browser.asked)} requests, all to the gateway", elsewhere)


def trade(browser):
    """Orders and cancels as a participant, at a price that nobody else meets."""
    own = "[...document.querySelectorAll('#own tr')].slice(1)"
    submit = "document.querySelector('%s').requestSubmit(document.querySelector('%s'))"
    set_value = "document.getElementById('%s').value = %d"
    browser.evaluate(set_value % ("who", 3))
    browser.evaluate(submit % ("#login", "#login button"))
    browser.wait("a connection after the login", "socket.readyState === 1 && participant === 3")
    browser.evaluate(set_value % ("quantity", 7))
    browser.evaluate(set_value % ("price", 80))
    mine = f"{own}.find(row => /\\b80\\s+7\\b/.test(row.innerText))"
    # The participant trades elsewhere, too, and cancels all of its orders now and then.
    for _ in range(10):
        browser.evaluate(submit % ("#order", "#order button.buy"))
        if browser.comes(f"!!{mine}", 3):
            break
    else:
        browser.wait("the order", f"!!{mine}")
    print("ok: an order of the page waits")
    browser.evaluate(f"{mine}?.querySelector('button').click()")
    browser.wait("that the order is gone", f"!{mine}")
    print("ok: the page cancels it")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exchange", required=True)
    parser.add_argument("--browser", required=True)
    parser.add_argument("--picture", type=pathlib.Path, default=pathlib.Path("docs/results/exchange-page.png"))
    parser.add_argument("--port", type=int, default=9100)
    parser.add_argument("--rate", type=int, default=200)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="exchange-browser-"))
    exchange, page = start_exchange(options.exchange, options.port, options.rate, folder / "exchange")
    browser = None
    try:
        browser = Browser(options.browser, folder / "browser")
        look(browser, page, options.picture)
    finally:
        if browser:
            browser.close()
        exchange.send_signal(signal.SIGINT)
        exchange.wait(timeout=30)
    shutil.rmtree(folder, ignore_errors=True)


main()
