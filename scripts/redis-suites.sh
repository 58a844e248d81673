#!/usr/bin/env bash
# The test suites of redis-py and ioredis on a cluster over real servers, and on one server alone. Prints how many tests
# passed on each, and every test that fails on the cluster alone; those of scripts/redis-suites/expected.txt are known,
# each with its reason. Fails if there are others.
#
#   scripts/redis-suites.sh                                    # both, with the server in PATH
#   scripts/redis-suites.sh --suites ioredis --redis-server /usr/bin/valkey-server
#
# Clients are those of replica 1 while replica 2 executes. The suites are written for port 6379, which has to be free.
# In a network of its own (`unshare -n`, with libraries that are there already) the loopback interface is set up first.
#
# QUORATE names the executable; without it one is built. Needs git, node with npm, python3, and a server. The suites
# come as their projects publish them, at the versions below, into a folder under target/ (SUITES names another).
set -euo pipefail
cd "$(dirname "$0")/.."
redis_py=8.1.0
ioredis=5.11.1
target=${CARGO_TARGET_DIR:-$PWD/target}
suites=${SUITES:-$target/redis-suites}
if [ -z "${QUORATE:-}" ]; then
  cargo build --release --quiet -p quorate-cli
  QUORATE=$target/release/quorate
fi
mkdir -p "$suites"
if [ ! -e "$suites/redis-py-$redis_py/ready" ]; then
  python3 -m venv "$suites/python"
  "$suites/python/bin/pip" install --quiet --disable-pip-version-check -r scripts/redis-suites/requirements.txt
  "$suites/python/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary redis \
    --dest "$suites" "redis==$redis_py"
  rm -rf "$suites/redis-py-$redis_py"
  mkdir "$suites/redis-py-$redis_py"
  tar -xzf "$suites/redis-$redis_py.tar.gz" -C "$suites/redis-py-$redis_py" --strip-components 1
  touch "$suites/redis-py-$redis_py/ready"
fi
if [ ! -e "$suites/ioredis-$ioredis/ready" ]; then
  rm -rf "$suites/ioredis-$ioredis"
  git clone --quiet --depth 1 --branch "v$ioredis" https://github.com/redis/ioredis "$suites/ioredis-$ioredis"
  (cd "$suites/ioredis-$ioredis" && npm ci --no-audit --no-fund --silent --ignore-scripts)
  touch "$suites/ioredis-$ioredis/ready"
fi
ip link set lo up 2>/dev/null || true
exec "$suites/python/bin/python" scripts/redis-suites/run.py --quorate "$(realpath "$QUORATE")" \
  --redis-py "$suites/redis-py-$redis_py" --ioredis "$suites/ioredis-$ioredis" "$@"
