#!/usr/bin/env bash
# State that goes from a cluster to a real etcd and back, through snapshots and data folders: every
# key, revision, lease, user and alarm has to be the same on both sides, and watches go on from old revisions.
#
#   scripts/etcd-snapshots.sh                   with the default protocol, both ways
#   scripts/etcd-snapshots.sh nezha rs-paxos    with these protocols
#
# Needs curl, and what scripts/etcd-systems.sh says.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/etcd-systems.sh
need "$etcd" "$ctl" "$utl" "$quorate"

# Writes keys with history, deletions, transactions, leases, a long value, and a compaction among them.
fill() {
  local at
  "$ctl" --endpoints "$endpoint" lease grant 7200 >"$work/lease.txt"
  lease=$(awk '{print $2}' "$work/lease.txt")
  "$ctl" --endpoints "$endpoint" lease grant 3600 >/dev/null
  for at in 1 2 3 4 5 6 7 8 9; do
    "$ctl" --endpoints "$endpoint" put "a/$at" "first $at" >/dev/null
  done
  "$ctl" --endpoints "$endpoint" put leased v --lease "$lease" >/dev/null
  head -c 300000 /dev/urandom | base64 -w 0 | "$ctl" --endpoints "$endpoint" put long >/dev/null
  "$ctl" --endpoints "$endpoint" del a/3 a/6 >/dev/null 2>&1
  "$ctl" --endpoints "$endpoint" put a/2 second >/dev/null
  "$ctl" --endpoints "$endpoint" compact 12 >/dev/null
  printf 'version("a/2") > "0"\n\nput t 1\nput u 2\ndel a/7\n\nput t no\n\n' |
    "$ctl" --endpoints "$endpoint" txn --interactive=false >/dev/null
  "$ctl" --endpoints "$endpoint" put a/4 again --lease "$lease" >/dev/null
  "$ctl" --endpoints "$endpoint" put a/2 third >/dev/null
  "$ctl" --endpoints "$endpoint" del t >/dev/null
  patiently user add root:secret
  "$ctl" --endpoints "$endpoint" user add sensor:word >/dev/null
  "$ctl" --endpoints "$endpoint" user add certified --no-password >/dev/null
  "$ctl" --endpoints "$endpoint" role add reader >/dev/null
  "$ctl" --endpoints "$endpoint" role grant-permission reader --prefix=true read a/ >/dev/null
  "$ctl" --endpoints "$endpoint" role grant-permission reader readwrite b c >/dev/null
  "$ctl" --endpoints "$endpoint" user grant-role sensor reader >/dev/null
  "$ctl" --endpoints "$endpoint" user grant-role root root >/dev/null
  raise 0
  raise 2
}

# Raises alarm NOSPACE about a member.
raise() {
  curl --silent --fail --show-error --output /dev/null "$endpoint/v3/maintenance/alarm" \
    -d "{\"action\":\"ACTIVATE\",\"memberID\":\"$1\",\"alarm\":\"NOSPACE\"}"
}

# A command that is refused until all replicas know that all others know it.
patiently() {
  eventually "$ctl" --endpoints "$endpoint" "$@" || fail "etcdctl $*: $(cat "$work/said.txt")"
}

# Everything that can be read of a system: all keys at every revision that can be read, leases with
# their keys, and the events since the compaction.
show() {
  local revision now id
  now=$("$ctl" --endpoints "$endpoint" get none -w json | sed -E 's/.*"revision":([0-9]+).*/\1/')
  echo "revision $now"
  for ((revision = 1; revision <= now; revision++)); do
    echo "as of $revision:"
    { "$ctl" --endpoints "$endpoint" get "" --prefix --rev "$revision" -w json 2>&1 || true; } |
      sed -E 's/"header":\{[^}]*\},?//; s/^\{"level.*//; s/.*(required revision has been compacted).*/\1/'
  done
  for id in $("$ctl" --endpoints "$endpoint" lease list | awk 'NR > 1' | sort); do
    # etcd lists the keys of a lease in any order.
    "$ctl" --endpoints "$endpoint" lease timetolive "$id" --keys |
      sed -E 's/remaining\([0-9]+s\)/remaining/' | tr ' []()' '\n' | sort | tr '\n' ' '
    echo
  done
  for id in root sensor certified; do
    "$ctl" --endpoints "$endpoint" user get "$id"
  done
  "$ctl" --endpoints "$endpoint" role get reader
  "$ctl" --endpoints "$endpoint" alarm list | sort
  { timeout 2 "$ctl" --endpoints "$endpoint" watch "" --prefix --rev 12 -w fields 2>&1 </dev/null || true; } |
    grep -vE 'ClusterID|MemberID|RaftTerm|"Revision"' || true
}

# Compares what two systems showed.
same() {
  if ! diff -U 2 "$work/$1.txt" "$work/$2.txt" >"$work/diff.txt"; then
    head -40 "$work/diff.txt"
    fail "$3: what is read is not the same"
  fi
  echo "$3: equal ($(grep -c 'as of' "$work/$1.txt") revisions, $(wc -l <"$work/$1.txt") lines)"
}

