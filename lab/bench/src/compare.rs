//! `bench compare`: Quorate, etcd and the floor in turns, in one sitting.
//!
//! Machines drift: the same run repeated within the hour can differ by a third with nothing to
//! show for it. Only runs that alternate say which system is faster, so every system gets its
//! turn before any gets its second, and ratios are taken between runs of the same turn.

mod equal_load;
mod gates;
mod long_values;
mod plot;
mod standing;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::cluster::{Cluster, need_etcd};
use crate::floor::{self, FloorArgs, Sync};
use crate::generator::{ClientKind, Generator};
pub use gates::Gate;
use quorate_load::load::{Job, LoadArgs, ReadArgs, VerifyArgs};
use quorate_load::report::Report;
use quorate_tooling::program::Place;
use quorate_tooling::units;
pub use standing::{Idle, Many, Standing};

/// What `bench compare` can be told.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// What to compare, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "quorate,etcd,floor"
    )]
    pub systems: Vec<System>,
    /// How often every system gets its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub pairs: u16,
    /// Numbers of clients, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256")]
    pub clients: Vec<u32>,
    /// The clients that ask in closed loops.
    #[command(flatten)]
    pub generator: Generator,
    /// Most connections that the clients share, separated by commas, each in its turn
    /// [default: 16, with --client go 64]
    #[arg(long, value_delimiter = ',')]
    pub conns: Vec<u32>,
    /// Bytes per value
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    pub val_size: usize,
    /// Measured time of each run
    #[arg(long, default_value = "5s", value_parser = units::duration)]
    pub duration: Duration,
    /// Load before each measurement
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    pub warmup: Duration,
    /// Replicas of each system
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub replicas: u8,
    /// The protocol that Quorate runs
    #[arg(long, default_value = "rabia")]
    pub protocol: String,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub quorate_option: Vec<String>,
    /// The etcd executable, as built by scripts/build-etcd.sh
    #[arg(long, default_value = "target/etcd/etcd")]
    pub etcd: PathBuf,
    /// The program to start, and the directory for its data.
    #[command(flatten)]
    pub place: Place,
    /// What clients do, separated by commas; the floor only takes puts
    #[arg(long, value_enum, value_delimiter = ',', default_value = "put,get")]
    pub workloads: Vec<Workload>,
    /// Also measure latency at the same offered load: this share of etcd's (or else Quorate's) own
    /// most puts per second; 0 leaves it out
    #[arg(long, default_value_t = 0.6)]
    pub equal_load: f64,
    /// Also count the servers' system calls, with `perf`, in a second run of so long after each
    #[arg(long, value_parser = units::duration, num_args = 0..=1, default_missing_value = "1s", value_name = "TIME")]
    pub system_calls: Option<Duration>,
    /// Also put values of 64 KiB from 16 clients
    #[arg(long)]
    pub long_values: bool,
    /// Also measure the CPU time of an idle cluster, over this time
    #[arg(long, value_parser = units::duration)]
    pub idle: Option<Duration>,
    /// Also load this many 100-byte keys: time, memory, restart
    #[arg(long, num_args = 0..=1, default_missing_value = "1000000", value_name = "KEYS")]
    pub million: Option<u64>,
    /// Also write everything to this file as one JSON object
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Also draw it, into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// All that clients do is write.
    Put,
    /// Clients read, linearizably.
    Get,
}

/// A system to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// A cluster of Quorate.
    Quorate,
    /// A cluster of etcd.
    Etcd,
    /// The least replicated program with the same I/O.
    Floor,
}

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Bytes per value.
    pub value_bytes: usize,
    /// Replicas of each system.
    pub replicas: u8,
    /// The protocol of Quorate.
    pub protocol: String,
    /// Who asked in closed loops; at the same offered load it is always our own generator.
    pub client: ClientKind,
    /// Every run in a closed loop, in the order they ran.
    pub runs: Vec<Run>,
    /// Every run at the same offered load.
    pub equal_load: Vec<Run>,
    /// Every run with long values.
    pub long_values: Vec<Run>,
    /// What a cluster costs while nothing happens, and with many keys.
    pub standing: Vec<Standing>,
    /// The ratios that are held against bounds.
    pub gates: Vec<Gate>,
}

impl Comparison {
    fn new(args: &CompareArgs) -> Comparison {
        Comparison {
            value_bytes: args.val_size,
            replicas: args.replicas,
            protocol: args.protocol.clone(),
            client: args.generator.client,
            runs: Vec::new(),
            equal_load: Vec::new(),
            long_values: Vec::new(),
            standing: Vec::new(),
            gates: Vec::new(),
        }
    }
}

/// How many clients share how many connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Crowd {
    clients: u32,
    connections: u32,
}

/// One system's run at one number of clients.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// The number of the turn, from 0.
    pub pair: u16,
    /// The system that ran.
    pub system: System,
    /// What clients did.
    pub workload: Workload,
    /// The number of clients.
    pub clients: u32,
    /// What was measured.
    pub report: Report,
}

