//! Measuring Quorate beside other systems, and trying to break it.
//!
//! - [`floor`]: the least replicated program with the same I/O, which says how fast this machine
//!   could be at best;
//! - [`compare`]: interleaved runs of Quorate, etcd and the floor in one sitting;
//! - [`generator`]: who asks in them: our own clients, or etcd's official library;
//! - [`faults`]: clusters whose processes, links, clocks and disks are hurt under load, round after round, and what
//!   clients were told, checked; `bench rounds` and `bench chaos`;
//! - [`survive`]: what clusters serve while replicas are stopped, held against what their quorums
//!   promise, and what becomes of lost fragments;
//! - [`failover`]: leaders killed under load, and throughput over time;
//! - [`differential`]: the same random requests of a real etcd and of a cluster, and every answer
//!   compared;
//! - [`sizes`]: what a value costs in puts, bytes sent and bytes written, by its size, under
//!   several systems;
//! - [`ycsb`]: workloads of YCSB, by the number of client threads;
//! - [`large`]: what small puts feel of a large one that is always under way;
//! - [`commute`]: what it brings that writes of different keys may pass each other;
//! - [`wan`]: writes where replicas and clients are far from each other;
//! - [`clocks`]: clocks that go wrong under load, and are set right again;
//! - [`rings`]: what a message costs between threads, over UDP and over rings in memory;
//! - [`colocated`]: replicas of one process, joined by TCP, by UDP and by rings in memory;
//! - [`vary`]: clusters that differ in one option, in turns;
//! - [`protocols`]: all protocols beside each other, set up alike;
//! - [`cost`]: CPU time per put of builds or options, in turns, beside a control;
//! - [`ranges`]: many keys read page by page, and as a stream;
//! - [`attack`]: clients that mean harm, and what honest ones feel of them;
//! - [`repeats`]: writes that are executed twice because client libraries repeat them by themselves;
//! - [`redis`]: the face of Redis beside Redis alone, and beside Redis that waits for its replicas;
//! - [`redis_move`]: a Redis that is moved into a cluster under load, and out of it again;
//! - [`watchers`]: what many watches and connections do to puts and to memory.
//!
//! Load itself is `quorate-load`, whose commands `quorate-lab bench` has, too. The executable that holds this crate
//! mounts [`BenchCommand`] as its `bench` subcommand: some commands start the executable again as
//! `<executable> bench <hidden role>`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an outer ring: measuring needs clocks, threads and chance"
)]

pub mod attack;
pub mod clocks;
mod cluster;
pub mod colocated;
pub mod commute;
pub mod compare;
pub mod cost;
pub mod differential;
pub mod failover;
pub mod faults;
pub mod floor;
mod gateways;
pub mod generator;
mod go_client;
pub mod large;
pub mod members;
mod namespaces;
mod observe;
mod plain;
pub mod protocols;
pub mod ranges;
pub mod redis;
pub mod redis_move;
pub mod repeats;
pub mod rings;
mod serving;
pub mod sizes;
mod spread;
pub mod survive;
mod system_calls;
pub mod systems;
mod test_source;
mod timeline;
pub mod vary;
pub mod wan;
pub mod watchers;
pub mod ycsb;

use std::process::ExitCode;

use clap::Subcommand;

use quorate_load::{ended, finish};

