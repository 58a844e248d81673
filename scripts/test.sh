#!/usr/bin/env bash
# All tests: formatting, lints, unit and integration tests, a short run of the simulator with the
# released code, and its mutants. `scripts/test.sh --long` runs the long forms (hours of cases).
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=200
if [ "${1:-}" = "--long" ]; then
  seeds=2000
fi

cargo fmt --all --check
cargo clippy --workspace --all-targets --quiet -- -D warnings
cargo test --workspace --quiet
cargo build --release --quiet -p quorate
for replicas in 3 5; do
  ./target/release/quorate sim --protocol rabia --replicas "$replicas" --seeds "0..$seeds"
  ./target/release/quorate sim --protocol rabia --replicas "$replicas" --seeds "0..$((seeds / 4))" \
    --durability memory
done
scripts/mutants.sh
