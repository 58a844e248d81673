#!/usr/bin/env bash
# Compares what seeds of the simulator do with what they did before: a change that only moves and renames leaves every
# trace as it was. Runs seeds of every setup of scripts/setups.txt, which no test runs, and compares their hashes with
# those recorded in scripts/traces.txt; prints what differs, and exits 1 if anything does.
#
#   scripts/traces.sh                  as many seeds of each setup as are recorded
#   scripts/traces.sh 20               the first 20 only
#   scripts/traces.sh --only REGEX     setups whose line matches
#   scripts/traces.sh --record         record 200 of each anew, when what seeds do was changed on purpose, or before a
#                                      change that is to leave them as they are: about 20 minutes on two cores
#   scripts/traces.sh --record 40      record 40 of each
#
# LAB names the executable (`sim` is its command); without it a release build is taken.
set -euo pipefail
cd "$(dirname "$0")/.."

lab=${LAB:-target/release/quorate-lab}
record='' only=. count=''
while [ $# -gt 0 ]; do
  case $1 in
    --record) record=1 ;;
    --only) shift && only=$1 ;;
    *) count=$1 ;;
  esac
  shift
done
# Seeds of one hash: a hash that differs says where to look.
readonly first=70000000 each=20 recorded=scripts/traces.txt
if [ -z "$count" ] && [ -n "$record" ]; then count=200; fi
# What follows the bar on the first line: a hash for each 20 seeds.
if [ -z "$count" ]; then count=$(($(head -1 "$recorded" | cut -d'|' -f2 | wc -w) * each)); fi
readonly hashes=$((count / each))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What a range of seeds did, in one word.
hash_of() {
  local words out code=0
  read -ra words <<<"$1"
  out=$("$lab" sim "${words[@]}" --seeds "$2..$(($2 + each))" --no-shrink 2>/dev/null) || code=$?
  # A seed that fails is part of what is compared: its range has the exit code too.
  grep -ao 'trace=[0-9a-f]*' <<<"$out" | cut -d= -f2 | sed "s/\$/$([ "$code" = 0 ] || echo ":$code")/"
}

changed=0
while read -r _ setup; do
  line=''
  for ((index = 0; index < hashes; index++)); do
    line+=" $(hash_of "$setup" $((first + index * each)))"
  done
  echo "$setup |$line" >>"$work/now"
  if [ -z "$record" ]; then
    before=$({ grep -F -- "$setup |" "$recorded" || true; } | head -1 | cut -d'|' -f2 | cut -d' ' -f2-$((hashes + 1)))
    if [ " $before" = "$line" ]; then
      echo "equal: $setup"
    elif [ "$(wc -w <<<"$before")" -lt "$hashes" ]; then
      changed=1
      echo "not recorded for $count seeds: $setup"
    else
      changed=1
      echo "DIFFERS: $setup"
      printf '  before: %s\n  now:   %s\n' "$before" "$line"
    fi
  else
    echo "$setup"
  fi
done < <(grep -v '^#' scripts/setups.txt | grep -E -- "$only")
if [ -n "$record" ]; then cp "$work/now" "$recorded"; fi
exit $changed
