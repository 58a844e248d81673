#!/usr/bin/env bash
# Installs the package on three machines without a compiler (folders of Debian's base, each over the same one), starts a
# cluster, upgrades it from a package of an earlier version number while clients write, and purges it. Something plays
# the service manager (play-unit.py). It takes root, debootstrap and a minute, and two more without
# --base.
#
#   packaging/test-deb.sh --program PATH [--base FOLDER] [--etcdctl PATH]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
extra_options='[--base FOLDER] [--etcdctl PATH]'
read_options "$@"
base='' etcdctl=$(command -v etcdctl || true)
set -- "${rest[@]}"
while [ $# -gt 0 ]; do
  case "$1" in
  --base) base=${2:-} ;;
  --etcdctl) etcdctl=${2:-} ;;
  *) usage "$extra_options" ;;
  esac
  shift 2 || usage "$extra_options"
done
[ -n "$etcdctl" ] || { echo "there is no etcdctl (Debian: etcd-client)" >&2 && exit 1; }

work=$(mktemp -d)
declare -A players=()
end() {
  local code=$?
  for player in "${players[@]}"; do kill "$player" 2>/dev/null && wait "$player" || true; done
  [ -z "${writer:-}" ] || kill "$writer" 2>/dev/null || true
  [ "$code" -eq 0 ] || tail -n 5 "$work"/*/root/var/log/quorate.log "$work"/*.play 2>/dev/null || true
  for root in "$work"/*/root; do umount "$root" 2>/dev/null || true; done
  rm -rf "$work"
  exit "$code"
}
trap end EXIT
say() { echo "test-deb: $*"; }
fail() { say "FAILED: $*" >&2 && exit 1; }

say "making packages of versions 0.0.1 and $version"
before=$("$here/deb.sh" --program "$program" --out "$work" --version 0.0.1 --fast 2>/dev/null)
after=$("$here/deb.sh" --program "$program" --out "$work" --version "$version" --fast 2>/dev/null)
if [ -z "$base" ]; then
  base=$work/base
  debootstrap --variant=minbase bookworm "$base" >"$work/debootstrap.log"
fi
say "checking the unit"
mkdir -p "$work/unit/usr/bin"
dpkg-deb -x "$after" "$work/unit"
systemd-analyze verify --root="$work/unit" --man=no --recursive-errors=no quorate.service

root() { echo "$work/$1/root"; }
inside() { # MACHINE COMMAND...
  local machine=$1
  shift
  DEBIAN_FRONTEND=noninteractive chroot "$(root "$machine")" "$@"
}
endpoint() { echo "http://127.0.0.$1:2379"; }
all=$(endpoint 1),$(endpoint 2),$(endpoint 3)
ctl() { "$etcdctl" --endpoints="$all" "$@"; }

for machine in 1 2 3; do
  mkdir -p "$work/$machine"/{root,upper,work}
  mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/$machine/upper,workdir=$work/$machine/work" \
    "$(root "$machine")"
  ! inside "$machine" sh -c 'command -v cc || command -v gcc || command -v rustc' || fail "there is a compiler"
  cp "$before" "$(root "$machine")/tmp/before.deb"
  cp "$after" "$(root "$machine")/tmp/after.deb"
  inside "$machine" dpkg -i /tmp/before.deb >"$work/$machine.dpkg" 2>&1 || fail "$(cat "$work/$machine.dpkg")"
  list=1=http://127.0.0.1:2380,2=http://127.0.0.2:2380,3=http://127.0.0.3:2380
  cat >>"$(root "$machine")/etc/quorate/quorate.toml" <<CONFIG
id = $machine
initial-cluster = "$list"
initial-cluster-token = "test-deb"
initial-cluster-state = "new"
listen-peer-urls = "http://127.0.0.$machine:2380"
listen-client-urls = "$(endpoint "$machine")"
CONFIG
  echo "STATUS_OPTIONS=\"--endpoints $all\"" >>"$(root "$machine")/etc/default/quorate"
  python3 -u "$here/play-unit.py" "$(root "$machine")" quorate >"$work/$machine.play" 2>&1 &
  players[$machine]=$!
done
until [ "$(cat "$work"/*.play | grep -c '^ready$')" -ge 3 ]; do
  for player in "${players[@]}"; do kill -0 "$player" 2>/dev/null || fail "a service did not start"; done
  sleep 0.1
done
[ "$(stat -c %U:%a "$(root 1)/var/lib/quorate")" = "$(stat -c %U "$(root 1)/var/lib/quorate"):700" ] ||
  fail "the data folder is open to others"
ctl put greeting hello >/dev/null
[ "$(ctl get greeting --print-value-only)" = hello ] || fail "the value did not come back"
say "three machines serve"

# One key after the other, each asked again until it is acknowledged; more than ten refusals in a row are an error.
(
  number=0
  while [ ! -e "$work/enough" ]; do
    number=$((number + 1))
    refused=0
    until ctl --command-timeout=5s put "k$number" "$number" >/dev/null 2>>"$work/refusals"; do
      refused=$((refused + 1))
      [ "$refused" -le 10 ] || { echo "k$number" >"$work/lost" && exit 1; }
    done
    echo "$number" >"$work/written"
  done
) &
writer=$!
for machine in 1 2 3; do
  inside "$machine" dpkg -i /tmp/after.deb >"$work/$machine.dpkg" 2>&1 || fail "$(cat "$work/$machine.dpkg")"
  [ "$(grep -c '^ready$' "$work/$machine.play")" -eq 2 ] || fail "machine $machine was not restarted once"
done
touch "$work/enough"
wait "$writer" || fail "a write was refused for good: $(cat "$work/lost")"
writer=''
written=$(cat "$work/written")
[ "$written" -ge 3 ] || fail "only $written keys were written meanwhile"
found=$(ctl get k --prefix --keys-only | grep -c '^k')
[ "$found" -eq "$written" ] || fail "$found of $written keys are there"
for machine in 1 2 3; do
  inside "$machine" dpkg-query -W -f '${Version}\n' quorate | grep -qx "$version" ||
    fail "machine $machine has another version"
  grep -q '^id = ' "$(root "$machine")/etc/quorate/quorate.toml" || fail "the configuration was replaced"
done
refusals=$(grep -c . "$work/refusals" || true)
say "upgraded one after the other: $written keys written meanwhile; $refusals lines tell of requests that were repeated"

inside 3 apt-get purge -y quorate >"$work/3.dpkg" 2>&1 || inside 3 dpkg --purge quorate >"$work/3.dpkg" 2>&1 ||
  fail "$(cat "$work/3.dpkg")"
grep -q '^stopped with 0, said STOPPING=1$' "$work/3.play" || fail "the service was not stopped in order"
for left in usr/bin/quorate etc/quorate var/lib/quorate lib/systemd/system/quorate.service; do
  [ ! -e "$(root 3)/$left" ] || fail "$left is left after the purge"
done
"$etcdctl" --endpoints="$(endpoint 1)" put after purge >/dev/null || fail "two machines do not go on without the third"
say "purged; the others go on"
