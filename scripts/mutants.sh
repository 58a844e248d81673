#!/usr/bin/env bash
# Every deliberate fault must be found: a checker that catches nothing proves nothing. Runs each
# mutant of every protocol, of the host and of the store under the simulator, as its registration
# says, two at a time; prints a table; exits 1 if one survives. Those that a conversation or a test
# finds are only listed here: `cargo test` runs them.
#
#   scripts/mutants.sh [of]         # only those of one protocol, or of host or store
#   scripts/mutants.sh --record     # the table goes to docs/reference/mutants.md
set -euo pipefail
cd "$(dirname "$0")/.."

record=
if [ "${1:-}" = --record ]; then record=1; shift; fi
only=${1:-}
if [ -n "$record" ] && [ -n "$only" ]; then echo "the table holds all of them" >&2; exit 2; fi
export lab=${LAB:-target/release/quorate-lab}
work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT

# One line of --list-mutants: of what, the protocol to run, name, who catches it, where, with which
# options, what is broken.
row() {
  IFS='|' read -r of protocol name by where options what <<<"$1"
  file=$work/$of.$name
  if [ "$by" != seeds ]; then
    echo "| $of | \`$name\` | $what | $by \`$where\` | |" >"$file"
    return
  fi
  log=$file.log
  # shellcheck disable=SC2086 # Options are words.
  if "$lab" sim --protocol "$protocol" $options --seeds "$where" --mutant "$name" --no-shrink --jobs 1 \
    >"$log" 2>&1 </dev/null; then
    echo "| $of | \`$name\` | $what | **nobody**, ${options:-default}, seeds $where | |" >"$file"
    return
  fi
  seeds=$(sed -n "s/.*mutant $name caught after \([0-9]*\) seeds.*/\1/p" "$log" | head -1)
  kind=$(sed -n 's/.*violation in seed [0-9]*: \([a-z]*\):.*/\1/p' "$log" | head -1)
  if [ -z "$seeds" ]; then cat "$log" >&2; exit 255; fi
  echo "| $of | \`$name\` | $what | simulator${options:+ \`$options\`}, $kind | $seeds |" >"$file"
}
export -f row

"$lab" sim --list-mutants >"$work/all"
if [ -n "$only" ]; then grep "^$only|" "$work/all"; else cat "$work/all"; fi >"$work/list"
xargs -P 2 -d '\n' -I{} bash -c 'row "$1"' _ {} <"$work/list"

table() {
  echo "| of | mutant | what is broken | found by | after seeds |"
  echo "|---|---|---|---|---|"
  while IFS='|' read -r of _ name _; do cat "$work/$of.$name"; done <"$work/list"
}
table >"$work/table.md"
cat "$work/table.md"
if [ -n "$record" ]; then
  sed -i -e "/<!-- mutants -->/,/<!-- end of mutants -->/{//!d}" \
    -e "/<!-- mutants -->/r $work/table.md" docs/reference/mutants.md
fi
! grep -q '\*\*nobody\*\*' "$work/table.md"
