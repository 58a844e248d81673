#!/usr/bin/env bash
# Kubernetes' API server, unmodified, on three replicas with mutual TLS everywhere: 2,000 objects created, listed,
# watched and deleted while a replica is killed; then a snapshot taken by etcdctl, restored into a fresh cluster,
# and the same objects found there.
#
#   scripts/build-kube-apiserver.sh && scripts/build-etcd.sh
#   scripts/kube-apiserver.sh                  # 2,000 objects under rabia
#   scripts/kube-apiserver.sh 200 multi-paxos  # fewer, under another protocol
#
# QUORATE names the executable; without it one is built. Needs openssl and python3. All of it stays on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly objects=${1:-2000} protocol=${2:-rabia}
root=$PWD
target=${CARGO_TARGET_DIR:-$root/target}
apiserver=$target/kubernetes/kube-apiserver
etcdctl=$target/etcd/etcdctl
for needed in "$apiserver" "$etcdctl"; do
  if [ ! -x "$needed" ]; then
    echo "there is no $needed: run scripts/build-kube-apiserver.sh and scripts/build-etcd.sh" >&2
    exit 1
  fi
done
if [ -z "${QUORATE:-}" ]; then
  cargo build --release --quiet -p quorate-cli
  QUORATE=$target/release/quorate
fi
quorate=$(realpath "$QUORATE")
unset "${!QUORATE_@}" "${!ETCD_@}"

scratch=$(mktemp -d)
declare -A pids=()
finish() {
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$scratch"
}
trap finish EXIT
trap 'tail -n 5 "$scratch"/*.log >&2' ERR
cd "$scratch"

# certificate NAME SUBJECT [EXTENSIONS]: a key, and a certificate of the one authority.
certificate() {
  openssl req -new -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>/dev/null
  printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile "$1.ext" \
    -out "$1.crt" 2>/dev/null
}
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj /CN=authority -days 2 2>/dev/null
certificate member /CN=member
certificate client /CN=kube-apiserver
certificate serving /CN=localhost
openssl genrsa -out accounts.key 2048 2>/dev/null
echo 'only-for-this-test,admin,1,"system:masters"' >tokens.csv

# Starts one of three members: NUMBER, CLUSTER (its folder), FIRST PORT.
member() {
  local number=$1 cluster=$2 port=$3 list='' other
  for other in 1 2 3; do list+="${list:+,}m$other=https://127.0.0.1:$((port + 10 + other))"; done
  "$quorate" etcd --name "m$number" --data-dir "$cluster/m$number" \
    --listen-client-urls "https://127.0.0.1:$((port + number))" \
    --advertise-client-urls "https://127.0.0.1:$((port + number))" \
    --listen-peer-urls "https://127.0.0.1:$((port + 10 + number))" \
    --initial-advertise-peer-urls "https://127.0.0.1:$((port + 10 + number))" \
    --initial-cluster "$list" --initial-cluster-token "$cluster" --quorate-protocol "$protocol" \
    --cert-file member.crt --key-file member.key --trusted-ca-file ca.crt --client-cert-auth \
    --peer-cert-file member.crt --peer-key-file member.key --peer-trusted-ca-file ca.crt --peer-client-cert-auth \
    >>"$cluster-m$number.log" 2>&1 &
  pids[$cluster-m$number]=$!
}
endpoints() { echo "https://127.0.0.1:$(($1 + 1)),https://127.0.0.1:$(($1 + 2)),https://127.0.0.1:$(($1 + 3))"; }
ctl() { "$etcdctl" --cacert ca.crt --cert client.crt --key client.key "$@"; }
until_true() { # SECONDS COMMAND...
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || { echo "not in time: $*" >&2; return 1; }
    sleep 0.2
  done
}
# Starts the API server on a cluster: NAME FIRST-PORT ITS-OWN-PORT.
kube() {
  "$apiserver" --etcd-servers "$(endpoints "$2")" \
    --etcd-cafile ca.crt --etcd-certfile client.crt --etcd-keyfile client.key \
    --secure-port "$3" --bind-address 127.0.0.1 --tls-cert-file serving.crt --tls-private-key-file serving.key \
    --token-auth-file tokens.csv --authorization-mode RBAC --service-cluster-ip-range 10.0.0.0/24 \
    --service-account-issuer https://localhost --service-account-key-file accounts.key \
    --service-account-signing-key-file accounts.key --cert-dir "$1" >"$1.log" 2>&1 &
  pids[$1]=$!
  until_true 120 curl -sf --cacert ca.crt -H 'Authorization: Bearer only-for-this-test' "https://127.0.0.1:$3/readyz"
}

