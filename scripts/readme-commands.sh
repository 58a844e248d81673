#!/usr/bin/env bash
# Runs the commands of README.md and of the guides as they are printed, block by block: each must end with 0. Every
# page has a scratch folder of its own.
#
#   scripts/readme-commands.sh              # README.md, then each page of docs/guide
#   scripts/readme-commands.sh docs/guide/plain.md
#
# QUORATE names the executable; without it one is built. An HTML comment before a block says what its commands need:
#
#   <!-- readme-commands: skip (REASON) -->   the block is not run
#   <!-- readme-commands: Ctrl-C -->          what runs is stopped first
#
# What runs until it is stopped (`quorate up`, `serve`, `etcd`, `gateway`, `backup run`), or waits for the next block (`cluster replace`), runs
# in the background once it has said that it is ready, and must end with 0 when it is stopped. Commands of programs that
# are not installed (etcdctl, curl, redis-cli) are skipped. Needs the ports 2379 to 2400, 2479, 2480 and
# 6379 to 6387.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly ready_within_s=20 ends_within_s=20
root=$PWD
if [ $# -gt 0 ]; then pages=("$@"); else pages=(README.md docs/guide/*.md); fi
if [ -z "${QUORATE:-}" ]; then
  cargo build --profile quick --quiet -p quorate-cli
  QUORATE=target/quick/quorate
fi
QUORATE=$(realpath "$QUORATE")
scratch=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$scratch"
}
trap finish EXIT
trap 'echo "$page, line $line, fails: $BASH_COMMAND" >&2' ERR
set -E
page='' line=0
unset "${!QUORATE_@}"

# Writes each block of a page into a file of its own, named by the line where it begins: its marker, then its commands.
blocks_of() {
  awk -v out="$2" '
    /^<!-- readme-commands: .* -->$/ { sub(/^<!-- readme-commands: /, ""); sub(/ -->$/, ""); marker = $0; next }
    /^```sh$/ { file = sprintf("%s/%05d", out, NR); print "# " marker > file; next }
    /^```$/ { file = ""; marker = ""; next }
    file { print > file }
  ' "$root/$1"
}

# Runs a program in the background and waits until it says that it is ready.
background() {
  local ready=$1 log pid
  shift
  log=$(mktemp -p "$scratch")
  "$QUORATE" "$@" >"$log" 2>&1 &
  pid=$!
  logs[pid]=$log
  pids+=("$pid")
  commands[pid]="quorate $*"
  local deadline=$((SECONDS + ready_within_s))
  until grep -q "$ready" "$log"; do
    if ! kill -0 "$pid" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
      cat "$log" >&2
      return 1
    fi
    sleep 0.05
  done
}

# Waits until a program ends, which it must with 0, or, as etcd, by the signal that told it to.
ends() {
  local pid=$1 code=0 deadline=$((SECONDS + ends_within_s)) by_interrupt=130
  while kill -0 "$pid" 2>/dev/null; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      echo "does not end: ${commands[pid]}" >&2
      return 1
    fi
    sleep 0.05
  done
  wait "$pid" || code=$?
  if [[ ${commands[pid]} == "quorate etcd "* && $code -eq $by_interrupt ]]; then code=0; fi
  if [ "$code" -ne 0 ]; then
    echo "ended with $code: ${commands[pid]}" >&2
    tail -20 "${logs[pid]}" >&2
    return 1
  fi
}

# Stops all that runs, as Ctrl-C in its terminal does, after what ends by itself has ended.
stop_all() {
  local pid
  for pid in "${pids[@]}"; do
    if [[ ${commands[pid]} == *" cluster replace "* ]]; then ends "$pid"; fi
  done
  for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do
    if [[ ${commands[pid]} != *" cluster replace "* ]]; then ends "$pid"; fi
  done
  pids=()
}

# The programs as the blocks call them.
quorate() {
  case "$1 ${2:-}" in
    "up "*) background "^endpoints: " "$@" ;;
    "serve "* | "etcd "* | "gateway "*) background "ready to serve client requests" "$@" ;;
    "cluster replace") background "^waiting for " "$@" ;;
    "backup run") background "^full snapshot: " "$@" ;;
    *) "$QUORATE" "$@" ;;
  esac
}
cargo() {
  [ "$1 $2 $3" = "run --release --" ]
  shift 3
  quorate "$@"
}
curl() { command curl --fail --silent --show-error "$@"; }
commands=() logs=()
for program in etcdctl curl redis-cli; do
  if ! type -P "$program" >/dev/null; then
    eval "$program() { cat >/dev/null; echo 'skipped: $program is not installed'; }"
  fi
done

# Runs the blocks of a page in their order, and stops at its end what it has started.
run_page() {
  local folder=$scratch/$((++count)) block marker
  mkdir -p "$folder/blocks" "$folder/home"
  blocks_of "$page" "$folder/blocks"
  cd "$folder/home"
  for block in "$folder"/blocks/*; do
    [ -e "$block" ] || continue
    line=$((10#${block##*/}))
    marker=$(head -1 "$block")
    case "${marker#\# }" in
      skip*) echo "$page:$line: ${marker#\# }" && continue ;;
      Ctrl-C) stop_all ;;
      "") ;;
      *) echo "$page:$line: unknown marker: $marker" >&2 && exit 1 ;;
    esac
    . "$block"
  done
  stop_all
}

exec </dev/null
count=0
for page in "${pages[@]}"; do run_page; done
echo "${pages[*]}: all other commands run as printed, in $SECONDS s"
