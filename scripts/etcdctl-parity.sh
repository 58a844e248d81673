#!/usr/bin/env bash
# The same etcdctl commands against an etcd and against each endpoint of a cluster; what they print
# has to be the same, numbers of leases and members aside.
#
#   scripts/etcdctl-parity.sh                      with the etcdctl of that etcd
#   scripts/etcdctl-parity.sh /usr/bin/etcdctl     with another one, too
#
# Needs what scripts/etcd-systems.sh says.
set -uo pipefail
cd "$(dirname "$0")/.."

. scripts/etcd-systems.sh
readonly ctls=("$ctl" "$@")
need "$etcd" "$quorate" "${ctls[@]}"

# Every command, one after the other: what it prints, on either stream, and how it ends.
play() {
  local ctl=$1 endpoint=$2
  # Releases before 3.5 speak version 2 unless told; newer ones complain when told.
  if "$ctl" version | grep -q ' version: 3\.4'; then export ETCDCTL_API=3; fi
  ctl() {
    echo "\$ etcdctl $*"
    timeout 20 "$ctl" --endpoints "$endpoint" "$@" 2>&1 </dev/null
    echo "[$?]"
  }
  ctl_stdin() {
    local input=$1
    shift
    echo "\$ etcdctl $* <<< $input"
    printf '%b' "$input" | timeout 20 "$ctl" --endpoints "$endpoint" "$@" 2>&1
    echo "[$?]"
  }
  # Prints what a watch tells until the marker key is written.
  watched() {
    echo "\$ etcdctl watch $*"
    timeout 2 "$ctl" --endpoints "$endpoint" watch "$@" 2>&1 </dev/null
    echo "[$?]"
  }
  local revision lease

  ctl put a 1
  ctl put a 2 --prev-kv
  ctl put b/1 x
  ctl put b/2 y
  ctl put b/3 z
  ctl put --ignore-value missing
  ctl put --ignore-value a
  ctl put --ignore-lease a 3
  ctl put --lease=7777 a 1
  ctl put "" v
  ctl get a
  ctl get a --rev=2
  ctl get a --rev=99
  ctl get a --consistency=s
  ctl get missing
  ctl get "" --prefix --keys-only
  ctl get b/ --prefix
  ctl get b/ --prefix --limit 2
  ctl get b/ --prefix --limit 2 -w fields
  ctl get b/ --prefix --order=DESCEND --sort-by=VALUE
  ctl get b/ --prefix --order=ASCEND --sort-by=MODIFY
  ctl get b/ --prefix --order=DESCEND --sort-by=CREATE
  ctl get b/ --prefix --order=DESCEND --sort-by=VERSION
  ctl get b/ --prefix --print-value-only
  ctl get b/ --prefix --count-only
  ctl get b/ --prefix --count-only -w fields
  ctl get b/2 --from-key
  ctl get a b/2
  ctl get a -w json
  ctl get a -w simple
  ctl get a -w fields
  ctl get b/ --prefix -w json
  ctl get a --order=WRONG
  ctl del missing
  ctl del b/1 --prev-kv
  ctl del b/ --prefix --prev-kv
  ctl del b/ --prefix -w json
  ctl_stdin 'value("a") = "3"\n\nput t yes\nget t\n\nput t no\n\n' txn --interactive=false
  ctl_stdin 'value("a") = "x"\n\nput t yes\n\nput t no\nget t\ndel t\n\n' txn
  ctl_stdin 'mod("a") > "1"\ncreate("zz") = "0"\nversion("a") = "4"\n\nget a\n\n\n' txn -w json
  ctl_stdin 'value("a") = "3"\n\nput q 1\nput q 2\n\n\n' txn
  ctl put w 1
  ctl put w 2
  ctl del w
  ctl put w 3
  watched w --rev=1
  watched w --rev=1 --prev-kv
  watched --prefix "" --rev=10
  watched w --rev=1 -w json
  ctl compact 12
  ctl compact 12
  ctl compact 9999
  ctl compact 13 --physical
  watched w --rev=2
  ctl get a --rev=2
  ctl get a --rev=13

  echo '$ etcdctl lease grant 600'
  lease=$("$ctl" --endpoints "$endpoint" lease grant 600 2>&1 | tee /dev/stderr | awk '{print $2}')
  ctl put leased v --lease="$lease"
  ctl get leased
  ctl get leased -w fields
  ctl lease timetolive "$lease"
  ctl lease timetolive "$lease" --keys
  ctl lease keep-alive --once "$lease"
  ctl lease keep-alive --once 1234
  ctl lease list
  ctl lease list -w json
  ctl lease revoke "$lease"
  ctl lease revoke "$lease"
  ctl lease timetolive "$lease"
  ctl lease timetolive 1234 --keys -w json
  ctl lease keep-alive --once "$lease"
  ctl lease grant 99999999999
  ctl get leased

  ctl lock l true
  ctl lock l echo held
  ctl get l --prefix
  echo '$ etcdctl elect'
  timeout 2 "$ctl" --endpoints "$endpoint" elect e proposal 2>&1 </dev/null
  ctl get e --prefix
  ctl alarm list
  ctl alarm disarm
  ctl defrag
  ctl endpoint health
  ctl endpoint health -w json
  ctl endpoint status -w fields
  ctl endpoint hashkv
  ctl endpoint hashkv -w json
  ctl member list
  ctl member list -w json
  # The leader must be among those that are asked.
  echo '$ etcdctl move-leader 1234'
  timeout 20 "$ctl" --endpoints "$(IFS=, && echo "${endpoints[*]}")" move-leader 1234 2>&1 </dev/null
  echo "[$?]"
  ctl compaction
  ctl get
} 2>&1

