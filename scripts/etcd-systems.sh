# Sourced by scripts that hold Quorate against a real etcd: where the programs are, and systems that run on free ports
# with data of their own, until the script ends.
#
#   ETCD=FOLDER     has etcd, etcdctl and etcdutl [target/etcd, where scripts/build-etcd.sh puts them]
#   QUORATE=PATH    the program [target/release/quorate]
#
# Sets `etcd`, `ctl`, `utl`, `quorate`, and `work`, a folder that is removed in the end. In `pids` are the processes
# that are stopped in the end.
# shellcheck shell=bash disable=SC2034

script=$(basename "$0" .sh)
etcd_folder=${ETCD:-target/etcd}
# The executable itself may be named, too.
[[ ! -f $etcd_folder ]] || etcd_folder=$(dirname "$etcd_folder")
etcd_folder=$(realpath -m "$etcd_folder")
etcd=$etcd_folder/etcd ctl=$etcd_folder/etcdctl utl=$etcd_folder/etcdutl
quorate=$(realpath -m "${QUORATE:-target/release/quorate}")
readonly script etcd_folder etcd utl quorate

# Ends the script with a reason.
fail() {
  echo "$script: $*" >&2
  exit 1
}

# Ends the script unless all of these can be started.
need() {
  local program
  for program in "$@"; do
    [[ -x $program ]] || fail "there is no program $program"
  done
}

work=$(mktemp -d)
readonly work
pids=()

# Ends the process started last.
stop_last() {
  kill "${pids[-1]}" 2>/dev/null || true
  wait "${pids[-1]}" 2>/dev/null || true
  unset 'pids[-1]'
}

stop_all() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  pids=()
}
trap 'stop_all; rm -rf "$work"' EXIT

# The first of `$1` free ports in a row.
free_ports() {
  local base port
  while :; do
    base=$((RANDOM % 19000 + 12000))
    for ((port = base; port < base + $1; port++)); do
      if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then continue 2; fi
    done
    echo "$base"
    return
  done
}

# Waits until a command works, for half a minute; what it said the last time is in `$work/said.txt`.
eventually() {
  local deadline=$((SECONDS + 30))
  until "$@" >"$work/said.txt" 2>&1; do
    if ((SECONDS >= deadline)); then return 1; fi
    read -rt 0.1 <> <(:) || true
  done
}

# Waits until an endpoint answers reads, or ends the script with the last words of a log. It may have alarms.
await_reads() {
  eventually "$ctl" --endpoints "$1" --command-timeout 1s get none ||
    fail "$1 answers no reads; see its log: $(tail -5 "$2")"
}

# Starts a real etcd on a data folder, with further options. Sets `endpoint`, and `endpoints` to that one.
start_etcd() {
  local dir=$1 port log=$work/etcd.log
  shift
  port=$(free_ports 2)
  endpoint=http://127.0.0.1:$port
  endpoints=("$endpoint")
  "$etcd" --data-dir "$dir" --log-level error "$@" \
    --listen-client-urls "$endpoint" --advertise-client-urls "$endpoint" \
    --listen-peer-urls "http://127.0.0.1:$((port + 1))" \
    --initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" \
    --initial-cluster "default=http://127.0.0.1:$((port + 1))" >"$log" 2>&1 &
  pids+=($!)
  await_reads "$endpoint" "$log"
}

# Starts a cluster of three replicas in a folder, with further options. Sets `endpoints`, and `endpoint` to the second.
start_quorate() {
  local dir=$1 port log=$work/quorate.log
  shift
  port=$(free_ports 6)
  "$quorate" up --data-dir "$dir" --port "$port" --log-level warn "$@" >"$log" 2>&1 &
  pids+=($!)
  endpoints=("http://127.0.0.1:$port" "http://127.0.0.1:$((port + 2))" "http://127.0.0.1:$((port + 4))")
  for endpoint in "${endpoints[2]}" "${endpoints[0]}" "${endpoints[1]}"; do
    await_reads "$endpoint" "$log"
  done
}
