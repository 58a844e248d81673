#!/usr/bin/env bash
# Every deliberate fault must be found by the simulator: a checker that catches nothing proves
# nothing. Prints one line per mutant; exits 1 if one survives its budget of seeds.
set -euo pipefail
cd "$(dirname "$0")/.."

survivors=0
./target/release/quorate sim --protocol rabia --list-mutants | while read -r mutant replicas seeds; do
  if ./target/release/quorate sim --protocol rabia --replicas "$replicas" --seeds "0..$seeds" \
    --mutant "$mutant" >target/mutant.log 2>&1; then
    echo "SURVIVED $mutant: $seeds seeds at n = $replicas found nothing"
    survivors=1
  else
    grep -m1 '^caught' target/mutant.log || { cat target/mutant.log; exit 1; }
  fi
  [ "$survivors" = 0 ]
done
