#!/usr/bin/env bash
# Applications of Redis, unchanged, on a cluster over real servers whose executor is killed: its replica, then its
# server, twenty times each. The same applications run on one server whose connections are cut at the same moments, and
# on one that writes to its disk before it answers and is killed then. A line for each says what became of jobs, tasks,
# counts and locks.
#
#   scripts/redis-apps.sh                                # BullMQ, ioredis, redis-py's lock, a queue, Celery
#   POOL=prefork scripts/redis-apps.sh --apps celery     # with processes, or solo; otherwise threads
#   scripts/redis-apps.sh --apps sidekiq                 # where Ruby has it (Debian: ruby-sidekiq)
#   scripts/redis-apps.sh --apps bullmq --protocol nezha --redis-server /usr/bin/valkey-server
#
# QUORATE names the executable; without it one is built. Needs node with npm, python3, and a server; libraries go to a
# folder under target/.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
libraries=${LIBRARIES:-$target/redis-apps}
if [ -z "${QUORATE:-}" ]; then
  cargo build --release --quiet -p quorate-cli
  QUORATE=$target/release/quorate
fi
mkdir -p "$libraries"
cp scripts/redis-apps/package.json scripts/redis-apps/*.mjs "$libraries/"
if ! cmp -s scripts/redis-apps/package.json "$libraries/node_modules/installed.json"; then
  (cd "$libraries" && npm install --no-audit --no-fund --silent)
  cp scripts/redis-apps/package.json "$libraries/node_modules/installed.json"
fi
if ! cmp -s scripts/redis-apps/requirements.txt "$libraries/python/installed.txt"; then
  python3 -m venv "$libraries/python"
  "$libraries/python/bin/pip" install --quiet --disable-pip-version-check -r scripts/redis-apps/requirements.txt
  cp scripts/redis-apps/requirements.txt "$libraries/python/installed.txt"
fi
exec "$libraries/python/bin/python" scripts/redis-apps/run.py --quorate "$(realpath "$QUORATE")" \
  --modules "$(realpath "$libraries")" "$@"
