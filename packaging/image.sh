#!/usr/bin/env bash
# Writes an image of a static program as a folder in the OCI layout, from nothing: packaging/image.sh --program PATH
# [--out DIR] [--version VERSION]. It prints the folder's path, which skopeo, podman and others copy from
# (podman pull oci:FOLDER). One program gives one digest.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
read_options "$@"
[ "${#rest[@]}" -eq 0 ] || usage ''

must_be_static
read -r _ _ architecture < <(machine)
layout=$out/quorate-$version-image
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
rm -rf "$layout"
mkdir -p "$layout/blobs/sha256"

# Nobody's user: nothing in the image or on a machine is its own but its data.
user=65532
install -D -m 0755 "$program" "$tree/root/usr/bin/quorate"
strip --strip-debug "$tree/root/usr/bin/quorate"
mkdir -p "$tree/root/var/lib/quorate" "$tree/root/etc" "$tree/root/tmp"
printf 'quorate:x:%s:%s::/var/lib/quorate:/sbin/nologin\n' $user $user >"$tree/root/etc/passwd"
printf 'quorate:x:%s:\n' $user >"$tree/root/etc/group"
{
  same_tar --owner=0 --group=0 --numeric-owner --no-recursion -C "$tree/root" -cf "$tree/layer" \
    etc etc/group etc/passwd usr usr/bin usr/bin/quorate var var/lib
  same_tar --owner=$user --group=$user --numeric-owner --no-recursion --mode=0700 -C "$tree/root" -rf "$tree/layer" \
    var/lib/quorate
  same_tar --owner=0 --group=0 --numeric-owner --no-recursion --mode=1777 -C "$tree/root" -rf "$tree/layer" tmp
}

# Puts a file where its digest says: prints `"digest":"...","size":N`.
blob() { # FILE
  local digest size
  digest=$(sha256sum "$1" | cut -d' ' -f1)
  size=$(stat -c %s "$1")
  cp "$1" "$layout/blobs/sha256/$digest"
  echo "\"digest\":\"sha256:$digest\",\"size\":$size"
}

content=$(sha256sum "$tree/layer" | cut -d' ' -f1)
gzip -9n "$tree/layer"
layer=$(blob "$tree/layer.gz")
cat >"$tree/config" <<CONFIG
{"architecture":"$architecture","os":"linux","config":{"User":"$user:$user","WorkingDir":"/var/lib/quorate",
"Entrypoint":["/usr/bin/quorate"],"Cmd":["serve","--data-dir=/var/lib/quorate/data"],"StopSignal":"SIGTERM",
"ExposedPorts":{"2379/tcp":{},"2380/tcp":{}},"Volumes":{"/var/lib/quorate":{}},
"Healthcheck":{"Test":["CMD","/usr/bin/quorate","status"],"Interval":10000000000,"Timeout":5000000000},
"Labels":{"org.opencontainers.image.title":"Quorate","org.opencontainers.image.version":"$version",
"org.opencontainers.image.licenses":"Apache-2.0"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$content"]},"history":[{"created_by":"packaging/image.sh"}]}
CONFIG
config=$(blob "$tree/config")
cat >"$tree/manifest" <<MANIFEST
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
"config":{"mediaType":"application/vnd.oci.image.config.v1+json",$config},
"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",$layer}]}
MANIFEST
manifest=$(blob "$tree/manifest")
cat >"$layout/index.json" <<INDEX
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json",
"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",$manifest,
"platform":{"architecture":"$architecture","os":"linux"},
"annotations":{"org.opencontainers.image.ref.name":"$version"}}]}
INDEX
echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
echo "$layout"
