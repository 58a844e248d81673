#!/usr/bin/env bash
# Fuzzes everything that decodes bytes from elsewhere, and replicas among hostile peers.
#
#   scripts/fuzz.sh                     as CI does: a fixed number of inputs from a fixed seed
#   scripts/fuzz.sh --seconds 60        each search for so long, optimised, from a new seed
#   scripts/fuzz.sh --long              the same for half an hour each
#   scripts/fuzz.sh --seconds 5 --grow  adds inputs that went a new way to the corpora
#   ... -p quorate-host frames          only these: arguments of `cargo test`
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=""
while [ $# -gt 0 ]; do
  case "$1" in
    --long) seconds=1800 ;;
    --seconds) seconds="$2"; shift ;;
    --grow) export QUORATE_FUZZ_GROW=1 ;;
    *) break ;;
  esac
  shift
done

profile=()
if [ -n "$seconds" ]; then
  export QUORATE_FUZZ_SECONDS="$seconds"
  export QUORATE_FUZZ_SEED="${QUORATE_FUZZ_SEED:-$(date +%s)}"
  echo "repeat it with QUORATE_FUZZ_SEED=$QUORATE_FUZZ_SEED"
  profile=(--profile quick)
fi

if [ $# -gt 0 ]; then
  cargo test "${profile[@]}" --quiet "$@" -- --nocapture
  exit
fi
# Unit tests in modules called `fuzz`, then the tests that are files of their own.
cargo test "${profile[@]}" --quiet --lib \
  -p quorate-host -p quorate-server -p quorate-etcd-store -p quorate-face-etcd \
  -p quorate-etcd-snapshot -p quorate-redis-rdb -p quorate-redis-store -p quorate-resp \
  -p quorate-tls -p quorate-exchange fuzz -- --nocapture
cargo test "${profile[@]}" --quiet --bin quorate -p quorate-cli fuzz -- --nocapture
cargo test "${profile[@]}" --quiet --test fuzz \
  -p quorate-core -p quorate-protocols -p quorate-etcd-store -- --nocapture
cargo test "${profile[@]}" --quiet -p quorate-host --test hostile -- --nocapture
