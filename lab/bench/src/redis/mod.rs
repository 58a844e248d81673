//! `bench redis`: the face of Redis beside what it stands in for, in turns.
//!
//! One client program asks all systems: clients in a closed loop, each of which sends so many commands at once and
//! waits for their replies. A Redis that is replicated synchronously gets a `WAIT` behind each batch in the same
//! pipeline, as in the paper of Rabia (its Sync-Rep). `WAIT` neither elects a new master nor makes reads linearizable,
//! and a replica that falls out loses what was acknowledged if the master dies then.

mod clients;
pub mod figures;
mod servers;
mod system;
mod table;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use clients::Load;
use quorate_load::latency::LatencySummary;
use quorate_tooling::program::Place;
use quorate_tooling::units;
use system::{Started, System};
use workload::{Cell, DataShape};

/// What `bench redis` can be told.
#[derive(Debug, Clone, Args)]
pub struct RedisArgs {
    /// What to compare, separated by commas: redis, wait-N (a master with N replicas, and WAIT N behind each batch), or
    /// a protocol of Quorate. With effects- before its name the data is in real servers, and clients go to the replica
    /// that executes, with -spread behind it to all replicas; with commands- before it each replica's server carries
    /// out all commands; with -other behind all that it is run by the program of --other
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "redis,wait-1,wait-2,rabia,multi-paxos,nezha,effects-rabia,effects-multi-paxos",
        value_parser = System::parse
    )]
    systems: Vec<System>,
    /// What clients do, separated by commas: set, get, hash (YCSB's workload A with HMSET and HGETALL) or batch (MSET
    /// and MGET), a colon, the number of clients, and xN if each sends N commands at once, or N keys in one of batch,
    /// each of which counts
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "set:60,set:60x16,set:60x64,get:60,get:60x64,set:1,get:1,hash:20",
        value_parser = Cell::parse
    )]
    runs: Vec<Cell>,
    /// What survives a crash of all servers: with disk, Redis has an append-only file that it syncs always
    #[arg(long, value_enum, default_value_t = Durability::Memory)]
    durability: Durability,
    /// Replicas of Quorate's clusters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    replicas: u8,
    /// The replicas of Quorate's that clients go to, where those are not executors: the first so many; 0 for all
    #[arg(long, default_value_t = 0)]
    asked: usize,
    /// How often every system gets its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    turns: u16,
    /// Measured time of each run
    #[arg(long, default_value = "3s", value_parser = units::duration)]
    duration: Duration,
    /// Load before each measurement
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    warmup: Duration,
    /// Bytes per value of set, get and batch
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    val_size: usize,
    /// Bytes per field of hash, of which a record has ten
    #[arg(long, default_value = "100", value_parser = units::bytes)]
    field_size: usize,
    /// Keys of set, get and batch
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// How much more often some keys of hash are chosen: the i-th as often as 1 / i^SKEW says
    #[arg(long, default_value_t = 0.99)]
    skew: f64,
    /// The Redis executable
    #[arg(long, env = "REDIS_SERVER", default_value = "redis-server")]
    redis_server: PathBuf,
    /// Another build of Quorate, to compare with
    #[arg(long, value_name = "FILE")]
    other: Option<PathBuf>,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    quorate_option: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Also write the table to this file, in Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Also write everything to this file as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What survives a crash of all servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Durability {
    /// Nothing of the state survives.
    Memory,
    /// Every write that was acknowledged survives.
    Disk,
}

impl Durability {
    fn name(self) -> &'static str {
        match self {
            Durability::Memory => "memory",
            Durability::Disk => "disk",
        }
    }
}

/// What one run measured.
#[derive(Debug, Clone, Serialize)]
struct Run {
    turn: u16,
    system: System,
    cell: Cell,
    per_second: f64,
    /// From sending a batch to its last reply.
    latency: LatencySummary,
    /// CPU time of all server processes together, per command.
    server_cpu_us: f64,
    /// How often server processes slept and were woken, per command.
    server_wakeups: f64,
    /// CPU time of the clients, per command.
    client_cpu_us: f64,
}

/// Makes all runs and prints a table.
pub fn run(args: &RedisArgs) -> Result<(), String> {
    quorate_tooling::cleanup::on_interrupt();
    let runs = measure_all(args)?;
    let found = table::Found::new(args, &runs);
    print!("{found}");
    if let Some(path) = &args.markdown {
        units::write(path, &found.markdown())?;
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_string(&runs).map_err(|error| error.to_string())?;
        units::write(path, &(json + "\n"))?;
    }
    Ok(())
}

/// All turns of all systems.
fn measure_all(args: &RedisArgs) -> Result<Vec<Run>, String> {
    check(args)?;
    let mut runs = Vec::new();
    for turn in 0..args.turns {
        // Whoever comes first finds the machine as the other left it.
        let mut systems: Vec<&System> = args.systems.iter().collect();
        if turn % 2 == 1 {
            systems.reverse();
        }
        for system in systems {
            measure(args, turn, system, &mut runs)?;
        }
    }
    Ok(runs)
}

fn check(args: &RedisArgs) -> Result<(), String> {
    if args.asked > args.replicas.into() {
        return Err("--asked: there are not so many replicas".to_owned());
    }
    let is_other = |system: &System| matches!(system, System::Quorate { is_other: true, .. });
    if args.systems.iter().any(is_other) && args.other.is_none() {
        return Err("--systems names another build: say which with --other".to_owned());
    }
    Ok(())
}

/// One system's turn: all runs, one after the other.
fn measure(
    args: &RedisArgs,
    turn: u16,
    system: &System,
    runs: &mut Vec<Run>,
) -> Result<(), String> {
    let mut started = Started::start(args, system)?;
    for cell in &args.runs {
        let load = Load {
            cell: *cell,
            servers: &started.servers,
            pids: &started.pids(),
            wait_for: started.wait_for,
            data: DataShape {
                val_size: args.val_size,
                field_size: args.field_size,
                keys: args.keys,
                skew: args.skew,
            },
            warmup: args.warmup,
            duration: args.duration,
        };
        let done = load.run().map_err(|why| format!("{system}: {why}"))?;
        started.check_alive()?;
        let commands = done.commands.max(1) as f64;
        let run = Run {
            turn,
            system: system.clone(),
            cell: *cell,
            per_second: done.commands as f64 / args.duration.as_secs_f64(),
            latency: done.latency.summary(),
            server_cpu_us: done.servers.cpu_us as f64 / commands,
            server_wakeups: done.servers.wakeups as f64 / commands,
            client_cpu_us: done.own.cpu_us as f64 / commands,
        };
        eprintln!(
            "turn {} of {}: {system}, {cell}: {}/s, {:.1} us of CPU",
            turn + 1,
            args.turns,
            units::show_count(run.per_second),
            run.server_cpu_us,
        );
        runs.push(run);
    }
    Ok(())
}
