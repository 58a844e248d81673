#!/usr/bin/env bash
# Writes that are executed twice because a client library repeats them by itself: builds small clients on the
# libraries of Go (etcd's own of 3.5, 3.6 and 3.7), Python, Node and Java, builds etcd, and puts through
# five replicas of which three are frozen (`quorate-lab bench repeats`). No put of a Go client may be executed twice, also
# not where the server is told of less time than the call has ("hasty": etcd's own server answers such calls in time
# to be repeated); and no client may execute more puts twice than with etcd. Prints a table; exits 1 on a violation.
#
#   scripts/repeats.sh                               every protocol and etcd, 1,500 puts each: about half an hour
#   scripts/repeats.sh --systems rabia,etcd          further options are those of `quorate-lab bench repeats`
#   CLIENTS=go,node scripts/repeats.sh --puts 500    some of the clients
#
# Needs, for the clients asked for, go, python3 with venv, npm, and mvn with a JDK; and their package registries. What is
# built is kept in target/clients.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly target=${CARGO_TARGET_DIR:-target}
readonly sources=scripts/clients
readonly built=$target/clients
readonly lab=${LAB:-$target/release/quorate-lab}
readonly wanted=,${CLIENTS:-go,python,node,java},

clients=()
mkdir -p "$built"

wants() {
  [[ $wanted == *,$1,* ]]
}

# One program with the newest release of each series of etcd's client.
build_go() {
  local series module version
  for series in 3.5 3.6 3.7; do
    if [[ ! -x $built/go-$series ]]; then
      module=$(mktemp -d)
      cp "$sources/go/main.go" "$module"
      (
        cd "$module"
        go mod init repeats 2>/dev/null
        version=$(go list -m -versions go.etcd.io/etcd/client/v3 | tr ' ' '\n' |
          grep -E "^v$series\.[0-9]+$" | sort -V | tail -1)
        go get "go.etcd.io/etcd/client/v3@$version"
        CGO_ENABLED=0 go build -trimpath -o client .
      )
      mv "$module/client" "$built/go-$series"
      rm -r "$module"
    fi
    clients+=(--client "go $series=$built/go-$series")
    clients+=(--client "go $series hasty=$built/go-$series --hasty")
  done
}

build_python() {
  if [[ ! -x $built/python/bin/python ]]; then
    python3 -m venv "$built/python"
    "$built/python/bin/pip" --quiet install --requirement "$sources/python/requirements.txt"
  fi
  clients+=(--client "python=$built/python/bin/python $sources/python/client.py")
}

build_node() {
  if [[ ! -d $built/node/node_modules ]]; then
    mkdir -p "$built/node"
    cp "$sources"/node/*.js* "$built/node"
    npm --prefix "$built/node" install --silent --no-audit --no-fund
  fi
  clients+=(--client "node=node $built/node/client.js")
}

build_java() {
  if [[ ! -d $built/java/target/lib ]]; then
    mkdir -p "$built/java"
    cp -r "$sources"/java/. "$built/java"
    mvn --quiet --batch-mode --file "$built/java/pom.xml" package dependency:copy-dependencies \
      -DoutputDirectory=target/lib
  fi
  clients+=(--client "java=java -cp $built/java/target/classes:$built/java/target/lib/* Puts")
}

! wants go || build_go
! wants python || build_python
! wants node || build_node
! wants java || build_java
scripts/build-etcd.sh
if [[ -z ${LAB:-} ]]; then
  cargo build --release --quiet -p quorate-cli -p quorate-lab
fi
exec "$lab" bench repeats --etcd "$target/etcd/etcd" --once go "${clients[@]}" "$@"
