#!/usr/bin/env bash
# Redis's own tools on clusters: redis-benchmark's default set, and redis-cli --bigkeys, --memkeys, --latency-history,
# --scan and -3, over the embedded store and over each server that is named. A line says what each printed that is an
# error; the script fails if there is one.
#
#   scripts/redis-tools.sh                                          # the embedded store, and the server in PATH
#   scripts/redis-tools.sh /usr/bin/redis-server /usr/bin/valkey-server
#
# QUORATE names the executable; without it one is built. REDIS_TOOLS names a folder with redis-cli and redis-benchmark;
# otherwise they are found in PATH. REQUESTS says how many each test of the benchmark makes [20000].
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${QUORATE:-}" ]; then
  cargo build --release --quiet -p quorate-cli
  QUORATE=${CARGO_TARGET_DIR:-target}/release/quorate
fi
quorate=$(realpath "$QUORATE")
[ -z "${REDIS_TOOLS:-}" ] || PATH=$REDIS_TOOLS:$PATH
requests=${REQUESTS:-20000}
unset "${!QUORATE_@}"
for tool in redis-cli redis-benchmark; do
  command -v "$tool" >/dev/null || { echo "redis-tools: PATH has no $tool; REDIS_TOOLS names a folder" >&2; exit 1; }
done
servers=("$@")
if [ $# -eq 0 ]; then
  found=$(command -v valkey-server || command -v redis-server || true)
  [ -z "$found" ] || servers=("$found")
fi

scratch=$(mktemp -d)
up=
finish() {
  [ -z "$up" ] || { kill "$up" 2>/dev/null && wait "$up" || true; }
  rm -rf "$scratch"
}
trap finish EXIT

# The first of nine free ports in a row.
free_ports() {
  local base port
  while :; do
    base=$((RANDOM % 19000 + 12000))
    for ((port = base; port < base + 9; port++)); do
      if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then continue 2; fi
    done
    echo "$base"
    return
  done
}

failures=0
# Runs a tool, and looks for lines that tell of an error; $1 is what it is called here.
check() {
  local name=$1 code=0 bad
  shift
  timeout 300 "$@" >"$scratch/said" 2>&1 </dev/null || code=$?
  # latency-history goes on until it is ended.
  if [ "$code" = 124 ] && [ "$name" = "--latency-history" ]; then code=0; fi
  bad=$(tr '\r' '\n' <"$scratch/said" | grep -iE '(^|[^a-z])(error|err|warning|failed|noperm|unknown)([^a-z]|$)' |
    sort -u | head -3 || true)
  if [ "$code" != 0 ] || [ -n "$bad" ] || [ ! -s "$scratch/said" ]; then
    echo "$store: $name: exit code $code: ${bad:-$(tail -2 "$scratch/said")}"
    failures=$((failures + 1))
  else
    echo "$store: $name: $(tr '\r' '\n' <"$scratch/said" | grep -c . || true) lines, no error"
  fi
}

# All tools on one cluster; the arguments are for `quorate up`.
try() {
  local port deadline=$((SECONDS + 60)) log=$scratch/up.log
  port=$(free_ports)
  "$quorate" up --face redis --data-dir "$scratch/data" --port "$port" "$@" >"$log" 2>&1 &
  up=$!
  until [ "$(redis-cli -p $((port + 2)) ping 2>/dev/null)" = PONG ]; do
    [ "$SECONDS" -lt "$deadline" ] || { echo "redis-tools: $store does not start: $(tail -3 "$log")" >&2; exit 1; }
    read -rt 0.1 <> <(:) || true
  done
  for via in 0 2; do
    check "redis-benchmark, port $((via / 2 + 1))" redis-benchmark -p $((port + via)) -n "$requests" -r 1000 -q
  done
  check "redis-benchmark -3 -P 16" redis-benchmark -3 -P 16 -p "$port" -n "$requests" -t set,get,incr -q
  for option in --bigkeys --memkeys --scan; do check "$option" redis-cli -p "$port" "$option"; done
  check "-3" redis-cli -3 -p $((port + 4)) hgetall myhash
  # What it has written is lost when it is ended, unless each line goes out at once.
  check "--latency-history" timeout 4 stdbuf -oL redis-cli -p "$port" --latency-history -i 1
  kill "$up"
  wait "$up" || true
  up=
  rm -rf "$scratch/data"
}

store="embedded store"
try
for server in "${servers[@]}"; do
  # Debian has a link there, and the program goes by the name it is called with.
  store=$("$server" --version | sed -E 's/^([A-Za-z]+) .*v=([0-9.]+).*/\1 \2/')
  try "--redis-server=$(realpath -s "$server")"
done
[ "$failures" = 0 ] || { echo "redis-tools: $failures of them printed errors" >&2; exit 1; }
