//! `bench ycsb`: the core workloads A, B and C of YCSB (Cooper et al., *Benchmarking Cloud Serving
//! Systems with YCSB*, SoCC'10, table 2) over the etcd API, by the number of client threads, of several
//! systems in turns.
//!
//! Each system starts afresh, is loaded with all records, and then has each number of clients in order.
//! Reads are linearizable, records are chosen by Zipf's law with YCSB's constant, an update writes a
//! whole record, and the history is compacted all along. Clients ask the leader or, where nobody leads,
//! all replicas.

mod plot;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::sizes::traffic::Reading;
use crate::systems::compaction::Compaction;
use crate::systems::ground::{Launch, Running, etcd_leader};
use crate::systems::{Links, Shape, SystemArgs};
use quorate_load::load::{self, Job, LoadArgs, ReadArgs, VerifyArgs};
use quorate_load::report::Report;
use quorate_tooling::units::show_count;
use quorate_tooling::{cleanup, units};

/// What `bench ycsb` can be told.
#[derive(Debug, Clone, Args)]
pub struct YcsbArgs {
    /// The workload of YCSB
    #[arg(long, value_enum, default_value = "a")]
    pub workload: Workload,
    /// What to measure, and where.
    #[command(flatten)]
    pub on: SystemArgs,
    /// Records that are loaded first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub records: u64,
    /// Bytes per record
    #[arg(long, default_value = "1KiB", value_parser = units::bytes)]
    pub val_size: usize,
    /// Client threads, each with one operation outstanding; separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,5,10,25,50", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub clients: Vec<u32>,
    /// How often each system has its turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub pairs: u16,
    /// Measured time of each number of clients
    #[arg(long, default_value = "4s", value_parser = units::duration)]
    pub seconds: Duration,
    /// Load before each measurement
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    pub warmup: Duration,
    /// Also write everything to this file as one JSON object
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Also draw it, into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// A core workload of YCSB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Half reads, half updates: a store of sessions
    A,
    /// 95 reads to 5 updates: tags of photos
    B,
    /// Reads alone: profiles of users
    C,
}

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Ycsb {
    /// The workload that was measured.
    pub workload: Workload,
    /// Bytes per record.
    pub value_bytes: usize,
    /// What each replica is behind, if its link is limited.
    pub links: Option<Links>,
    /// What was measured, in the order it ran.
    pub points: Vec<Point>,
}

/// One number of clients of one system in one turn.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// The number of the turn, from 0.
    pub pair: u16,
    /// The system that ran.
    #[serde(flatten)]
    pub shape: Shape,
    /// The number of client threads.
    pub clients: u32,
    /// What clients saw.
    pub report: Report,
}

impl Workload {
    fn read_share(self) -> f64 {
        match self {
            Workload::A => 0.5,
            Workload::B => 0.95,
            Workload::C => 1.0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Workload::A => "A (50 % reads, 50 % updates)",
            Workload::B => "B (95 % reads, 5 % updates)",
            Workload::C => "C (reads)",
        }
    }
}

/// Runs the measurement and prints its table: 0, or 2 if it could not run.
pub fn run(args: &YcsbArgs) -> ExitCode {
    cleanup::on_interrupt();
    let result = args.on.measured(|| measure(args));
    result.unwrap_or_else(|error| crate::ended(Err(error)))
}

fn measure(args: &YcsbArgs) -> Result<ExitCode, String> {
    let mut found = Ycsb {
        workload: args.workload,
        value_bytes: args.val_size,
        links: args.on.links(),
        points: Vec::new(),
    };
    for pair in 0..args.pairs {
        for shape in args.on.shapes(pair) {
            Turn::begin(args, shape)?.run(pair, &mut found.points)?;
        }
    }
    print!("{}", table::render(&found));
    if let Some(path) = &args.json {
        let json = serde_json::to_string(&found).map_err(|error| error.to_string())?;
        units::write(path, &(json + "\n"))?;
    }
    if let Some(path) = &args.plot {
        units::write(path, &plot::render(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One system, loaded.
struct Turn<'a> {
    args: &'a YcsbArgs,
    shape: Shape,
    /// Ends before the cluster does.
    _compaction: Compaction,
    running: Running,
    asked: Vec<String>,
}

impl Turn<'_> {
    fn begin(args: &YcsbArgs, shape: Shape) -> Result<Turn<'_>, String> {
        let running = Running::start(&Launch::of(&args.on), shape)?;
        let compaction = Compaction::begin(&running.endpoints[0])?;
        compaction.every(args.val_size / usize::from(shape.fragments(args.val_size)));
        let mut turn = Turn {
            args,
            shape,
            _compaction: compaction,
            asked: running.endpoints.clone(),
            running,
        };
        turn.load()?;
        Ok(turn)
    }

    /// Loads all records. Who sends most meanwhile is the leader, where there is one.
    fn load(&mut self) -> Result<(), String> {
        let before = Reading::take(&self.running)?;
        let mut job = self.job(LOADING_CLIENTS);
        (job.read.fill, job.load.total) = (true, Some(1));
        (job.load.duration, job.load.warmup) = (None, Duration::ZERO);
        let report = load::run(&job)?;
        if let Some((text, count)) = report.errors.iter().next() {
            return Err(format!("not all records were loaded: {count} times {text}"));
        }
        let after = Reading::settled(&self.running)?;
        if self.shape.system.is_led() {
            let leader = match self.shape.system.is_ours() {
                true => after.leader_since(&before),
                false => etcd_leader(&self.running.endpoints).ok_or("nobody leads etcd")?,
            };
            self.asked = vec![self.running.endpoints[leader].clone()];
        }
        Ok(())
    }

    fn run(&self, pair: u16, points: &mut Vec<Point>) -> Result<(), String> {
        for &clients in &self.args.clients {
            let report = load::run(&self.job(clients))?;
            eprintln!(
                "turn {} of {}: {}, {clients} clients: {} operations/s",
                pair + 1,
                self.args.pairs,
                self.shape.title(),
                show_count(report.per_second),
            );
            points.push(Point {
                pair,
                shape: self.shape,
                clients,
                report,
            });
        }
        Ok(())
    }

    fn job(&self, clients: u32) -> Job {
        let load = LoadArgs {
            clients,
            duration: Some(self.args.seconds),
            warmup: self.args.warmup,
            val_size: self.args.val_size,
            key_space: Some(self.args.records),
            skew: SKEW,
            timeout: TIMEOUT,
            ..LoadArgs::at(self.asked.clone())
        };
        Job {
            name: "ycsb",
            read_share: self.args.workload.read_share(),
            load,
            read: ReadArgs::default(),
            verify: VerifyArgs::default(),
        }
    }
}

/// YCSB's constant of Zipf's law.
const SKEW: f64 = 0.99;
const LOADING_CLIENTS: u32 = 8;
const TIMEOUT: Duration = Duration::from_secs(60);
