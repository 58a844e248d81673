//! `bench watchers`: what thousands of watches, one reader that does not read, and thousands of
//! idle connections do to puts and to memory.
//!
//! Puts arrive at a fixed rate, first alone, then with the watches, then with the connections, too.
//! One stream watches everything and is not read until the end; then it has to tell every event.

mod puts;
mod streams;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use tonic::transport::{Channel, Endpoint};

use crate::cluster::Cluster;
use puts::{Puts, PutsSeen};
use quorate_load::latency::LatencySummary;
use quorate_load::load::rpc;
use quorate_tooling::program::Place;
use quorate_tooling::scrape::authority;
use quorate_tooling::tables::Table;
use quorate_tooling::{cleanup, process, units};
use streams::{Readers, Sleeper};

/// What `bench watchers` can be told.
#[derive(Debug, Clone, Args)]
pub struct WatchersArgs {
    /// Watches, spread over the streams
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub watchers: u32,
    /// Watch streams, spread over the endpoints
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub streams: u32,
    /// Watches that see each put
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub fan_out: u32,
    /// Connections that are opened and do nothing
    #[arg(long, default_value_t = 0)]
    pub connections: u32,
    /// Puts a second
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
    /// Measured time of each part
    #[arg(long, default_value = "5s", value_parser = units::duration)]
    pub duration: Duration,
    /// Bytes per value
    #[arg(long, default_value = "4KiB", value_parser = units::bytes)]
    pub val_size: usize,
    /// Replicas in the cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub replicas: u8,
    /// Measure this etcd executable instead of Quorate
    #[arg(long)]
    pub etcd: Option<PathBuf>,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub quorate_option: Vec<String>,
    /// The program to start, and the directory for its data.
    #[command(flatten)]
    pub place: Place,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Report {
    watchers: u32,
    connections: u32,
    parts: Vec<Part>,
    /// Whether the stream that was not read told every event once it was, in order.
    sleeper_complete: bool,
    /// How long that took.
    sleeper_ms: u64,
}

/// One stretch of puts.
#[derive(Debug, Serialize)]
struct Part {
    name: &'static str,
    put: LatencySummary,
    failed_puts: u64,
    /// Events that watches told, all together.
    events_per_second: f64,
    /// Resident memory of all processes when it began and when it ended.
    resident_bytes: [u64; 2],
}

/// Runs all parts: 0 when nothing was lost, 1 if events or puts were, 2 when it could not run.
pub fn run(args: &WatchersArgs) -> ExitCode {
    cleanup::on_interrupt();
    match prepare(args).and_then(|cluster| measure(args, &cluster)) {
        Ok(report) => {
            report.print(args.json);
            match report.is_good() {
                true => ExitCode::SUCCESS,
                false => ExitCode::from(1),
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn prepare(args: &WatchersArgs) -> Result<Cluster, String> {
    // The replicas inherit the limit.
    allow_files(u64::from(args.connections) + u64::from(args.streams) + FILES_EXTRA)?;
    let parent = args.place.parent();
    if let Some(etcd) = &args.etcd {
        return Cluster::etcd(etcd, args.replicas, parent);
    }
    let binary = &args.place.binary()?;
    Cluster::quorate(binary, args.replicas, parent, &args.quorate_option)
}

/// Raises the limit of open files to what is needed, if that is allowed.
fn allow_files(needed: u64) -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let refused = |why: String| {
        format!(
            "{needed} open files are needed: {why}; allow more with `ulimit -Hn`, or ask for less"
        )
    };
    if let Some(maximum) = limit.maximum.filter(|maximum| *maximum < needed) {
        return Err(refused(format!("at most {maximum} are allowed here")));
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| refused(error.to_string()))
}

fn measure(args: &WatchersArgs, cluster: &Cluster) -> Result<Report, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    runtime.block_on(async {
        let mut report = Report {
            watchers: args.watchers,
            connections: args.connections,
            parts: Vec::new(),
            sleeper_complete: false,
            sleeper_ms: 0,
        };
        let channels = connect(cluster).await?;
        let keys = args.watchers.div_ceil(args.fan_out);
        let mut puts = Puts::new(channels, keys, args);
        part("puts alone", &mut puts, cluster, None, &mut report).await?;
        // Those that read and the one that does not share no connection.
        let readers = Readers::open(connect(cluster).await?, keys, args).await?;
        let sleeper = Sleeper::open(&connect(cluster).await?[0]).await?;
        part(
            "with watches",
            &mut puts,
            cluster,
            Some(&readers),
            &mut report,
        )
        .await?;
        let _idle = idle(args, cluster).await?;
        if args.connections > 0 {
            let name = "and connections";
            part(name, &mut puts, cluster, Some(&readers), &mut report).await?;
        }
        let began = tokio::time::Instant::now();
        report.sleeper_complete = sleeper.wake(puts.since_watched()).await?;
        report.sleeper_ms = began.elapsed().as_millis() as u64;
        Ok(report)
    })
}

async fn part(
    name: &'static str,
    puts: &mut Puts,
    cluster: &Cluster,
    readers: Option<&Readers>,
    report: &mut Report,
) -> Result<(), String> {
    let resident = || process::resident_bytes(&cluster.pids());
    let (events, before) = (readers.map_or(0, Readers::events), resident());
    let began = tokio::time::Instant::now();
    let PutsSeen {
        latency: put,
        failed: failed_puts,
    } = puts.run(readers.is_some()).await;
    let events = readers.map_or(0, Readers::events) - events;
    report.parts.push(Part {
        name,
        put,
        failed_puts,
        events_per_second: events as f64 / began.elapsed().as_secs_f64(),
        resident_bytes: [before, resident()],
    });
    Ok(())
}

/// A connection to each endpoint.
async fn connect(cluster: &Cluster) -> Result<Vec<Channel>, String> {
    let mut channels = Vec::new();
    for url in &cluster.endpoints {
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|e| e.to_string())?;
        let channel = endpoint.connect_timeout(PATIENCE).connect().await;
        channels.push(channel.map_err(|error| format!("{url}: {error}"))?);
    }
    Ok(channels)
}

/// Connections that do nothing but stay.
async fn idle(args: &WatchersArgs, cluster: &Cluster) -> Result<Vec<rpc::Channel>, String> {
    let mut idle = Vec::new();
    for (url, number) in cluster.endpoints.iter().cycle().zip(1..=args.connections) {
        let channel = rpc::Channel::connect(authority(url)?, PATIENCE).await;
        idle.push(channel.map_err(|error| format!("connection {number}: {error}"))?);
    }
    Ok(idle)
}

impl Report {
    fn is_good(&self) -> bool {
        self.sleeper_complete && self.parts.iter().all(|part| part.failed_puts == 0)
    }

    fn print(&self, json: bool) {
        if json {
            match serde_json::to_string(self) {
                Ok(line) => println!("{line}"),
                Err(error) => eprintln!("error: {error}"),
            }
            return;
        }
        println!(
            "{} watches, {} idle connections",
            self.watchers, self.connections
        );
        let mut table = Table::new(&["beside", "p50", "p99", "failed", "events/s", "memory MiB"]);
        for part in &self.parts {
            let [before, after] = part.resident_bytes.map(|bytes| bytes >> 20);
            table.add(vec![
                part.name.to_string(),
                units::show_ns(part.put.p50_ns),
                units::show_ns(part.put.p99_ns),
                part.failed_puts.to_string(),
                units::show_count(part.events_per_second),
                format!("{before} to {after}"),
            ]);
        }
        print!("{table}");
        let told = match self.sleeper_complete {
            true => "every event",
            false => "NOT every event",
        };
        println!(
            "the stream that was not read told {told}, in {} ms",
            self.sleeper_ms
        );
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
/// Open files besides those of connections: logs, sockets of the replicas, and so on.
const FILES_EXTRA: u64 = 512;
