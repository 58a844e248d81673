#!/usr/bin/env bash
# Makes a project outside the repository with the counter that docs/guide/embed.md prints, builds it offline against
# crates/quorate, and runs it: three processes, one killed with SIGKILL, which catches up. Prints the times.
#
#   scripts/embed-outside.sh [PORT]        the nodes are at PORT + 1 to PORT + 3; 7000 unless told
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
port=${1:-7000}
project=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]:-}"; do
    [ -z "$pid" ] || { kill -9 "$pid" && wait "$pid"; } 2>/dev/null || true
  done
  rm -rf "$project"
}
trap finish EXIT

mkdir "$project/src"
cat > "$project/Cargo.toml" <<EOF
[package]
name = "counter"
version = "0.1.0"
edition = "2024"

[dependencies]
quorate = { path = "$root/crates/quorate" }
serde = { version = "1", features = ["derive"] }
tokio = { version = "1", features = ["macros", "rt"] }
EOF
# The program is the first block that has a `main`.
awk '/^```rust$/ { code = ""; inside = 1; next }
     /^```$/ { if (inside && code ~ /async fn main/) { printf "%s", code; exit } inside = 0; next }
     inside { code = code $0 "\n" }' "$root/docs/guide/embed.md" > "$project/src/main.rs"
[ -s "$project/src/main.rs" ] || { echo "docs/guide/embed.md prints no program" >&2; exit 1; }
cp "$root/Cargo.lock" "$project/Cargo.lock"

SECONDS=0
(cd "$project" && CARGO_TARGET_DIR="$project/target" cargo build --quiet --offline)
packages=$(cd "$project" && cargo tree --offline --prefix none -e normal,build | sed 's/ (\*)$//' | sort -u | wc -l)
echo "built in $SECONDS s, with $packages packages"

# Waits until a node has said a line, for 30 s at most; says it again.
says() {
  local id=$1 line
  read -r -t 30 line <&"${outputs[$id]}" || { echo "node $id says nothing" >&2; exit 1; }
  echo "$line"
}
expect() {
  local said
  said=$(says "$1")
  [ "$said" = "$2" ] || { echo "node $1 says \"$said\" instead of \"$2\"" >&2; exit 1; }
}
declare -A inputs outputs
start() {
  local id=$1 in="$project/in-$1" out="$project/out-$1"
  rm -f "$in" "$out"
  mkfifo "$in" "$out"
  (cd "$project" && exec target/debug/counter "$id" "$port" < "$in" > "$out") &
  pids[id]=$!
  exec {inputs[$id]}> "$in" {outputs[$id]}< "$out"
}
add() { echo "$2" >&"${inputs[$1]}"; }

SECONDS=0
for id in 1 2 3; do start "$id"; done
for id in 1 2 3; do expect "$id" "node $id runs"; done
for id in 1 2 3; do add "$id" 1; expect "$id" "$id"; done
kill -9 "${pids[2]}"
wait "${pids[2]}" 2>/dev/null || true
for value in 4 5 6; do add 1 1; expect 1 "$value"; done
start 2
expect 2 "node 2 runs"
add 2 ""
expect 2 6
echo "three processes, one killed and back with all 6: $SECONDS s"