/// Runs the comparison and prints its tables.
pub fn run(args: &CompareArgs) -> Result<(), String> {
    quorate_tooling::cleanup::on_interrupt();
    check(args)?;
    let mut comparison = Comparison::new(args);
    for pair in 0..args.pairs {
        for &system in &args.systems {
            turn(args, pair, system, &mut comparison.runs)?;
        }
    }
    equal_load::run(args, &mut comparison)?;
    long_values::run(args, &mut comparison)?;
    for &system in &args.systems {
        comparison.standing.extend(standing::run(args, system)?);
    }
    comparison.gates = gates::of(&comparison);
    print!("{}", table::render(&comparison));
    if let Some(path) = &args.json {
        let json = serde_json::to_string(&comparison).map_err(|error| error.to_string())?;
        units::write(path, &(json + "\n"))?;
    }
    if let Some(path) = &args.plot {
        units::write(path, &plot::render(&comparison))?;
    }
    Ok(())
}

fn check(args: &CompareArgs) -> Result<(), String> {
    args.generator.check()?;
    if args.clients.contains(&0) || args.conns.contains(&0) {
        return Err("--clients and --conns must be at least 1".to_owned());
    }
    if args.workloads.is_empty() || !(0.0..=1.0).contains(&args.equal_load) {
        return Err("--workloads must name one, and --equal-load lie from 0 to 1".to_owned());
    }
    if args.systems.contains(&System::Etcd) {
        need_etcd(&args.etcd, "leave it out with --systems quorate,floor")?;
    }
    Ok(())
}

/// One system's turn: all numbers of clients, one after the other, against a fresh cluster.
fn turn(args: &CompareArgs, pair: u16, system: System, runs: &mut Vec<Run>) -> Result<(), String> {
    let cluster = start(args, system)?;
    for &workload in &args.workloads {
        for crowd in crowds(args) {
            let report = match &cluster {
                Some(cluster) => measure(args, &job(args, cluster, workload, crowd))?,
                None if workload == Workload::Put => floor::run(&floor_args(args, crowd))?,
                None => continue,
            };
            let run = Run {
                pair,
                system,
                workload,
                clients: crowd.clients,
                report,
            };
            run.announce(args);
            runs.push(run);
        }
    }
    Ok(())
}

/// Runs a load, and counts system calls in a second one, if that is wanted.
fn measure(args: &CompareArgs, job: &Job) -> Result<Report, String> {
    let mut report = args.generator.run(job)?;
    if let (Some(time), Some(servers)) = (args.system_calls, &mut report.servers) {
        servers.system_calls_per_op = Some(args.generator.count_system_calls(job, time)?);
    }
    Ok(report)
}

/// All numbers of clients, each over all numbers of connections that differ for it.
fn crowds(args: &CompareArgs) -> Vec<Crowd> {
    let default = [args.generator.client.connections_default_max()];
    let most = match args.conns.is_empty() {
        true => &default[..],
        false => &args.conns,
    };
    let mut crowds = Vec::new();
    for &clients in &args.clients {
        for &most in most {
            let crowd = Crowd {
                clients,
                connections: most.min(clients),
            };
            if !crowds.contains(&crowd) {
                crowds.push(crowd);
            }
        }
    }
    crowds
}

/// The floor starts its processes by itself.
fn start(args: &CompareArgs, system: System) -> Result<Option<Cluster>, String> {
    let parent = args.place.parent();
    match system {
        System::Floor => Ok(None),
        System::Etcd => Cluster::etcd(&args.etcd, args.replicas, parent).map(Some),
        System::Quorate => {
            let binary = &args.place.binary()?;
            let mut options = vec![format!("--protocol={}", args.protocol)];
            options.extend_from_slice(&args.quorate_option);
            Cluster::quorate(binary, args.replicas, parent, &options).map(Some)
        }
    }
}

fn job(args: &CompareArgs, cluster: &Cluster, workload: Workload, crowd: Crowd) -> Job {
    let load = LoadArgs {
        conns: Some(crowd.connections),
        clients: crowd.clients,
        duration: Some(args.duration),
        warmup: args.warmup,
        val_size: args.val_size,
        server_pids: cluster.pids(),
        metrics: cluster.pages(),
        ..LoadArgs::at(cluster.endpoints.clone())
    };
    let reads = workload == Workload::Get;
    Job {
        name: workload.name(),
        read_share: if reads { 1.0 } else { 0.0 },
        load,
        read: ReadArgs {
            // Reading what is not there would be another question.
            fill: reads,
            serializable: false,
        },
        verify: VerifyArgs::default(),
    }
}

fn floor_args(args: &CompareArgs, crowd: Crowd) -> FloorArgs {
    FloorArgs {
        replicas: args.replicas,
        clients: crowd.clients,
        conns: Some(crowd.connections),
        val_size: args.val_size,
        sync: Sync::Fdatasync,
        total: None,
        duration: Some(args.duration),
        warmup: args.warmup,
        data_dir: args.place.data_dir.clone(),
        json: false,
    }
}

impl Run {
    /// How many clients asked, and over how many connections.
    fn crowd(&self) -> Crowd {
        Crowd {
            clients: self.clients,
            connections: self.report.connections,
        }
    }

    /// Tells whoever waits how far the comparison is.
    fn announce(&self, args: &CompareArgs) {
        eprintln!(
            "turn {} of {}: {}, {} clients, {} of {} B: {}/s",
            self.pair + 1,
            args.pairs,
            self.system.name(),
            self.clients,
            self.workload.name(),
            self.report.value_bytes,
            units::show_count(self.report.per_second),
        );
    }
}

impl Workload {
    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Put => "put",
            Workload::Get => "get",
        }
    }
}

impl System {
    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Quorate => "quorate",
            System::Etcd => "etcd",
            System::Floor => "floor",
        }
    }
}
