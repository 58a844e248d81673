#!/usr/bin/env bash
# Builds scripts/load-go, a load generator over etcd's official client library, into target/load-go: what
# `quorate-lab bench compare --client go` asks with.
#
#   scripts/build-load-go.sh            with the newest release of the library's series 3.7
#   scripts/build-load-go.sh v3.7.3     with that release
#
# Needs Go and access to a Go module proxy. Does nothing if target/load-go already holds what is in scripts/load-go.
set -euo pipefail

readonly library=go.etcd.io/etcd/client/v3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly out="${CARGO_TARGET_DIR:-$root/target}/load-go"

if ! command -v go >/dev/null; then
  echo "build-load-go: the 'go' command is not installed" >&2
  exit 1
fi
if [[ -x $out/load-go ]] && cmp -s "$root/scripts/load-go/main.go" "$out/main.go" && [[ $# -eq 0 ]]; then
  echo "load-go is already in $out"
  exit 0
fi

module=$(mktemp -d)
trap 'rm -rf "$module"' EXIT
cd "$module"
export GOFLAGS="${GOFLAGS:-} -mod=mod"
go mod init load-go 2>/dev/null
version=${1:-$(go list -m -versions "$library" | tr ' ' '\n' | grep -E '^v3\.7\.[0-9]+$' | sort -V | tail -1)}
if [[ -z $version ]]; then
  echo "build-load-go: the module proxy lists no release 3.7 of $library" >&2
  exit 1
fi
cp "$root/scripts/load-go/main.go" .
go get "$library@$version"
mkdir -p "$out"
CGO_ENABLED=0 go build -trimpath -o "$out/load-go" .
cp main.go "$out/main.go"
echo "built $out/load-go with $library $version"