# Both systems go on from where they were: the next write has the next revision.
goes_on() {
  local revision
  revision=$(head -1 "$work/$1.txt" | awk '{print $2}')
  if "$ctl" --endpoints "$endpoint" put more 0 >"$work/said.txt" 2>&1; then
    fail "$2: a put is taken while an alarm is raised"
  fi
  grep -q "space exceeded" "$work/said.txt" || fail "$2: a put is refused otherwise: $(cat "$work/said.txt")"
  "$ctl" --endpoints "$endpoint" alarm disarm >/dev/null
  [[ -z $("$ctl" --endpoints "$endpoint" alarm list) ]] || fail "$2: an alarm cannot be disarmed"
  "$ctl" --endpoints "$endpoint" put more 1 -w json | grep -q "\"revision\":$((revision + 1))" ||
    fail "$2: the next revision is not $((revision + 1))"
  "$ctl" --endpoints "$endpoint" lease revoke "$lease" >/dev/null
  [[ -z $("$ctl" --endpoints "$endpoint" get leased) ]] || fail "$2: a lease has lost its key"
  patiently auth enable
  "$ctl" --endpoints "$endpoint" --user sensor:word get a/2 | grep -q third ||
    fail "$2: a user cannot read what it may"
  for user in sensor:word:u sensor:wrong:a/2 certified::a/2; do
    if "$ctl" --endpoints "$endpoint" --user "${user%:*}" get "${user##*:}" >/dev/null 2>&1; then
      fail "$2: $user may read"
    fi
  done
  "$ctl" --endpoints "$endpoint" --user root:secret auth disable >/dev/null
}

# A cluster, its snapshot, a real etcd on that, its snapshot and its folder, clusters on these.
round_trip() {
  local protocol=$1 name=$1
  start_quorate "$work/$name-first" --protocol "$protocol"
  fill
  show >"$work/$name-first.txt"
  "$ctl" --endpoints "$endpoint" snapshot save "$work/$name.db" >/dev/null 2>&1 ||
    fail "$protocol: etcdctl snapshot save failed"
  compgen -G "$work/$name-first/2/etcd-snapshot*" >/dev/null && fail "$protocol: a snapshot left a file"
  stop_last
  "$utl" snapshot status "$work/$name.db" -w table
  "$utl" snapshot restore "$work/$name.db" --data-dir "$work/$name-etcd" >/dev/null 2>&1 ||
    fail "$protocol: etcdutl snapshot restore failed"
  start_etcd "$work/$name-etcd"
  show >"$work/$name-etcd.txt"
  same "$name-first" "$name-etcd" "$protocol to etcd"
  "$ctl" --endpoints "$endpoint" snapshot save "$work/$name-etcd.db" >/dev/null 2>&1
  stop_last
  "$quorate" import --etcd-snapshot "$work/$name-etcd.db" --data-dir "$work/$name-second" \
    --protocol "$protocol" >/dev/null
  start_quorate "$work/$name-second"
  show >"$work/$name-second.txt"
  same "$name-etcd" "$name-second" "etcd to $protocol, from a snapshot"
  goes_on "$name-second" "$protocol"
  show >"$work/$name-before.txt"
  stop_last
  # A replica that has lost its folder fetches all of it from the others.
  rm -rf "$work/$name-second/2"
  start_quorate "$work/$name-second"
  show >"$work/$name-returned.txt"
  same "$name-before" "$name-returned" "$protocol, a replica without its folder"
  stop_last
  "$quorate" import --etcd-data-dir "$work/$name-etcd" --data-dir "$work/$name-third" \
    --protocol "$protocol" >/dev/null
  start_quorate "$work/$name-third"
  show >"$work/$name-third.txt"
  same "$name-etcd" "$name-third" "etcd to $protocol, from its folder"
  stop_last
  start_etcd "$work/$name-etcd"
  goes_on "$name-etcd" "etcd on a snapshot of $protocol"
  stop_last
}

# What is no etcd's, or one's that was not stopped, is refused.
refusals() {
  # Its database is behind its log until it writes what it has gathered.
  start_etcd "$work/killed" --backend-batch-interval 1h
  "$ctl" --endpoints "$endpoint" put k v >/dev/null
  kill -9 "${pids[-1]}"
  wait "${pids[-1]}" 2>/dev/null || true
  unset 'pids[-1]'
  local said
  said=$("$quorate" import --etcd-data-dir "$work/killed" --data-dir "$work/of-killed" 2>&1) &&
    fail "a folder of an etcd that was killed is imported"
  grep -q "not stopped in good order" <<<"${said//$'\n'/ }" || fail "the message is: $said"
  said=$("$quorate" serve --data-dir "$work/killed" 2>&1) && fail "an etcd's folder is served"
  grep -q "quorate import" <<<"${said//$'\n'/ }" || fail "the message is: $said"
  echo "refusals: as they should be"
}

protocols=("$@")
[[ ${#protocols[@]} -gt 0 ]] || protocols=(rabia)
for protocol in "${protocols[@]}"; do
  round_trip "$protocol"
done
refusals
