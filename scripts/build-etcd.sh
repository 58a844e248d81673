#!/usr/bin/env bash
# Builds etcd, etcdctl and etcdutl, the system we compare against, into target/etcd.
#
#   scripts/build-etcd.sh            the newest release of 3.7, else of 3.6
#   scripts/build-etcd.sh v3.7.3     that release
#
# Needs Go and access to a Go module proxy. Does nothing if target/etcd already holds the release.
set -euo pipefail

readonly server=go.etcd.io/etcd/server/v3
readonly ctl=go.etcd.io/etcd/etcdctl/v3
readonly utl=go.etcd.io/etcd/etcdutl/v3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly out="${CARGO_TARGET_DIR:-$root/target}/etcd"

# The newest version of a series without a pre-release suffix, or nothing.
newest_of() {
  go list -m -versions "$server" | tr ' ' '\n' | grep -E "^v$1\.[0-9]+$" | sort -V | tail -1 || true
}

if ! command -v go >/dev/null; then
  echo "build-etcd: the 'go' command is not installed" >&2
  exit 1
fi

module=$(mktemp -d)
trap 'rm -rf "$module"' EXIT
cd "$module"

version=${1:-$(newest_of 3.7)}
version=${version:-$(newest_of 3.6)}
if [[ -z $version ]]; then
  echo "build-etcd: the module proxy lists no release of etcd 3.7 or 3.6" >&2
  exit 1
fi

if [[ -x $out/etcd && -x $out/etcdctl && -x $out/etcdutl ]] &&
  "$out/etcd" --version | grep -qx "etcd Version: ${version#v}"; then
  echo "etcd $version is already in $out"
  exit 0
fi

# etcd's module file holds replace directives, which `go install module@version` refuses. As
# requirements of a module of our own the same packages build.
export GOFLAGS="${GOFLAGS:-} -mod=mod"
go mod init etcd-build 2>/dev/null
go get "$server@$version" "$ctl@$version" "$utl@$version"
mkdir -p "$out"
CGO_ENABLED=0 go build -trimpath -o "$out/etcd" "$server"
CGO_ENABLED=0 go build -trimpath -o "$out/etcdctl" "$ctl"
CGO_ENABLED=0 go build -trimpath -o "$out/etcdutl" "$utl"
"$out/etcd" --version
