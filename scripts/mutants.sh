#!/usr/bin/env bash
# Every deliberate fault of a protocol must be found by the simulator: a checker that catches
# nothing proves nothing. Prints one line per mutant; exits 1 if one survives its seeds.
#
#   scripts/mutants.sh [protocol [replicas [seeds]]]
set -euo pipefail
cd "$(dirname "$0")/.."

protocol=${1:-rabia} replicas=${2:-3} seeds=${3:-1200}
quorate=target/release/quorate
log=$(mktemp)
trap 'rm -f "$log"' EXIT

survivors=0
while IFS=$'\t' read -r mutant what; do
  first=0
  # One in thousands: a range that is known to hold it.
  if [ "$mutant" = no-forced-null ]; then first=3000; fi
  if "$quorate" sim --protocol "$protocol" --replicas "$replicas" --seeds "$first..$((first + seeds))" \
    --mutant "$mutant" >"$log" 2>&1 </dev/null; then
    echo "SURVIVED $seeds seeds from $first: $mutant ($what)"
    survivors=1
  else
    caught=$(grep -om1 "mutant $mutant caught after [0-9]* seeds" "$log") || { cat "$log"; exit 1; }
    echo "$caught ($what): $(grep -om1 'violation in seed.*' "$log" | cut -c1-100)"
  fi
done < <("$quorate" sim --protocol "$protocol" --list-mutants)
exit "$survivors"