# Leaves out what each system has of its own: numbers of leases, members and clusters, names,
# addresses, sizes, digests, times, log positions and terms.
mask() {
  sed -E \
    -e '/^\{"level":"(warn|info)"/d' \
    -e 's/\b[0-9a-f]{13,16}\b/ID/g' \
    -e 's#https?://127\.0\.0\.1:[0-9]+#URL#g; s#127\.0\.0\.1:[0-9]+#URL#g' \
    -e 's/"(cluster_id|member_id|raft_term|ID|id|lease|hash|raftTerm|raftIndex|raftAppliedIndex|dbSize|dbSizeInUse|leader)":-?[0-9]+/"\1":N/g' \
    -e 's/"(took|version|storageVersion|name)":"[^"]*"/"\1":""/g' \
    -e 's/^("(ClusterID|MemberID|RaftTerm|RaftIndex|RaftAppliedIndex|DBSize|DBSizeInUse|Leader|Lease|Version|StorageVersion|DBSizeQuota)" :) .*/\1 N/' \
    -e 's/took = .*/took = T/; s/took [0-9.]+m?s/took T/; s/remaining\(5[0-9][0-9]s\)/remaining(S)/' \
    -e 's/"ttl":5[0-9][0-9]\b/"ttl":S/' \
    -e 's/"(client|peer)URLs":\[[^]]*\]/"\1URLs":[]/g' \
    -e 's/(,\{"ID":N,"name":"","peerURLs":\[\],"clientURLs":\[\]\})+//' \
    -e 's/^URL, [0-9]+(, [0-9]+)?$/URL, HASH\1/' \
    -e '/^[2-9], started, replica-/d; s/^(1|ID), started, [^,]*,/ID, started, NAME,/'
}

compare() {
  local ctl=$1 differences=0 index
  start_etcd "$work/etcd-$RANDOM"
  play "$ctl" "$endpoint" | mask >"$work/etcd.txt"
  stop_last
  for index in 0 1 2; do
    start_quorate "$work/quorate-$index-$RANDOM"
    play "$ctl" "${endpoints[index]}" | mask >"$work/quorate.txt"
    stop_last
    if ! diff -U 3 --label etcd --label "quorate, endpoint $((index + 1))" \
      "$work/etcd.txt" "$work/quorate.txt"; then
      differences=$((differences + 1))
    fi
  done
  local count
  count=$(grep -c '^\$ ' "$work/etcd.txt")
  echo "$ctl: $count commands, $differences of 3 endpoints differ"
  return "$differences"
}

failed=0
for ctl in "${ctls[@]}"; do
  compare "$ctl" || failed=1
done
exit $failed
