#!/usr/bin/env bash
# Every deliberate fault must be found: a checker that catches nothing proves nothing. Runs each
# mutant of a protocol and of the host under the simulator, as its registration says, two at a time;
# prints a table; exits 1 if one survives. Those that a conversation or a test finds are only
# listed here: `cargo test` runs them.
#
#   scripts/mutants.sh [--record] [protocol]      # --record: the table goes to docs/testing.md
set -euo pipefail
cd "$(dirname "$0")/.."

record=
if [ "${1:-}" = --record ]; then record=1; shift; fi
export protocol=${1:-rabia} quorate=${QUORATE:-target/release/quorate}
work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT

# One line of --list-mutants: name, who catches it, where, with which options, what is broken.
row() {
  IFS='|' read -r name by where options what <<<"$1"
  if [ "$by" != seeds ]; then
    echo "| \`$name\` | $what | $by \`$where\` | |" >"$work/$name"
    return
  fi
  log=$work/$name.log
  # shellcheck disable=SC2086 # Options are words.
  if "$quorate" sim --protocol "$protocol" $options --seeds "$where" --mutant "$name" --no-shrink --jobs 1 \
    >"$log" 2>&1 </dev/null; then
    echo "| \`$name\` | $what | **nobody**, ${options:-default}, seeds $where | |" >"$work/$name"
    return
  fi
  seeds=$(sed -n "s/.*mutant $name caught after \([0-9]*\) seeds.*/\1/p" "$log" | head -1)
  kind=$(sed -n 's/.*violation in seed [0-9]*: \([a-z]*\):.*/\1/p' "$log" | head -1)
  if [ -z "$seeds" ]; then cat "$log" >&2; exit 255; fi
  echo "| \`$name\` | $what | simulator${options:+ \`$options\`}, $kind | $seeds |" >"$work/$name"
}
export -f row

"$quorate" sim --protocol "$protocol" --list-mutants >"$work/list"
xargs -P 2 -d '\n' -I{} bash -c 'row "$1"' _ {} <"$work/list"

table() {
  echo "| mutant | what is broken | found by | after seeds |"
  echo "|---|---|---|---|"
  while IFS='|' read -r name _; do cat "$work/$name"; done <"$work/list"
}
table >"$work/table.md"
cat "$work/table.md"
if [ -n "$record" ]; then
  sed -i -e "/<!-- mutants -->/,/<!-- end of mutants -->/{//!d}" \
    -e "/<!-- mutants -->/r $work/table.md" docs/testing.md
fi
! grep -q '\*\*nobody\*\*' "$work/table.md"
