#!/usr/bin/env bash
# The proving ground of one protocol: so many seeds, spread over its configurations and what goes wrong. Takes
# hours: rounds of 20 seeds each, so that what is interrupted has tried everything alike.
#
#   scripts/seeds.sh racos 20000            # or nezha, chora, rs-paxos, raft, multi-paxos, rabia
#   scripts/seeds.sh racos 20000 1000000    # from this seed on
#   PROFILES="swarm,users swarm,users,epochs,switches" scripts/seeds.sh racos 834    # other profiles than these
#
# One line for each 20 seeds; of those that fail, how to repeat them. Exits 1 if one did.
set -euo pipefail
cd "$(dirname "$0")/.."

protocol=${1:?which protocol}
count=${2:?how many seeds}
first=${3:-0}
each=20
lab=${LAB:-target/release/quorate-lab}

coded="--param payload_min=1"
case $protocol in
  racos)
    setups=("--replicas 5 --code 5,3" "--replicas 4 --code 4,2" "--replicas 5 --code 5,2" "--replicas 7 --code 7,3"
      "--replicas 7 --code 7,4" "--replicas 7 --code 7,3 --param f=1" "--replicas 5 --code 5,3 --param merged=true"
      "--replicas 5 --code 5,3 --param adaptive=true" "--replicas 5 --code 5,3 --param adaptive=true --param f=2")
    setups=("${setups[@]/%/ $coded}")
    ;;
  rs-paxos)
    setups=("--replicas 3 --code 3,1" "--replicas 5 --code 5,3" "--replicas 7 --code 7,3" "--replicas 7 --code 7,5")
    setups=("${setups[@]/%/ $coded}")
    ;;
  nezha)
    setups=("--replicas 3" "--replicas 5" "--replicas 7" "--replicas 3 --param wan=true --param rtt_us=20000"
      "--replicas 5 --param wan=true --param rtt_us=20000")
    ;;
  chora)
    setups=("--replicas 3" "--replicas 5" "--replicas 7" "--replicas 3 --param mode=random"
      "--replicas 5 --param mode=random" "--replicas 7 --param mode=random" "--replicas 5 --param proposers=1"
      "--replicas 5 --param mode=pulsing")
    ;;
  epaxos)
    setups=("--replicas 3" "--replicas 5" "--replicas 3 --param toq_us=200" "--replicas 5 --param toq_us=1000"
      "--replicas 5 --param thrifty=true")
    ;;
  *) setups=("--replicas 3" "--replicas 5") ;;
esac
profiles=(swarm swarm,settings swarm,epochs swarm,epochs,switches old-copies swarm,old-copies)
if [ "$protocol" = nezha ]; then profiles+=(swarm,gateways swarm,gateways,settings); fi
if [ -n "${PROFILES:-}" ]; then read -ra profiles <<<"$PROFILES"; fi
runs=()
for profile in "${profiles[@]}"; do
  for setup in "${setups[@]}"; do runs+=("$setup --profile $profile"); done
done
# Writes of different keys pass each other.
if [ "$protocol" = nezha ] && [ -z "${PROFILES:-}" ]; then
  for profile in swarm swarm,gateways swarm,gateways,settings swarm,gateways,epochs,switches; do
    for replicas in 3 5; do runs+=("--replicas $replicas --store plain --profile $profile"); done
  done
fi
if [ "$protocol" = epaxos ] && [ -z "${PROFILES:-}" ]; then
  for profile in swarm swarm,settings swarm,epochs; do
    for setup in "${setups[@]}"; do runs+=("$setup --store plain --profile $profile"); done
  done
fi
# Replicas without disks, of those that can do without.
if [[ $protocol =~ ^(nezha|rabia|raft)$ && -z ${PROFILES:-} ]]; then
  for profile in swarm swarm,settings; do
    for replicas in 3 5 7; do runs+=("--replicas $replicas --durability memory --profile $profile"); done
  done
fi

rounds=$(((count + each * ${#runs[@]} - 1) / (each * ${#runs[@]})))
echo "$protocol: $((rounds * each * ${#runs[@]})) seeds, ${#runs[@]} setups, $rounds rounds"
failed=0
passed=0
for ((round = 0; round < rounds; round++)); do
  from=$((first + round * each))
  for run in "${runs[@]}"; do
    # Words, on purpose.
    # shellcheck disable=SC2086
    if out=$("$lab" sim --protocol "$protocol" $run --seeds "$from..$((from + each))" 2>&1); then
      passed=$((passed + each))
      echo "$passed passed: $run --seeds $from..$((from + each)): $(tail -1 <<<"$out" | grep -o 'ops=[0-9]*')"
    else
      failed=1
      echo "FAILED: $run --seeds $from..$((from + each))"
      grep -v '^ *[0-9]' <<<"$out" | head -40
    fi
  done
done
echo "$protocol: $passed seeds passed"
exit $failed
