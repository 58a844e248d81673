#!/usr/bin/env bash
# Attacks clusters as clients that mean harm do, and prints for each attack the memory and the descriptors of the
# replica that had most of them, and the longest time without an acknowledged put of an honest client. Exits 1 when a
# bound does not hold. `scripts/attack.sh --short` runs a short form.
#
#   scripts/attack.sh [--short] [--data-dir DIR]
#
# LAB names the executable, with quorate beside it; without it both are built.
set -euo pipefail
cd "$(dirname "$0")/.."

duration=30s
peers=30s
many=19000
memory=20s
if [ "${1:-}" = "--short" ]; then
  shift
  duration=11s
  peers=5s
  many=0
  memory=6s
fi
if [ -z "${LAB:-}" ]; then
  cargo build --profile quick --quiet -p quorate-cli -p quorate-lab
  LAB=target/quick/quorate-lab
fi
attack=("$LAB" bench attack "$@")

# More connections than a replica may have open files.
"${attack[@]}" --kind idle --connections 1300 --descriptors 1024 --duration 5s
"${attack[@]}" --kind half-open,slow-body --connections 300 --duration "$duration"
# What is kept in memory for clients that do not finish what they send, or do not take what they asked for.
"${attack[@]}" --kind half-puts,unread-answers --duration "$memory"
# Many small messages: 100,000 watches on one stream, and watches whose client does not read.
"${attack[@]}" --kind watches,unread-watches --duration "$memory"
# At the ports for peers.
"${attack[@]}" --kind false-hello,strangers --connections 300 --duration "$peers"
if [ "$many" -gt 0 ]; then
  "${attack[@]}" --kind unread-flood --duration "$memory"
  hard=$(ulimit -Hn)
  if [ "$hard" != unlimited ] && [ "$hard" -lt $((many + 500)) ]; then
    echo "skipped: $many idle connections need a hard limit of $((many + 500)) open files (ulimit -Hn says $hard)"
  else
    "${attack[@]}" --kind idle --replicas 1 --connections "$many" --duration 60s
  fi
fi
