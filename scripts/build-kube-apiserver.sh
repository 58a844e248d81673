#!/usr/bin/env bash
# Builds Kubernetes' API server, the largest client of etcd there is, into target/kubernetes.
#
#   scripts/build-kube-apiserver.sh            the newest release of 1.37
#   scripts/build-kube-apiserver.sh v1.37.2    that release
#
# Needs Go and access to a Go module proxy; about ten minutes on two cores. Does nothing if target/kubernetes already
# holds the release.
set -euo pipefail

readonly kubernetes=k8s.io/kubernetes
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly out="${CARGO_TARGET_DIR:-$root/target}/kubernetes"

if ! command -v go >/dev/null; then
  echo "build-kube-apiserver: the 'go' command is not installed" >&2
  exit 1
fi
module=$(mktemp -d)
trap 'rm -rf "$module"' EXIT
cd "$module"
newest() { go list -m -versions "$kubernetes" | tr ' ' '\n' | grep -E '^v1\.37\.[0-9]+$' | sort -V | tail -1 || true; }
version=${1:-$(newest)}
if [[ -z $version ]]; then
  echo "build-kube-apiserver: the module proxy lists no release of 1.37" >&2
  exit 1
fi
if [[ -x $out/kube-apiserver && $(cat "$out/version" 2>/dev/null) == "$version" ]]; then
  echo "kube-apiserver $version is already in $out"
  exit 0
fi

# Kubernetes' own libraries are named by folders of its repository there; as modules they have the same number with
# another first digit: v0.37.2 for v1.37.2.
export GOFLAGS=-mod=mod
go mod init kubernetes-build 2>/dev/null
libraries=v0.${version#v1.}
module_file=$(go mod download -json "$kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
replaced=()
while read -r name; do
  replaced+=("-replace=$name=$name@$libraries")
done < <(sed -n 's|^[[:space:]]*\(k8s.io/[^ ]*\) => ./staging/.*|\1|p' "$module_file")
go mod edit "${replaced[@]}" "-require=$kubernetes@$version"
mkdir -p "$out"
# What the program says of itself; without it, it calls itself v0.0.0.
readonly about=k8s.io/component-base/version
readonly said="-X $about.gitVersion=$version -X $about.gitMajor=1 -X $about.gitMinor=37"
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $said" \
  -o "$out/kube-apiserver" "$kubernetes/cmd/kube-apiserver"
echo "$version" >"$out/version"
"$out/kube-apiserver" --version
