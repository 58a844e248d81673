#!/usr/bin/env bash
# Has an independent engine (QuickFIX) trade over FIX, kills it and its gateway, and checks what both have heard.
#
#   scripts/exchange-fix.sh              3 kills of both ends, 100 orders between two kills
#   scripts/exchange-fix.sh KILLS ORDERS
#
# Needs Python with venv, a C++ compiler and access to a package index. It is no part of CI. Two engines, one that buys
# and one that sells at one price, are killed with kill -9 while they send, and the gateways too. In the end each order
# that an engine has kept in its files was accepted once, each trade was told once to both sides, and messages were
# asked for in both directions. EXCHANGE names a program that is there, PYTHON one that has the engine.
set -euo pipefail

readonly kills=${1:-3} orders=${2:-100}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly version=1.16.0
readonly out="${CARGO_TARGET_DIR:-$root/target}/exchange-fix"
readonly program="${EXCHANGE:-${CARGO_TARGET_DIR:-$root/target}/debug/quorate-exchange}"

[[ -n ${EXCHANGE:-} ]] || (cd "$root" && cargo build -q -p quorate-exchange)
if [[ -z ${PYTHON:-} ]]; then
  PYTHON="$out/python/bin/python"
  [[ -x $PYTHON ]] || python3 -m venv "$out/python"
  "$PYTHON" -c 'import quickfix' 2>/dev/null || "$PYTHON" -m pip install -q "quickfix==$version"
fi
"$PYTHON" -c 'import importlib.metadata; print("quickfix", importlib.metadata.version("quickfix"))'

work=$(mktemp -d)
trap 'kill "${exchange:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

port=$((20000 + RANDOM % 8000))
"$program" up --port "$port" --folder "$work/exchange" --symbols 1 --participants 2 --gateways 2 \
  >"$work/up" 2>"$work/ends" &
exchange=$!
for _ in $(seq 600); do
  grep -q 'Ctrl-C' "$work/up" && break
  kill -0 "$exchange" || { cat "$work/ends" >&2; exit 1; }
  sleep 0.1
done
cat "$work/up"
mapfile -t fix < <(sed -n 's/.*FIX at [^:]*:\([0-9]*\).*/\1/p' "$work/up")

engine() { exec "$PYTHON" "$root/scripts/exchange-fix/engine.py" "$1" "$2" "${fix[$2]}" "$work/engine-$2" "${@:3}"; }
# The process of a gateway now: it has another one after each kill.
gateway() { pgrep -P "$exchange" -f "gateway .*--id $1 "; }

for kill in $(seq "$kills"); do
  for participant in 0 1; do
    engine trade "$participant" $((participant + 1)) "$orders" &
    engines[participant]=$!
  done
  # In the middle of it one gateway dies, its engine goes on sending into nothing, and then all of them die.
  sleep 1.2
  kill -9 "$(gateway 1)"
  sleep 0.2
  kill -9 "${engines[@]}" "$(gateway 2)"
  wait "${engines[@]}" 2>/dev/null || true
  echo "kill $kill: two engines and two gateways"
done
for participant in 0 1; do
  engine check "$participant" &
  engines[participant]=$!
done
wait "${engines[@]}"

# What an engine has kept, and what it heard: a report that it had not noted before it died comes again, under its name.
declare -A lots
# The pairs of ClOrdID and ExecID in reports of a type, each once.
pairs() { sed -n "/|150=$1|/s/.*|11=\([0-9]*\)|.*|17=\([^|]*\)|.*/\1 \2/p" | sort -u; }
lines() { sed '/^$/d' | wc -l; }
for participant in 0 1; do
  heard="$work/engine-$participant/heard"
  sent=$(cat "$work/engine-$participant"/store/*.body | tr '\001' '\n' | grep -c '^35=D$')
  reports=$(grep '^report' "$heard" | tr -d '\r')
  accepted=$(pairs 0 <<<"$reports")
  trades=$(pairs F <<<"$reports")
  lots[$participant]=$(lines <<<"$trades")
  count() { grep -c "$1" "$heard" || true; }
  echo "engine $participant: $sent orders sent, $(lines <<<"$accepted") accepted, ${lots[$participant]} trades heard;" \
    "it asked $(count '^asks') times for what it missed, was asked $(count '^asked') times," \
    "and sent $(count '^again') orders again; $(count '^report.*|43=Y|') reports came again"
  [[ $(lines <<<"$accepted") == "$sent" && $(cut -d' ' -f1 <<<"$accepted" | uniq | lines) == "$sent" ]] ||
    { echo "exchange-fix: not every order was accepted once" >&2; exit 1; }
  [[ $(cut -d' ' -f1 <<<"$trades" | uniq | lines) == "${lots[$participant]}" ]] ||
    { echo "exchange-fix: an order of one lot traded twice" >&2; exit 1; }
  ! grep '^refused' "$heard" || { echo "exchange-fix: something was refused" >&2; exit 1; }
done
[[ ${lots[0]} == "${lots[1]}" && ${lots[0]} -gt 0 ]] ||
  { echo "exchange-fix: the sides were not told of equally many trades" >&2; exit 1; }
grep -q '^asks' "$work"/engine-*/heard && grep -q '^asked' "$work"/engine-*/heard ||
  { echo "exchange-fix: nobody asked for anything" >&2; exit 1; }
echo "every order was accepted once, and every trade was told to both sides"