for number in 1 2 3; do member "$number" first 23700; done
until_true 60 ctl --endpoints "$(endpoints 23700)" endpoint health
kube kube-first 23700 26443
echo "kube-apiserver $("$apiserver" --version | cut -d' ' -f2) serves on three replicas under $protocol"

# Creates, lists and watches objects; says "half" when half of them are there and waits for a line before it goes on.
cat >objects.py <<'PY'
import http.client, json, ssl, sys, threading, time
port, count, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
context = ssl.create_default_context(cafile="ca.crt")
head = {"Authorization": "Bearer only-for-this-test", "Content-Type": "application/json"}
base = "/api/v1/namespaces/default/configmaps"
def ask(method, path, body=None, to=None):
    last = None
    for _ in range(60):
        link = to or http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
        try:
            link.request(method, path, body and json.dumps(body), head)
            answer = link.getresponse(); data = answer.read()
            if answer.status < 500 and answer.status != 429: return answer.status, json.loads(data)
            last = data[:200]
        except OSError as error: last = error
        time.sleep(0.5)
    sys.exit(f"{method} {path}: {last}")
def each(numbers, act):
    def some(part):
        for number in part: act(number)
    threads = [threading.Thread(target=some, args=(numbers[i::16],)) for i in range(16)]
    [t.start() for t in threads]; [t.join() for t in threads]
def create(number):
    body = {"metadata": {"name": f"object-{number}"}, "data": {"number": str(number)}}
    status, _ = ask("POST", base, body)
    # 409: a first try was carried out, and its answer lost.
    if status not in (201, 409): sys.exit(f"creating {number}: {status}")
def names(answer):
    return {item["metadata"]["name"] for item in answer["items"] if item["metadata"]["name"].startswith("object-")}
wanted = {f"object-{number}" for number in range(count)}
if what == "create":
    seen = set()
    version = ask("GET", base)[1]["metadata"]["resourceVersion"]
    def watch():
        at = version
        while seen != wanted:
            link = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
            try:
                link.request("GET", f"{base}?watch=1&resourceVersion={at}", headers=head)
                for line in link.getresponse():
                    event = json.loads(line)
                    if event["type"] == "ERROR": sys.exit(f"watch: {event}")
                    at = event["object"]["metadata"]["resourceVersion"]
                    name = event["object"]["metadata"]["name"]
                    if event["type"] == "ADDED" and name in wanted: seen.add(name)
                    if seen == wanted: return
            except OSError: pass
    watcher = threading.Thread(target=watch, daemon=True); watcher.start()
    each(list(range(count // 2)), create)
    print("half", flush=True); sys.stdin.readline()
    each(list(range(count // 2, count)), create)
    watcher.join(60)
    if seen != wanted: sys.exit(f"the watch saw {len(seen)} of {count}")
    print(f"{count} created; a watch saw each of them")
found = names(ask("GET", base)[1])
if what == "delete":
    each(list(range(count)), lambda number: ask("DELETE", f"{base}/object-{number}"))
    left = names(ask("GET", base)[1])
    if left: sys.exit(f"{len(left)} are left after all were deleted")
    print(f"{count} deleted")
elif found != wanted: sys.exit(f"a list has {len(found)} of {count}")
else: print(f"a list has all {count}")
PY
mkfifo go
python3 objects.py 26443 "$objects" create <go >created.log 2>&1 &
creating=$!
exec 7>go
until_true 300 grep -q half created.log
kill -KILL "${pids[first-m2]}"
wait "${pids[first-m2]}" 2>/dev/null || true
echo "replica 2 killed when half of the objects were there"
echo on >&7
wait "$creating"
grep -v half created.log
member 2 first 23700
until_true 60 ctl --endpoints https://127.0.0.1:23702 endpoint health

ctl --endpoints https://127.0.0.1:23701 snapshot save objects.db >/dev/null 2>&1
python3 objects.py 26443 "$objects" delete
for number in 1 2 3; do
  list='m1=https://127.0.0.1:23811,m2=https://127.0.0.1:23812,m3=https://127.0.0.1:23813'
  "$quorate" import --etcd-snapshot objects.db --name "m$number" \
    --initial-cluster "$list" --initial-cluster-token second \
    --initial-advertise-peer-urls "https://127.0.0.1:$((23810 + number))" --protocol "$protocol" \
    --data-dir "second/m$number"
  member "$number" second 23800
done
until_true 60 ctl --endpoints "$(endpoints 23800)" endpoint health
kube kube-second 23800 26444
echo "a fresh cluster, begun from the snapshot:"
python3 objects.py 26444 "$objects" list
