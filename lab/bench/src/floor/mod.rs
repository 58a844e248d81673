//! `bench floor`: the least replicated program with the same I/O.
//!
//! Clients, a leader and followers, each a process of one thread, over TCP on loopback. One batch
//! is in flight; clients are answered when the leader and a majority in all have synced it into
//! blocks written before. There is no consensus, no state machine and no gRPC: whatever a real
//! system does on top, it can only be slower, and by how much is its price.

mod clients;
mod disk;
mod follower;
mod leader;
mod wire;

use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

pub use follower::FollowerArgs;
pub use leader::LeaderArgs;
use quorate_load::report::{Report, ServerCosts};
use quorate_tooling::children::{Tethered, tie_to_parent};
use quorate_tooling::cleanup::{self, TempDir};
use quorate_tooling::process::Usage;
use quorate_tooling::units;

/// How a replica makes a batch durable before it acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sync {
    /// Write, then fdatasync.
    Fdatasync,
    /// Write through a file opened with `O_DSYNC`.
    Dsync,
    /// Write to the page cache only.
    None,
}

impl Sync {
    fn name(self) -> &'static str {
        match self {
            Sync::Fdatasync => "fdatasync",
            Sync::Dsync => "dsync",
            Sync::None => "none",
        }
    }
}

/// What `bench floor` can be told.
#[derive(Debug, Clone, Args)]
pub struct FloorArgs {
    /// Replicas, the leader included
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=15))]
    pub replicas: u8,
    /// Clients, each with one operation outstanding
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    /// Connections the clients share [default: one per client]
    #[arg(long)]
    pub conns: Option<u32>,
    /// Bytes per command
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    pub val_size: usize,
    /// What makes a batch durable
    #[arg(long, value_enum, default_value = "fdatasync")]
    pub sync: Sync,
    /// Stop after this many operations
    #[arg(long, conflicts_with = "duration")]
    pub total: Option<u64>,
    /// Stop after this time [default: 10s]
    #[arg(long, value_parser = units::duration)]
    pub duration: Option<Duration>,
    /// Time before measuring starts
    #[arg(long, default_value = "500ms", value_parser = units::duration)]
    pub warmup: Duration,
    /// Directory for the replicas' files [default: a temporary one under TMPDIR or here]
    #[arg(long)]
    pub data_dir: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Runs the floor and returns what was measured.
pub fn run(args: &FloorArgs) -> Result<Report, String> {
    cleanup::on_interrupt();
    check(args)?;
    let directory = TempDir::new(args.data_dir.as_deref()).map_err(|error| error.to_string())?;
    if args.sync != Sync::None && directory.is_in_memory() {
        eprintln!("note: the data directory is in memory: flushes cost nothing there");
    }
    let mut replicas = Replicas::start(args, &directory).map_err(|e| format!("floor: {e}"))?;
    let pids = replicas.pids();
    let run = clients::run(args, replicas.port, || Usage::of(&pids))
        .map_err(|error| format!("floor: a replica failed: {error}"))?;
    let usage = Usage::of(&pids).since(run.usage_before);
    let counts = replicas
        .finish()
        .map_err(|error| format!("floor: {error}"))?;
    Ok(report(args, &run, usage, counts))
}

fn check(args: &FloorArgs) -> Result<(), String> {
    if args.val_size == 0 || args.val_size > wire::FRAME_BYTES_MAX {
        return Err(format!(
            "--val-size must be from 1 to {} bytes",
            wire::FRAME_BYTES_MAX
        ));
    }
    if args
        .conns
        .is_some_and(|conns| conns == 0 || conns > args.clients)
    {
        return Err("--conns must be from 1 to the number of clients".to_owned());
    }
    Ok(())
}

fn report(args: &FloorArgs, run: &clients::Run, usage: Usage, counts: Counts) -> Report {
    let operations = run.latency.count();
    let mut report = Report::new(&format!(
        "floor, {} replicas, {}",
        args.replicas,
        args.sync.name()
    ));
    report.clients = args.clients;
    report.connections = args.conns.unwrap_or(args.clients);
    report.value_bytes = args.val_size;
    report.set_operations(&run.latency, run.elapsed);
    report.generator_cpu_us_per_op = run.generator.cpu_us as f64 / operations.max(1) as f64;
    let mut servers = ServerCosts::from_usage(usage, operations);
    if args.sync != Sync::None {
        servers.set_syncs(
            counts.syncs as f64,
            counts.commands as f64 * f64::from(args.replicas),
        );
    }
    report.servers = Some(servers);
    report
}

