#!/usr/bin/env bash
# The same requests in JSON to an etcd and to a cluster; the answers have to be the same, with their statuses, numbers
# of members, clusters and chosen leases aside.
#
#   scripts/json-parity.sh
#
# Needs curl, and what scripts/etcd-systems.sh says.
set -uo pipefail
cd "$(dirname "$0")/.."

. scripts/etcd-systems.sh
need "$etcd" "$ctl" "$quorate"

# Every request, one after the other: what is answered, and with which status.
play() {
  local url=$1
  call() {
    echo "\$ $1 ${*:2}"
    curl --silent --max-time 20 --write-out ' [%{http_code} %{content_type}]\n' "$url$1" -d "${@:2}"
  }
  # What a stream says within two seconds.
  streamed() {
    echo "\$ $1 ${*:2}"
    curl --silent --no-buffer --max-time 2 "$url$1" -d "${@:2}"
  }
  # The status alone: the words of errors about JSON are each system's own.
  refused() {
    echo "\$ $1 ${*:2}"
    curl --silent --max-time 20 --output /dev/null --write-out '[%{http_code}]\n' "$url$1" -d "${@:2}"
  }

  call /v3/kv/put '{"key":"Zm9v","value":"YmFy"}'
  call /v3/kv/put '{"key":"Zm9v","value":"YmF6","prev_kv":true}'
  call /v3/kv/put '{"key":"Zm9v","prevKv":true,"ignoreValue":true}'
  call /v3/kv/put '{"key":"Zm8=","value":"-_8"}'
  call /v3/kv/put '{}'
  call /v3/kv/put ''
  call /v3/kv/put '{"key":"YQ==","lease":"7777"}'
  call /v3/kv/range '{"key":"Zm9v"}'
  call /v3beta/kv/range '{"key":"Zm9v"}'
  call /v3alpha/kv/range '{"key":"Zm9v"}'
  call /v3/kv/range '{"key":"Zg==","range_end":"Zw==","limit":1}'
  call /v3/kv/range '{"key":"Zg==","rangeEnd":"Zw==","sortOrder":"DESCEND","sort_target":1}'
  call /v3/kv/range '{"key":"AA==","range_end":"AA==","count_only":true}'
  call /v3/kv/range '{"key":"AA==","range_end":"AA==","keys_only":true,"unknown":{"a":[1]}}'
  call /v3/kv/range '{"key":"Zm9v","revision":"99"}'
  call /v3/kv/range '{"key":"Zm9v","sort_order":"NO_SUCH"}'
  call /v3/kv/range '{"key":"Zm9v","sort_order":9}'
  call /v3/kv/range '{"key":"Zm9v"} and more'
  call /v3/kv/rangestream '{"key":"Zm9v"}'
  call /v3/kv/txn '{"compare":[{"result":"GREATER","target":"VERSION","key":"Zm9v","version":"1"}],
    "success":[{"request_put":{"key":"dA==","value":"MQ=="}},{"requestRange":{"key":"dA=="}},
      {"request_txn":{"success":[{"request_delete_range":{"key":"dQ==","prev_kv":true}}]}}],
    "failure":[{"request_range":{"key":"Zm9v"}}]}'
  call /v3/kv/txn '{"compare":[{"target":"VALUE","key":"Zm9v","value":""}],
    "success":[{"request_put":{"key":"dA=="}}],"failure":[{"request_range":{"key":"Zm9v"}}]}'
  call /v3/kv/txn '{"compare":[{"target":"CREATE","key":"bA==","create_revision":0}],
    "success":[{"request_put":{"key":"bA==","value":"bWU="}}]}'
  call /v3/kv/txn '{"compare":[{"target":"MOD","key":"bA==","mod_revision":"1"}]}'
  call /v3/kv/txn '{"compare":[{"result":0,"target":1,"key":"Zm9v","TargetUnion":null}],
    "success":[{"Request":{"RequestPut":{"key":"Zm9v"}}}]}'
  call /v3/kv/txn '{"success":[{"request_put":{"key":"YQ=="}},{"request_put":{"key":"YQ=="}}]}'
  call /v3/kv/deleterange '{"key":"Zm8=","prev_kv":true}'
  call /v3/kv/deleterange '{"key":"Zm8="}'
  call /v3/kv/compaction '{"revision":"99"}'
  call /v3/kv/compaction '{"revision":"4","physical":true}'
  call /v3/kv/range '{"key":"Zm9v","revision":"2"}'

  call /v3/lease/grant '{"ID":"77","TTL":600}'
  call /v3/lease/grant '{"ID":77,"TTL":"600"}'
  call /v3/lease/grant '{"TTL":"99999999999"}'
  call /v3/kv/put '{"key":"bGVhc2Vk","lease":77}'
  call /v3/lease/timetolive '{"ID":77,"keys":true}'
  call /v3/kv/lease/timetolive '{"ID":78}'
  call /v3/lease/keepalive '{"ID":77}'
  call /v3/lease/keepalive '{"ID":78}{"ID":"77"}'
  call /v3/lease/leases '{}'
  call /v3/kv/lease/leases ''
  call /v3/kv/lease/revoke '{"ID":77}'
  call /v3/lease/revoke '{"ID":77}'

  call /v3/kv/put '{"key":"dw==","value":"MQ=="}'
  call /v3/kv/put '{"key":"dw==","value":"Mg=="}'
  call /v3/kv/deleterange '{"key":"dw=="}'
  streamed /v3/watch '{"create_request":{"key":"dw==","start_revision":"9","prev_kv":true}}'
  streamed /v3/watch '{"create_request":{"key":"dw==","start_revision":"9","filters":["NOPUT"]}}'
  streamed /v3/watch '{"create_request":{"key":"dw==","start_revision":2}}'
  streamed /v3/watch '{"create_request":{"key":"dw==","watch_id":"5"}} {"create_request":{"key":"dg==","watchId":5}}'
  streamed /v3/watch '{"create_request":{"key":"dw=="}} {"cancel_request":{}} {"progress_request":{}}'
  streamed /v3/watch '{"create_request":{"key":"dw=="}} value {"create_request":{"key":"dg=="}}'
  streamed /v3/watch ''

  call /v3/cluster/member/remove '{"ID":"5"}'
  call /v3/cluster/member/promote '{"ID":"5"}'
  call /v3/maintenance/alarm '{}'
  call /v3/maintenance/alarm '{"action":"DEACTIVATE","alarm":"NOSPACE"}'
  call /v3/maintenance/hashkv '{"revision":"99"}'
  call /v3/maintenance/defragment '{}'
  call /v3/no/such/call '{}'

  for wrong in v '[]' null '{' '{"key":5}' '{"key":"?"}' '{"key":"YQ=="' '{"key":"YQ==","key":"YQ=="}' \
    '{"lease":"1x"}' '{"lease":1.5}' '{"lease":9223372036854775808}' '{"prev_kv":"true"}' '{"key":"\ud800"}'; do
    refused /v3/kv/put "$wrong"
  done
  refused /v3/kv/txn '{"compare":[{"version":"1","value":""}]}'
  refused /v3/kv/txn '{"success":{}}'
  refused /v3/kv/txn '{"success":[null]}'

  for method in GET PUT DELETE OPTIONS; do
    echo "\$ $method /v3/kv/range"
    curl --silent --max-time 20 --request "$method" --write-out ' [%{http_code}]\n' "$url/v3/kv/range"
  done
  for path in /v3/kv/range /v3/watch; do
    echo "\$ headers of $path"
    curl --silent --max-time 2 --include "$url$path" -d '{"key":"Zm9v","create_request":{"key":"Zm9v"}}' |
      grep -iE '^(content-type|grpc-metadata-[a-z-]*|access-control-[a-z-]*|transfer-encoding):|^HTTP' |
      tr 'A-Z' 'a-z' | sort
  done
} 2>&1

# Leaves out what each system has of its own: numbers of clusters and members, terms, and single spaces that etcd's
# library puts between elements or not, from build to build.
mask() {
  sed -E \
    -e 's/"(cluster_id|member_id|raft_term)":"[0-9]+"/"\1":"N"/g' \
    -e 's/"TTL":"59[0-9]"/"TTL":"S"/; s/"TTL":"600"/"TTL":"S"/' \
    -e 's/, ?(["{[])/,\1/g' \
    -e 's/\r$//'
}

start_etcd "$work/etcd"
play "$endpoint" | mask >"$work/etcd.txt"
stop_last
start_quorate "$work/quorate"
play "$endpoint" | mask >"$work/quorate.txt"
count=$(grep -c '^\$ ' "$work/etcd.txt")
if ! diff -U 1 --label etcd --label quorate "$work/etcd.txt" "$work/quorate.txt"; then
  echo "json-parity: of $count requests some are answered otherwise" >&2
  exit 1
fi
echo "json-parity: $count requests are answered alike"