/// The subcommands of `bench`.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchCommand {
    /// Measure the least replicated program with the same I/O on this machine
    #[command(after_help = FLOOR_EXAMPLES)]
    Floor(floor::FloorArgs),
    /// Compare Quorate, etcd and the floor, in turns, on this machine
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(compare::CompareArgs),
    /// Kill or pause replicas under load, round after round, and check all that clients saw
    #[command(after_help = ROUNDS_EXAMPLES)]
    Rounds(faults::rounds::RoundsArgs),
    /// Hurt replicas in every way this machine allows, under load, and check all that was told
    #[command(after_help = CHAOS_EXAMPLES)]
    Chaos(Box<faults::chaos::ChaosArgs>),
    /// Stop replicas, delete a folder, damage fragments, and hold what is served against the promise
    #[command(after_help = SURVIVE_EXAMPLES)]
    Survive(survive::SurviveArgs),
    /// Kill leaders under load: throughput over time, how soon writes go on, whether one was lost
    #[command(after_help = FAILOVER_EXAMPLES)]
    Failover(failover::FailoverArgs),
    /// Replace and add members under load: how long each change takes, and how long writes stand still
    #[command(after_help = MEMBERS_EXAMPLES)]
    Members(members::MembersArgs),
    /// Ask the same random things of a real etcd and of a cluster, and compare every answer
    #[command(after_help = DIFFERENTIAL_EXAMPLES)]
    Differential(differential::DifferentialArgs),
    /// Compare systems by the size of values: puts, bytes sent, bytes written
    #[command(after_help = SIZES_EXAMPLES)]
    Sizes(sizes::SizesArgs),
    /// Compare systems under workloads of YCSB, by the number of client threads
    #[command(after_help = YCSB_EXAMPLES)]
    Ycsb(ycsb::YcsbArgs),
    /// Put small values while a large one is always under way, and beside an equal CPU load
    #[command(after_help = LARGE_EXAMPLES)]
    Large(large::LargeArgs),
    /// Put beside thousands of watches, one of them far behind, and of idle connections
    #[command(after_help = WATCHERS_EXAMPLES)]
    Watchers(watchers::WatchersArgs),
    /// Attack a cluster as clients that mean harm do, and hold it to bounds: memory, descriptors, honest clients' puts
    #[command(after_help = ATTACK_EXAMPLES)]
    Attack(attack::AttackArgs),
    /// Write many keys of the plain face, with writes that may pass each other and with ones that may not
    #[command(after_help = COMMUTE_EXAMPLES)]
    Commute(commute::CommuteArgs),
    /// Write where replicas and clients are far from each other: real processes, their words held by a relay
    #[command(after_help = WAN_EXAMPLES)]
    Wan(wan::WanArgs),
    /// Set replicas' clocks wrong and right again under load: what clients saw, and when latency is back
    #[command(after_help = CLOCKS_EXAMPLES)]
    Clocks(clocks::ClocksArgs),
    /// Compare clusters that differ in one option of `quorate up`, in turns
    #[command(after_help = VARY_EXAMPLES)]
    Vary(vary::VaryArgs),
    /// Compare all protocols: what a lone write takes, and throughput and latency in virtual time and here
    #[command(after_help = PROTOCOLS_EXAMPLES)]
    Protocols(Box<protocols::ProtocolsArgs>),
    /// Compare the CPU time of a put under builds or options, in turns, beside one of them run twice
    #[command(after_help = COST_EXAMPLES)]
    Cost(cost::CostArgs),
    /// Read many keys page by page and as a stream, in turns: time, and memory of the servers
    #[command(after_help = RANGES_EXAMPLES)]
    Ranges(ranges::RangesArgs),
    /// Send messages between threads over UDP and over rings in memory: round trips, and rounds
    #[command(after_help = RINGS_EXAMPLES)]
    Rings(rings::RingsArgs),
    /// Put through replicas that share this process, joined by TCP, by UDP and by rings in memory, in turns
    #[command(after_help = COLOCATED_EXAMPLES)]
    Colocated(colocated::ColocatedArgs),
    /// Freeze most replicas under client programs of other libraries: writes that are executed twice
    #[command(after_help = REPEATS_EXAMPLES)]
    Repeats(repeats::RepeatsArgs),
    /// Compare the face of Redis with Redis alone and with Redis that waits for its replicas, in turns
    #[command(after_help = REDIS_EXAMPLES)]
    Redis(redis::RedisArgs),
    /// Measure what the papers of Rabia and Nezha show of Redis behind their protocols, beside what they publish
    #[command(after_help = REDIS_FIGURES_EXAMPLES)]
    RedisFigures(redis::figures::RedisFiguresArgs),
    /// Hurt replicas with the face of Redis under load, and check that one order explains all replies
    #[command(after_help = REDIS_ROUNDS_EXAMPLES)]
    RedisRounds(Box<faults::redis::RedisRoundsArgs>),
    /// Kill and freeze executors of real servers of Redis: how long a client has no answer
    #[command(after_help = REDIS_FAILOVER_EXAMPLES)]
    RedisFailover(Box<faults::redis::failover::RedisFailoverArgs>),
    /// Move a Redis with many keys into a cluster under load, and out of it again, and compare
    #[command(after_help = REDIS_MOVE_EXAMPLES)]
    RedisMove(Box<redis_move::RedisMoveArgs>),
    /// What `quorate-lab bench` has.
    #[command(flatten)]
    Own(quorate_load::BenchCommand),
    /// A role of another subcommand, started by it.
    #[command(flatten)]
    Role(Role),
}

/// Roles that other subcommands start as processes of their own.
#[derive(Debug, Clone, Subcommand)]
pub enum Role {
    /// The floor's leader.
    #[command(hide = true)]
    FloorLeader(floor::LeaderArgs),
    /// A follower of the floor.
    #[command(hide = true)]
    FloorFollower(floor::FollowerArgs),
    /// Uses CPU time.
    #[command(hide = true)]
    Spin(large::spin::SpinArgs),
    /// Puts values into hosts of this process.
    #[command(hide = true)]
    PutInMemory(protocols::PutInMemoryArgs),
}

