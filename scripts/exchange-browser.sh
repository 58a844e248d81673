#!/usr/bin/env bash
# The web page of an exchange in a browser: starts an exchange whose participants trade, opens the page, and checks that
# book, trades and unfairness are shown and move, that a participant can order and cancel there, that no script fails
# and that nothing is asked of anybody else. Takes a picture of the page.
#
#   scripts/exchange-browser.sh                                   # the picture goes to docs/results/exchange-page.png
#   scripts/exchange-browser.sh --picture page.png --port 9300
#
# EXCHANGE names the executable; without it one is built. BROWSER names the browser; without it, one of Chromium's is
# looked for (Debian: chromium-headless-shell or chromium). Needs python3.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${EXCHANGE:-}" ]; then
  cargo build --release --quiet -p quorate-exchange
  EXCHANGE=${CARGO_TARGET_DIR:-$PWD/target}/release/quorate-exchange
fi
if [ -z "${BROWSER:-}" ]; then
  for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    BROWSER=$(command -v "$name") && break
  done
  [ -n "$BROWSER" ] || { echo "no browser is here: set BROWSER" >&2; exit 1; }
fi
exec python3 scripts/exchange-browser/look.py --exchange "$(realpath "$EXCHANGE")" --browser "$BROWSER" "$@"
