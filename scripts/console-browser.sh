#!/usr/bin/env bash
# The console of a replica in a browser: starts a cluster under load, opens the page, and checks that members, rates and
# times are shown and move, that a dead member is seen, that names that are scripts stay text, that nothing is asked of
# anybody else and no script fails, in the light and in the dark, on a desk and on a phone. Takes pictures.
#
#   scripts/console-browser.sh                             # the picture goes to docs/guide/console.png
#   scripts/console-browser.sh --pictures FOLDER --port 9400
#
# QUORATE names the executable; without it one is built. BROWSER names the browser; without it, one of Chromium's is
# looked for (Debian: chromium-headless-shell or chromium). Needs python3.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${QUORATE:-}" ]; then
  cargo build --release --quiet -p quorate-cli
  QUORATE=${CARGO_TARGET_DIR:-$PWD/target}/release/quorate
fi
if [ -z "${BROWSER:-}" ]; then
  for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    BROWSER=$(command -v "$name") && break
  done
  [ -n "$BROWSER" ] || { echo "no browser is here: set BROWSER" >&2; exit 1; }
fi
exec python3 scripts/console-browser/look.py --quorate "$(realpath "$QUORATE")" --browser "$BROWSER" "$@"