/// Runs a subcommand: 0 when all went well, 1 when a check failed, 2 when it could not run.
pub fn run(command: BenchCommand) -> ExitCode {
    match command {
        BenchCommand::Floor(args) => finish(floor::run(&args), args.json),
        BenchCommand::Compare(args) => ended(compare::run(&args)),
        BenchCommand::Rounds(args) => faults::rounds::run(&args),
        BenchCommand::Chaos(args) => faults::chaos::run(&args),
        BenchCommand::Survive(args) => survive::run(&args),
        BenchCommand::Failover(args) => failover::run(&args),
        BenchCommand::Members(args) => members::run(&args),
        BenchCommand::Differential(args) => differential::run(&args),
        BenchCommand::Sizes(args) => sizes::run(&args),
        BenchCommand::Ycsb(args) => ycsb::run(&args),
        BenchCommand::Large(args) => ended(large::run(&args)),
        BenchCommand::Attack(args) => attack::run(&args),
        BenchCommand::Watchers(args) => watchers::run(&args),
        BenchCommand::Commute(args) => ended(commute::run(&args)),
        BenchCommand::Wan(args) => wan::run(&args),
        BenchCommand::Clocks(args) => clocks::run(&args),
        BenchCommand::Ranges(args) => ended(ranges::run(&args)),
        BenchCommand::Rings(args) => ended(rings::run(&args)),
        BenchCommand::Colocated(args) => ended(colocated::run(&args)),
        BenchCommand::Vary(args) => ended(vary::run(&args)),
        BenchCommand::Protocols(args) => ended(protocols::run(&args)),
        BenchCommand::Cost(args) => ended(cost::run(&args)),
        BenchCommand::Repeats(args) => repeats::run(&args),
        BenchCommand::Redis(args) => ended(redis::run(&args)),
        BenchCommand::RedisFigures(args) => ended(redis::figures::run(&args)),
        BenchCommand::RedisRounds(args) => faults::redis::run(&args),
        BenchCommand::RedisMove(args) => ended(redis_move::run(&args)),
        BenchCommand::RedisFailover(args) => faults::redis::failover::run(&args),
        BenchCommand::Own(command) => quorate_load::run(command),
        BenchCommand::Role(Role::FloorLeader(args)) => ended(floor::lead(&args)),
        BenchCommand::Role(Role::FloorFollower(args)) => ended(floor::follow(&args)),
        BenchCommand::Role(Role::PutInMemory(args)) => ended(protocols::put_in_memory(&args)),
        BenchCommand::Role(Role::Spin(args)) => ended(Err(large::spin::spin(&args))),
    }
}

const FLOOR_EXAMPLES: &str = "\
Examples:
  Three replicas, 64 clients, every batch flushed:
    quorate-lab bench floor --clients 64
  Without the disk:
    quorate-lab bench floor --clients 64 --sync none";

const COMPARE_EXAMPLES: &str = "\
Examples:
  Everything, five times in turn (about ten minutes):
    scripts/build-etcd.sh && quorate-lab bench compare
  A first impression:
    quorate-lab bench compare --pairs 1 --clients 1,64 --duration 2s
  With etcd's official client, one connection each, and everything that bounds are held against (half an hour):
    scripts/build-etcd.sh && scripts/build-load-go.sh && quorate-lab bench compare --client go --conns 64,256 \\
      --system-calls --long-values --million --json compare.json --plot compare.svg";

const ROUNDS_EXAMPLES: &str = "\
Examples:
  One replica killed at a time, twenty times, each coming back and catching up:
    quorate-lab bench rounds --kind kill-one
  All killed at once in the middle of writing, on the disk to test:
    quorate-lab bench rounds --kind kill-all --data-dir /var/tmp
  Every kind in a short form, as part of a test:
    quorate-lab bench rounds --kind kill-one,kill-all,pause --rounds 2 --load-seconds 1 --pause 2s";

const CHAOS_EXAMPLES: &str = "\
Examples:
  Fifty rounds of everything, about ten minutes:
    quorate-lab bench chaos
  The disk alone, the same again with the seed that was printed:
    quorate-lab bench chaos --rounds 10 --faults disk-full,corrupt,wipe --seed 77
  A short form, as part of a test:
    quorate-lab bench chaos --rounds 2 --load-seconds 3";

