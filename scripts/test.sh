#!/usr/bin/env bash
# All tests, optimised and with every check on: formatting, lints, unit and integration tests; then a short
# range of simulated seeds, every mutant, rounds of kill -9 on real processes, rounds of chaos, and
# coded values written, damaged and read back while leaders are killed.
# `scripts/test.sh --long` runs the long forms.
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=60
model=--ci
rounds=(--rounds 2 --load-seconds 1 --pause 2s)
chaos=(--rounds 3 --load-seconds 4)
total=1GiB
survive=(--values 60 --parts repairs)
failover=(--loads write --duration 6s --away 1s)
attack=(--short)
if [ "${1:-}" = "--long" ]; then
  seeds=2000
  rounds=(--rounds 20)
  chaos=(--rounds 50)
  total=10GiB
  survive=()
  failover=()
  attack=()
  model=--long
fi

cargo fmt --all --check
cargo clippy --workspace --all-targets --quiet -- -D warnings
cargo test --profile quick --workspace --quiet
if [ "$model" = --long ]; then
  # The largest exhaustive searches of quorum rules.
  cargo test --profile quick -p quorate-protocols --lib --quiet exhaustive -- --ignored
  # The rules of epochs: long walks, and more of the small clusters.
  cargo test --profile quick -p quorate-host --lib --quiet epochs -- --ignored
fi
cargo build --profile quick --quiet -p quorate
export QUORATE=target/quick/quorate
for protocol in rabia multi-paxos rs-paxos racos chora nezha; do
  "$QUORATE" model --protocol "$protocol" "$model"
done
for replicas in 3 5; do
  "$QUORATE" sim --protocol rabia --replicas "$replicas" --seeds "0..$seeds"
  "$QUORATE" sim --protocol rabia --replicas "$replicas" --seeds "0..$((seeds / 4))" \
    --durability memory
  "$QUORATE" sim --protocol multi-paxos --replicas "$replicas" --seeds "0..$((seeds / 2))"
  # Members and protocols come and go.
  for changes in epochs switches,epochs,levels; do
    for protocol in rabia multi-paxos; do
      "$QUORATE" sim --protocol "$protocol" --replicas "$replicas" --profile "swarm,$changes" \
        --seeds "0..$((seeds / 4))"
    done
  done
done
"$QUORATE" sim --protocol rs-paxos --replicas 7 --code 7,3 --param payload_min=1 \
  --profile swarm,switches,epochs --seeds "0..$((seeds / 4))"
for code in 3,1 5,3 7,5; do
  "$QUORATE" sim --protocol rs-paxos --replicas "${code%,*}" --code "$code" \
    --param payload_min=1 --seeds "0..$((seeds / 4))"
done
for code in 3,1 4,2 5,3 7,4; do
  "$QUORATE" sim --protocol racos --replicas "${code%,*}" --code "$code" \
    --param payload_min=1 --seeds "0..$((seeds / 4))"
done
# Writes of different keys pass each other.
"$QUORATE" sim plain --seeds "0..$seeds"
"$QUORATE" sim plain --replicas 5 --seeds "0..$((seeds / 4))"
"$QUORATE" sim plain --gateways 2 --seeds "0..$((seeds / 2))"
# Nezha, with gateways that have no replica.
for replicas in 3 5; do
  "$QUORATE" sim --protocol nezha --replicas "$replicas" --profile swarm,gateways \
    --seeds "0..$((seeds / 4))"
done
"$QUORATE" sim --protocol nezha --replicas 5 --param wan=true --param rtt_us=20000 \
  --profile swarm,settings --seeds "0..$((seeds / 4))"
"$QUORATE" sim --protocol nezha --replicas 3 --durability memory --profile swarm,gateways \
  --seeds "0..$((seeds / 4))"
"$QUORATE" sim --protocol nezha --replicas 3 --profile swarm,gateways,switches,epochs \
  --seeds "0..$((seeds / 4))"
# Old copies of folders are put back, noticed or by digests at the latest.
for protocol in rabia multi-paxos rs-paxos racos chora nezha; do
  "$QUORATE" sim --protocol "$protocol" --replicas 3 --profile old-copies --seeds "0..$((seeds / 4))"
done
scripts/mutants.sh
"$QUORATE" bench rounds --kind kill-one,kill-all,pause "${rounds[@]}" --data-dir target
"$QUORATE" bench rounds --kind return-added "${rounds[@]}" --data-dir target
"$QUORATE" bench rounds --kind kill-gateway --protocol nezha "${rounds[@]}" --data-dir target
"$QUORATE" bench chaos "${chaos[@]}" --data-dir target
"$QUORATE" bench chaos --protocol rs-paxos --replicas 5 --quorate-option=--code=5,3 \
  --quorate-option=--param=payload_min=1 "${chaos[@]}" --data-dir target
# Datagrams between replicas.
for protocol in chora nezha; do
  "$QUORATE" bench chaos --protocol "$protocol" --server-arg=--peer-transport=udp \
    "${chaos[@]}" --data-dir target
done
"$QUORATE" bench clocks --rounds 1 --within 0s --data-dir target
"$QUORATE" bench verify --total "$total" --data-dir target
"$QUORATE" bench survive "${survive[@]}" --data-dir target
"$QUORATE" bench failover --alone "${failover[@]}" --data-dir target
"$QUORATE" bench failover --alone --protocol chora --replicas 3 --victims turn --loads write --duration 5s --away 1s \
  --val-size 256 --clients 48 --fill 200 --delay 5ms --fault delays --watch pulsing --param rtt_us=10000 --data-dir target
"$QUORATE" bench wan --map docs/wan.toml --replicas us-east,us-west,eu-north --clients eu-north --systems nezha \
  --duration 2s --warmup 1s --data-dir target
scripts/attack.sh "${attack[@]}" --data-dir target
scripts/readme-commands.sh
