#!/usr/bin/env bash
# Three typical configurations of etcd, started unchanged with a real etcd and with Quorate, and the same etcdctl
# session against both: what is printed has to be the same, line by line, numbers of members and leases aside.
#
#   scripts/etcd-configs.sh               # all of them
#   scripts/etcd-configs.sh single tls    # some of them: single, tls, srv
#
#   single   one member, as etcd's first page starts it
#   tls      three static members with mutual TLS for clients and peers
#   srv      three members that a domain's SRV records list, with users
#
# Needs what scripts/etcd-systems.sh says, openssl, and for srv python3.
# Runs in namespaces of its own: every system has etcd's own ports, and names of its own.
set -uo pipefail
cd "$(dirname "$0")/.."
if [[ -z ${INSIDE:-} ]]; then
  INSIDE=yes exec unshare --user --map-root-user --mount --net "$0" "$@"
fi
ip link set lo up

. scripts/etcd-systems.sh
need "$etcd" "$ctl" "$quorate"
trap 'stop_all; [[ -z ${dns:-} ]] || kill "$dns"; rm -rf "$work"' EXIT
ln -s "$quorate" "$work/etcd"

# Starts a member in the folder of its system: the program, and etcd's own options.
member() {
  local program=$1 name=$2
  shift 2
  "$program" --name "$name" "$@" >>"$name.log" 2>&1 &
  pids+=("$!")
}