const SURVIVE_EXAMPLES: &str = "\
Examples:
  Five replicas, values cut into fragments of which three rebuild them, about five minutes:
    quorate-lab bench survive
  With quorums of a majority, stops alone:
    quorate-lab bench survive --profile flex --parts stops
  Whole values:
    quorate-lab bench survive --protocol multi-paxos";

const FAILOVER_EXAMPLES: &str = "\
Examples:
  RS-Paxos and Multi-Paxos under two loads, with a picture, about two minutes:
    quorate-lab bench failover --plot failover.svg
  One of them, large values:
    quorate-lab bench failover --alone --loads write --val-size 256KiB
  Each replica in its turn, ten runs beside ten without faults:
    quorate-lab bench failover --alone --loads write --protocol chora --replicas 3 --victims turn --pairs 10 --keep 0.9";

const MEMBERS_EXAMPLES: &str = "\
Examples:
  All three machines die and are replaced, one after the other, three times round:
    quorate-lab bench members --plan replace --rounds 3
  From three members to five, to seven, and back, under RS-Paxos:
    quorate-lab bench members --plan resize --protocol rs-paxos
  From three proposers to one and back, three times:
    quorate-lab bench members --plan proposers --protocol chora";

const DIFFERENTIAL_EXAMPLES: &str = "\
Examples:
  Twenty sequences of 400 steps:
    scripts/build-etcd.sh && quorate-lab bench differential --seeds 0..20
  Against what etcd did when it was recorded:
    quorate-lab bench differential --replay lab/cli/tests/recorded/etcd-3.7.json";

const SIZES_EXAMPLES: &str = "\
Examples:
  Everything, in three turns (about ten minutes, up to 4 GiB of disk):
    quorate-lab bench sizes --json sizes.json --plot sizes.svg
  A first impression:
    quorate-lab bench sizes --sizes 64KiB,1MiB --pairs 1 --seconds 2
  Where the links bind:
    quorate-lab bench sizes --sizes 64KiB,1MiB --link 200Mbit
  Where memory is the disk, to see what else binds:
    quorate-lab bench sizes --sizes 64KiB --pairs 10 --data-dir /dev/shm";

const YCSB_EXAMPLES: &str = "\
Examples:
  Large records, each replica behind a link of its own (about five minutes):
    quorate-lab bench ycsb --systems racos,rs-paxos --val-size 1362KiB --link 1Gbit --plot ycsb.svg
  Small ones, beside etcd:
    quorate-lab bench ycsb --systems rabia,etcd --whole-replicas 3 --records 10000 --workload b";

const LARGE_EXAMPLES: &str = "\
Examples:
  64 MiB beside 256 B, in three turns of three phases (about four minutes):
    quorate-lab bench large
  Smaller, and uncoded:
    quorate-lab bench large --large 4MiB --system multi-paxos --turns 1 --seconds 5s";

const COMMUTE_EXAMPLES: &str = "\
Examples:
  Nezha, with three loads (about three minutes):
    quorate-lab bench commute
  Through two remote gateways, fewer and more clients, keys chosen more evenly:
    quorate-lab bench commute --gateways 2 --clients 4,64 --skew 0.5
  A first impression:
    quorate-lab bench commute --clients 24 --rounds 1 --duration 3s
  On the disk, few keys:
    quorate-lab bench commute --durability disk --keys 1000";

const WAN_EXAMPLES: &str = "\
Examples:
  Three replicas on three continents, clients on both coasts of a fourth place, about four minutes:
    quorate-lab bench wan --map docs/results/wan.toml --replicas eu-north,asia-northeast,sa-east \\
      --clients us-east,us-west
  One protocol, for a first impression:
    quorate-lab bench wan --map docs/results/wan.toml --replicas us-east,us-west,eu-north --clients eu-north \\
      --systems nezha --duration 3s";

const CLOCKS_EXAMPLES: &str = "\
Examples:
  An hour ahead and an hour back, each replica of three in its turn, nine times (about three minutes):
    quorate-lab bench clocks
  Half a millisecond, for long:
    quorate-lab bench clocks --off 500us --phase 10s --rounds 3";

const ATTACK_EXAMPLES: &str = "\
Examples:
  All attacks:
    quorate-lab bench attack
  More idle connections than a replica may have open files:
    quorate-lab bench attack --kind idle --connections 1300 --descriptors 1024";

const WATCHERS_EXAMPLES: &str = "\
Examples:
  Ten thousand watches, each put seen by ten of them:
    quorate-lab bench watchers
  Ten thousand idle connections as well:
    quorate-lab bench watchers --connections 10000
  The same of etcd:
    quorate-lab bench watchers --etcd target/etcd/etcd";

