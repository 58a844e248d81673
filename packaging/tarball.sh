#!/usr/bin/env bash
# Makes a tarball of a static program, which runs on any Linux of its machine: packaging/tarball.sh --program PATH
# [--out DIR] [--version VERSION]. The program is refused if it needs a library. It prints the tarball's path.
#
# Such a program: rustup target add x86_64-unknown-linux-musl; apt install musl-tools;
# cargo build --profile dist -p quorate-cli --target x86_64-unknown-linux-musl
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
read_options "$@"
[ "${#rest[@]}" -eq 0 ] || usage ''

must_be_static
read -r architecture _ < <(machine)
name=quorate-$version-linux-$architecture
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
install -D -m 0755 "$program" "$tree/$name/bin/quorate"
strip --strip-debug "$tree/$name/bin/quorate"
install -D -m 0644 "$here/debian/quorate.service" "$tree/$name/lib/systemd/system/quorate.service"
install -D -m 0644 "$here/debian/quorate.toml" "$tree/$name/etc/quorate/quorate.toml"
install -m 0644 "$here/../LICENSE" "$here/../README.md" "$tree/$name/"
add_texts "$tree/$name" share
add_watching "$tree/$name/share/quorate"
same_tar --owner=0 --group=0 --numeric-owner -C "$tree" -c "$name" | gzip -9n >"$out/$name.tar.gz"
echo "$out/$name.tar.gz"
