# Sourced by scripts/test.sh: runs the parts of a test one after the other, and holds each to its minutes.
#
#   part NAME MINUTES COMMAND...   runs a part, and remembers how long it took
#   check_budget MINUTES           fails when the budgets sum to more, or a part took more than twice its own: machines
#                                  differ, and what is worth a look on one with idle cores fails nowhere by chance
#
# The table of all parts that ran is printed when the script ends, also when a part fails.
# shellcheck shell=bash

part_names=()
part_minutes=()
part_seconds=()

part() {
  local name=$1 minutes=$2 began=$SECONDS
  shift 2
  part_names+=("$name")
  part_minutes+=("$minutes")
  part_seconds+=(-1)
  "$@"
  part_seconds[-1]=$((SECONDS - began))
}

# One line a part: its name, its minutes, and the seconds it took, or -1 where it failed.
each_part() {
  local at
  for at in "${!part_names[@]}"; do
    printf '%s\t%s\t%s\n' "${part_names[at]}" "${part_minutes[at]}" "${part_seconds[at]}"
  done
}

print_parts() {
  each_part | awk -F '\t' '
    BEGIN { printf "\n%-12s%10s%10s\n", "part", "budget", "minutes" }
    $3 < 0 { printf "%-12s%10.1f%10s\n", $1, $2, "failed"; next }
    { printf "%-12s%10.1f%10.1f\n", $1, $2, $3 / 60; budget += $2; spent += $3 / 60 }
    END { printf "%-12s%10.1f%10.1f\n", "sum", budget, spent }'
}
trap print_parts EXIT

check_budget() {
  each_part | awk -F '\t' -v all="$1" '
    { budget += $2 }
    $3 / 60 > 2 * $2 {
      printf "%s took %.1f minutes of %.1f: more than twice as long as it may\n", $1, $3 / 60, $2
      over = 1
    }
    END {
      if (budget > all) { printf "the parts have %.1f minutes, and %.1f in all\n", budget, all; over = 1 }
      exit over
    }' >&2
}