const RANGES_EXAMPLES: &str = "\
Examples:
  A million keys:
    quorate-lab bench ranges
  The same of etcd:
    quorate-lab bench ranges --etcd target/etcd/etcd";

const VARY_EXAMPLES: &str = "\
Examples:
  UDP between replicas beside TCP, under three protocols, in memory:
    quorate-lab bench vary --option peer-transport=tcp,udp --protocols chora,nezha,multi-paxos \\
      --quorate-option=--durability=memory
  One thread for each replica beside two, at many clients:
    quorate-lab bench vary --option layout=fused,threaded --clients 64,256
  Nezha's local gateways and remote ones, beside protocols that have none:
    quorate-lab bench vary --option gateways=0,2 --varied nezha --protocols nezha,multi-paxos,rabia \\
      --clients 1,8,32,128";

const PROTOCOLS_EXAMPLES: &str = "\
Examples:
  All protocols, and yardsticks, which the program must have for that (about half an hour):
    cargo build --profile dist -p quorate-cli --features yardsticks
    quorate-lab bench protocols --quorate target/dist/quorate --json protocols.json --plot protocols.svg
  Two of them in virtual time, without processes:
    quorate-lab bench protocols --protocols nezha,fast-paxos --no-processes";

const COST_EXAMPLES: &str = "\
Examples:
  Two builds of the program:
    quorate-lab bench cost --variant dist=program=target/dist/quorate \\
      --variant release=program=target/release/quorate
  One option, with one client and with 64:
    quorate-lab bench cost --variant fused --variant 'threaded=--layout=threaded' --clients 1,64
  Two builds under gets of etcd's official client:
    quorate-lab bench cost --client go --workload get --variant old=program=old/quorate --variant new";

const RINGS_EXAMPLES: &str = "\
Examples:
  Two and three threads; who polls needs a core:
    quorate-lab bench rings
  Seven threads that are woken:
    quorate-lab bench rings --threads 7 --ways udp-woken,rings-woken";

const COLOCATED_EXAMPLES: &str = "\
Examples:
  Chora and Multi-Paxos, three replicas (about two minutes):
    quorate-lab bench colocated
  Every replica and all clients in one thread:
    quorate-lab bench colocated --layouts fused --protocols rabia";

const REPEATS_EXAMPLES: &str = "\
Examples:
  Every protocol and etcd, with Go, Python, Node and Java (about half an hour):
    scripts/repeats.sh
  One client of one's own under one protocol:
    quorate-lab bench repeats --systems rabia --client 'mine=./my-client --quiet' --once mine";

const REDIS_EXAMPLES: &str = "\
Examples:
  In memory, then on the disk (about half an hour each):
    quorate-lab bench redis
    quorate-lab bench redis --durability disk
  A first impression:
    quorate-lab bench redis --turns 1 --duration 2s --runs set:60,set:1 --systems redis,wait-2,rabia,effects-rabia
  Two builds of the program:
    quorate-lab bench redis --systems rabia,rabia-other --other target/dist/quorate --runs set:60,set:60x16";

const REDIS_FIGURES_EXAMPLES: &str = "\
Examples:
  The page and its picture (about twenty minutes):
    quorate-lab bench redis-figures --page docs/results/figures-redis.md --plots docs/results
  A first impression of one figure:
    quorate-lab bench redis-figures --figures nezha-12 --turns 1 --duration 2s";

const REDIS_ROUNDS_EXAMPLES: &str = "\
Examples:
  A hundred rounds of five kinds under one protocol, on the disk to test (about ten minutes):
    quorate-lab bench redis-rounds --protocol multi-paxos --data-dir /var/tmp
  One kind, the same again with the seed that was printed:
    quorate-lab bench redis-rounds --kind wipe --rounds 10 --seed 77
  Over real servers, which are hurt as well:
    quorate-lab bench redis-rounds --redis-server --kind kill,pause,wipe,switch,members,kill-server,pause-server
    quorate-lab bench redis-rounds --redis-server --kind partition
  Over real servers, each of which carries out every command:
    quorate-lab bench redis-rounds --redis-server --redis-mode commands";

const REDIS_FAILOVER_EXAMPLES: &str = "\
Examples:
  Twenty executors killed, and twenty frozen, with the first server in PATH (about a minute):
    quorate-lab bench redis-failover --protocol rabia";

const REDIS_MOVE_EXAMPLES: &str = "\
Examples:
  A million keys, with the first server in PATH (some minutes):
    quorate-lab bench redis-move
  A first impression:
    quorate-lab bench redis-move --keys 20000 --following 1s";
