#!/usr/bin/env bash
# Makes a Debian package of a program that was built: packaging/deb.sh --program target/dist/quorate [--out DIR]
# [--version VERSION] [--fast]. It prints the package's path; --fast compresses it less, for tests.
# docs/guide/installing.md says what the package does.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
extra_options=--fast
read_options "$@"
compression=(-Zxz)
case "${rest[*]}" in
'') ;;
--fast) compression=(-Zgzip -z1) ;;
*) usage "$extra_options" ;;
esac

read -r _ architecture _ < <(machine)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 0755 "$tree"

install -D -m 0755 "$program" "$tree/usr/bin/quorate"
strip --strip-debug "$tree/usr/bin/quorate"
install -D -m 0644 "$here/debian/quorate.service" "$tree/lib/systemd/system/quorate.service"
install -D -m 0644 "$here/debian/quorate.toml" "$tree/etc/quorate/quorate.toml"
install -D -m 0644 "$here/debian/quorate.default" "$tree/etc/default/quorate"
install -D -m 0755 "$here/debian/restart-in-turn" "$tree/usr/lib/quorate/restart-in-turn"
install -D -m 0644 "$here/../LICENSE" "$tree/usr/share/doc/quorate/copyright"
add_texts "$tree" usr/share
add_watching "$tree/usr/share/quorate"

# The newest version of the C library that the program asks for, if it is linked to one.
libc=$(objdump -T "$program" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 | cut -d_ -f2)
mkdir "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: quorate
Version: $version
Architecture: $architecture
Maintainer: Quorate maintainers <maintainers@quorate.invalid>
Section: database
Priority: optional
Depends: adduser${libc:+, libc6 (>= $libc), libgcc-s1}
Suggests: etcd-client, systemd
Installed-Size: $(du -sk "$tree" | cut -f1)
Description: replicated key-value store behind the etcd v3 and Redis APIs
 Quorate keeps a key-value store identical on three or more machines and lets
 you choose the consensus protocol that does it. It speaks etcd's v3 API and
 Redis's protocol.
CONTROL
printf '/etc/quorate/quorate.toml\n/etc/default/quorate\n' >"$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 0755 "$here/debian/$script" "$tree/DEBIAN/$script"; done

package=$out/quorate_${version}_$architecture.deb
dpkg-deb "${compression[@]}" --root-owner-group --build "$tree" "$package" >&2
echo "$package"
