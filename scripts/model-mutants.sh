#!/usr/bin/env bash
# Which deliberate faults of a protocol the model checker finds, and in which configuration. One
# line per mutant; those it cannot find are the simulator's to find (scripts/mutants.sh).
#
#   scripts/model-mutants.sh [protocol [--ci|--long]]
set -euo pipefail
cd "$(dirname "$0")/.."

protocol=${1:-rabia} form=${2:---ci}
lab=${LAB:-target/release/quorate-lab}

"$lab" model --protocol "$protocol" --list-mutants | while IFS=$'\t' read -r mutant what; do
  found=$("$lab" model --protocol "$protocol" "$form" --mutant "$mutant" </dev/null || true)
  caught=$(grep -m1 "^mutant $mutant caught" <<<"$found" || echo "mutant $mutant not found")
  echo "$caught: $what"
done