# Waits until a command works, or shows the last words of the logs.
await() {
  eventually "$@" && return
  echo "etcd-configs: never worked: $*" >&2
  tail -3 ./*.log >&2
  return 1
}

# Runs a command of etcdctl and prints the command and what it says, without what differs from start to start.
# A member of an etcd may be asked before it has heard of a token: then etcdctl says so, and logs in again.
say() {
  echo "\$ etcdctl $*"
  "$ctl" "${options[@]}" "$@" 2>&1 | sed -E \
    -e 's/^\{.*"error":"(.*)"\}$/\1/' -e '/^rpc error: .* etcdserver: invalid auth token$/d' \
    -e 's/"(ts|endpoint)":"[^"]*"//g' \
    -e 's/lease [0-9a-f]+/lease N/' -e 's/took = [0-9.]+[a-zµ]+/took = T/' \
    -e 's/^[0-9a-f]+, (started|unstarted)/N, \1/' -e 's/[Mm]ember +[0-9a-f]{2,16}/member N/'
}

# What people do on the first day.
session() {
  say put greeting hello
  say get greeting
  say put greeting world --prev-kv
  say get greeting --rev 2
  say get --prefix '' --keys-only
  say del greeting --prev-kv
  printf 'mod("k") = "0"\n\nput k made\n\nget k\n\n' | say txn -i
  say get k -w fields | grep -v -e ID -e Term
  say lease grant 100
  say compaction 2
  say get k --rev 1
  say endpoint health | sort
  say member list | sort
  say alarm list
}

single() {
  options=(--command-timeout 10s)
  member "$1" s1 --data-dir data
  await "$ctl" endpoint health || return
  session
}

tls() {
  local n host cluster=m0=https://127.0.0.1:2380,m1=https://127.0.0.2:2380,m2=https://127.0.0.3:2380
  local keys=$work/keys
  options=(--command-timeout 10s --cacert "$keys/ca.pem" --cert "$keys/node.pem" --key "$keys/node.key"
    --endpoints https://127.0.0.1:2379,https://127.0.0.2:2379,https://127.0.0.3:2379)
  for n in 0 1 2; do
    host=127.0.0.$((n + 1))
    member "$1" "m$n" --data-dir "data$n" --initial-cluster "$cluster" --initial-cluster-token tkn \
      --initial-cluster-state new \
      --listen-peer-urls "https://$host:2380" --initial-advertise-peer-urls "https://$host:2380" \
      --listen-client-urls "https://$host:2379" --advertise-client-urls "https://$host:2379" \
      --client-cert-auth --trusted-ca-file "$keys/ca.pem" --cert-file "$keys/node.pem" --key-file "$keys/node.key" \
      --peer-client-cert-auth --peer-trusted-ca-file "$keys/ca.pem" --peer-cert-file "$keys/node.pem" \
      --peer-key-file "$keys/node.key"
  done
  await "$ctl" "${options[@]}" endpoint health || return
  await names_are_known || return
  session
  # Nobody without a certificate gets in.
  options=(--command-timeout 2s --cacert "$keys/ca.pem" --endpoints https://127.0.0.1:2379)
  say get greeting >/dev/null && echo "without a certificate: in" || echo "without a certificate: refused"
}

srv() {
  local n host
  options=(--command-timeout 10s
    --endpoints http://a.example.test:2379,http://b.example.test:2379,http://c.example.test:2379)
  for n in a b c; do
    host=$n.example.test
    member "$1" "infra-$n" --data-dir "data-$n" --discovery-srv example.test --initial-cluster-token tkn \
      --initial-advertise-peer-urls "http://$host:2380" --initial-cluster-state new \
      --listen-peer-urls "http://$(address $n):2380" --listen-client-urls "http://$(address $n):2379" \
      --advertise-client-urls "http://$host:2379"
  done
  await "$ctl" "${options[@]}" endpoint health || return
  await names_are_known || return
  session
  say user add root:secret
  say role add root
  say user grant-role root root
  say auth enable
  say get k
  options+=(--user root:secret)
  say user add ann:pass
  say role add keys
  say role grant-permission keys --prefix=true readwrite keys/
  say user grant-role ann keys
  say user get ann
  say role get keys
  options=("${options[@]/root:secret/ann:pass}")
  say put keys/1 one
  say get keys/1
  say put other two
  say get --prefix ''
  say user add bob:pass
  options=("${options[@]/ann:pass/ann:wrong}")
  say get keys/1
  options=("${options[@]/ann:wrong/root:secret}")
  say user delete ann
  say auth status
  say auth disable
}

# The address behind a name of the domain.
address() {
  case $1 in
    a) echo 127.0.0.1 ;;
    b) echo 127.0.0.2 ;;
    c) echo 127.0.0.3 ;;
  esac
}

names_are_known() { [[ $("$ctl" "${options[@]}" member list | grep -c ', started, ') == 3 ]]; }

make_keys() {
  mkdir "$work/keys"
  cd "$work/keys" || exit 2
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem 2>/dev/null
  openssl req -newkey rsa:2048 -nodes -subj /CN=root -keyout node.key -out node.csr 2>/dev/null
  printf 'subjectAltName=IP:127.0.0.1,IP:127.0.0.2,IP:127.0.0.3\nextendedKeyUsage=serverAuth,clientAuth\n' >node.ext
  openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile node.ext \
    -out node.pem 2>/dev/null
  cd - >/dev/null || exit 2
}

# A server for names that knows one domain: the addresses of a, b and c, and where their peer ports are.
start_dns() {
  echo "nameserver 127.0.0.53" >"$work/resolv.conf"
  mount --bind "$work/resolv.conf" "$(realpath /etc/resolv.conf)"
  python3 - <<'PYTHON' &
import socket, struct
domain = "example.test"
hosts = {f"{name}.{domain}": n for n, name in enumerate("abc", 1)}
def encoded(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.53", 53))
while True:
    question, caller = server.recvfrom(512)
    at, labels = 12, []
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode())
        at += 1 + question[at]
    end = at + 5
    name, kind = ".".join(labels).lower(), struct.unpack(">H", question[at + 1:at + 3])[0]
    records = []
    if kind == 1 and name in hosts:
        records = [bytes([127, 0, 0, hosts[name]])]
    elif kind == 33 and name == f"_etcd-server._tcp.{domain}":
        records = [struct.pack(">HHH", 0, 0, 2380) + encoded(host) for host in hosts]
    known = name in hosts or records
    head = question[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, len(records), 0, 0)
    body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(r)) + r for r in records)
    server.sendto(head + question[12:end] + body, caller)
PYTHON
  dns=$!
  await getent hosts a.example.test
}

which=("$@")
[[ $# -gt 0 ]] || which=(single tls srv)
failed=0
for config in "${which[@]}"; do
  case $config in
    tls) make_keys ;;
    srv) start_dns ;;
  esac
  for system in etcd quorate; do
    mkdir -p "$work/$config/$system"
    cd "$work/$config/$system" || exit 2
    program=$etcd
    [[ $system == etcd ]] || program=$work/etcd
    if ! "$config" "$program" >"../$system.out"; then
      echo "etcd-configs: $config: $system did not come to the end" >&2
      failed=1
    fi
    stop_all
    cd - >/dev/null || exit 2
  done
  lines=$(wc -l <"$work/$config/etcd.out")
  if diff "$work/$config/etcd.out" "$work/$config/quorate.out"; then
    echo "etcd-configs: $config: $lines lines are the same"
  else
    echo "etcd-configs: $config: the lines above differ (< etcd, > Quorate)" >&2
    failed=1
  fi
done
exit $failed
