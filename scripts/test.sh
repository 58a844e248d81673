#!/usr/bin/env bash
# All tests, optimised and with every check on: formatting, lints, unit and integration tests; then a short
# range of simulated seeds, every mutant, rounds of kill -9 on real processes, rounds of chaos, and
# coded values written, damaged and read back while leaders are killed.
#
# Each part has a budget of minutes on two idle cores, 35 in all; a table at the end shows what each took. The script
# fails when one takes more than twice as long as it may. What is to run longer is run by
# `scripts/test.sh --long`, which only prints the table.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/parts.sh

seeds=24
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

lints() {
  cargo fmt --all --check
  cargo clippy --workspace --all-targets --quiet -- -D warnings
  # Without yardsticks, as programs have them: the workspace has the features of its laboratory.
  cargo clippy -p quorate-protocols --quiet -- -D warnings
  # The pages of the crate that programs embed, and of those that it needs.
  RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --quiet -p quorate -p quorate-core -p quorate-protocols \
    -p quorate-host -p quorate-server -p quorate-tls -p quorate-erasure
}

tests() {
  # Twice as many at a time as there are processors: tests of processes wait for most of their time. One run shows all
  # that fails.
  RUST_TEST_THREADS=$((2 * $(nproc))) cargo test --profile quick --workspace --quiet --no-fail-fast
  [ "$model" = --long ] || return 0
  # The largest exhaustive searches of quorum rules.
  cargo test --profile quick -p quorate-protocols --lib --quiet exhaustive -- --ignored
  # Long random walks of the protocols that share theirs.
  cargo test --profile quick -p quorate-protocols --features yardsticks --lib --quiet for_long -- --ignored
  # The rules of epochs: long walks, and more of the small clusters.
  cargo test --profile quick -p quorate-host --lib --quiet epochs -- --ignored
}

models() {
  for protocol in rabia multi-paxos raft rs-paxos racos chora nezha mencius fast-paxos nopaxos \
    domino epaxos; do
    "$LAB" model --protocol "$protocol" "$model"
  done
}

simulator() {
  while read -r share setup; do
    # Words, on purpose.
    # shellcheck disable=SC2086
    "$LAB" sim $setup --seeds "0..$((seeds / share))" </dev/null
  done < <(grep -v '^#' scripts/setups.txt)
}

# Real processes, hurt in every way.
processes() {
  "$LAB" bench rounds --kind kill-one,kill-all,pause "${rounds[@]}" --data-dir target
  "$LAB" bench rounds --kind return-added "${rounds[@]}" --data-dir target
  "$LAB" bench rounds --kind kill-gateway --protocol nezha "${rounds[@]}" --data-dir target
  "$LAB" bench chaos "${chaos[@]}" --data-dir target
  "$LAB" bench chaos --protocol rs-paxos --replicas 5 --quorate-option=--code=5,3 \
    --quorate-option=--param=payload_min=1 "${chaos[@]}" --data-dir target
  # Datagrams between replicas.
  for protocol in chora nezha; do
    "$LAB" bench chaos --protocol "$protocol" --server-arg=--peer-transport=udp \
      "${chaos[@]}" --data-dir target
  done
  "$LAB" bench clocks --rounds 1 --within 0s --data-dir target
  "$LAB" bench verify --total "$total" --data-dir target
  "$LAB" bench survive "${survive[@]}" --data-dir target
  "$LAB" bench failover --alone "${failover[@]}" --data-dir target
  "$LAB" bench failover --alone --protocol chora --replicas 3 --victims turn --loads write --duration 5s --away 1s \
    --val-size 256 --clients 48 --fill 200 --delay 5ms --fault delays --watch pulsing --param rtt_us=10000 --data-dir target
  "$LAB" bench wan --map docs/results/wan.toml --replicas us-east,us-west,eu-north --clients eu-north --systems nezha \
    --duration 2s --warmup 1s --data-dir target
}

# Beside a real etcd, which CI has none of: it replays what one did (lab/cli/tests/differential.rs).
etcd() {
  scripts/build-etcd.sh
  scripts/etcd-configs.sh
  scripts/etcdctl-parity.sh
  scripts/json-parity.sh
  scripts/etcd-snapshots.sh rabia multi-paxos raft rs-paxos racos chora nezha
  "$LAB" bench differential --seeds 0..200 --data-dir target
}

# Packages on machines without a compiler: it takes root and debootstrap, and the unit's checker.
packages() {
  packaging/test-deb.sh --program "$QUORATE" --out target/packages
  packaging/kubernetes/render.sh --check
}

part lints 2.5 lints
part tests 16 tests
# The tests have built both: with fewer packages, and so other features, most would be built once more.
export QUORATE=target/quick/quorate LAB=target/quick/quorate-lab
part models 1.5 models
part simulator 3.5 simulator
part mutants 1.5 scripts/mutants.sh
part processes 4.5 processes
part attack 3 scripts/attack.sh "${attack[@]}" --data-dir target
part readme 1 scripts/readme-commands.sh
case $model in
  --long)
    part packages 4 packages
    part etcd 60 etcd
    ;;
  *) check_budget 35 ;;
esac