/// What the replicas counted over their lives: commands by the leader, flushes by all.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    commands: u64,
    syncs: u64,
}

impl Counts {
    fn parse(line: &str) -> Option<Counts> {
        let mut words = line.split_ascii_whitespace();
        let mut number = || words.next()?.parse().ok();
        Some(Counts {
            commands: number()?,
            syncs: number()?,
        })
    }

    fn print(self) {
        println!("{} {}", self.commands, self.syncs);
    }
}

struct Replicas {
    /// The leader first.
    processes: Vec<Tethered>,
    port: u16,
}

impl Replicas {
    fn start(args: &FloorArgs, directory: &TempDir) -> io::Result<Replicas> {
        // Room for every client's command twice over, so that a batch never wraps within itself.
        let commands_bytes = args.clients as usize * (args.val_size + wire::HEADER_BYTES);
        let file_bytes = (2 * commands_bytes).max(FILE_BYTES_MIN);
        let start = |role: &str, index: u8, more: &[String]| -> io::Result<(Tethered, u16)> {
            let mut arguments = vec![
                role.to_owned(),
                format!("--parent={}", std::process::id()),
                format!(
                    "--file={}",
                    directory.path().join(format!("log-{index}")).display()
                ),
                format!("--file-bytes={file_bytes}"),
                format!("--sync={}", args.sync.name()),
            ];
            arguments.extend_from_slice(more);
            let mut process = Tethered::of_self(&arguments)?;
            let port = line(&mut process)?
                .trim()
                .parse()
                .map_err(|_| io::Error::other(format!("replica {index} did not start")))?;
            Ok((process, port))
        };
        let mut followers = Vec::new();
        for index in 1..args.replicas {
            followers.push(start("floor-follower", index, &[])?);
        }
        let peers: Vec<String> = followers
            .iter()
            .map(|(_, port)| format!("--follower={port}"))
            .collect();
        let (leader, port) = start("floor-leader", 0, &peers)?;
        let followers = followers.into_iter().map(|(process, _)| process);
        Ok(Replicas {
            processes: std::iter::once(leader).chain(followers).collect(),
            port,
        })
    }

    fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Tethered::pid).collect()
    }

    /// Closes the leader's input, which ends it and with it the followers, and sums their counts.
    fn finish(&mut self) -> io::Result<Counts> {
        drop(self.processes[0].child().stdin.take());
        let mut total = Counts::default();
        for process in &mut self.processes {
            let line = line(process)?;
            let counts = Counts::parse(&line)
                .ok_or_else(|| io::Error::other("a replica ended without its counts"))?;
            total.commands += counts.commands;
            total.syncs += counts.syncs;
            process.stop(Duration::from_secs(2));
        }
        Ok(total)
    }
}

/// One line of a child's output. Read byte by byte: a buffer would swallow the next line.
fn line(process: &mut Tethered) -> io::Result<String> {
    let output = process
        .child()
        .stdout
        .as_mut()
        .ok_or_else(|| io::Error::other("no output"))?;
    let mut line = String::new();
    BufReader::with_capacity(1, Read::by_ref(output)).read_line(&mut line)?;
    Ok(line)
}

/// Runs the hidden follower role.
pub(crate) fn follow(args: &FollowerArgs) -> io::Result<()> {
    tie_to_parent(args.replica.parent, rustix::process::Signal::KILL)?;
    follower::follow(args)?.print();
    Ok(())
}

/// Runs the hidden leader role.
pub(crate) fn lead(args: &LeaderArgs) -> io::Result<()> {
    tie_to_parent(args.replica.parent, rustix::process::Signal::KILL)?;
    leader::lead(args)?.print();
    Ok(())
}

/// What both hidden roles are told.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReplicaArgs {
    /// The process that started this one.
    #[arg(long)]
    pub(crate) parent: u32,
    /// The log file to write before and then write over.
    #[arg(long)]
    pub(crate) file: PathBuf,
    /// The size of that file, in bytes.
    #[arg(long)]
    pub(crate) file_bytes: usize,
    /// What makes a batch durable.
    #[arg(long, value_enum)]
    pub(crate) sync: Sync,
}

/// Nanoseconds since `start`.
fn since(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

const FILE_BYTES_MIN: usize = 64 << 20;
