//! `bench commute`: what it brings that writes of different keys may pass each other, on the plain face.
//!
//! The same load on clusters that differ in one thing: whether writes commute, and whether each is of one key or
//! two. Of every run: how many entries were answered on the fast path, what the others are, how long requests
//! were held for their deadline, and what clients felt.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::cleanup;
use crate::cluster::Cluster;
use crate::latency::Latency;
use crate::load::Keys;
use crate::plain::{Clients, Mix, PlainArgs};
use crate::rounds::say;
use crate::scrape;
use crate::tables::{align, median};
use crate::units;

/// The options of `bench commute`.
#[derive(Debug, Clone, Args)]
pub struct CommuteArgs {
    #[command(flatten)]
    cluster: PlainArgs,
    /// Clients, each with one write at a time; several numbers, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "6,24,96")]
    clients: Vec<usize>,
    /// The least time from one write of a client to its next
    #[arg(long, default_value = "0s", value_parser = units::duration)]
    pace: Duration,
    /// Keys there are
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// How much more often some keys are chosen: the i-th as often as 1 / i^SKEW says
    #[arg(long, default_value_t = 0.99)]
    skew: f64,
    /// Length of each run, after a second to warm up
    #[arg(long, default_value = "5s", value_parser = units::duration)]
    duration: Duration,
    /// How often each run is made; the medians are shown
    #[arg(long, default_value_t = 3)]
    rounds: u16,
    /// Decides keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write all runs to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is compared.
const KINDS: [Kind; 4] = [
    Kind {
        name: "ordered, one key",
        commutes: false,
        two_keys: 0.0,
    },
    Kind {
        name: "commuting, one key",
        commutes: true,
        two_keys: 0.0,
    },
    Kind {
        name: "ordered, two keys",
        commutes: false,
        two_keys: 1.0,
    },
    Kind {
        name: "commuting, two keys",
        commutes: true,
        two_keys: 1.0,
    },
];

struct Kind {
    name: &'static str,
    commutes: bool,
    two_keys: f64,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
struct Run {
    kind: &'static str,
    clients: usize,
    writes_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    /// Entries answered on the fast path, of all.
    fast_share: f64,
    /// Commands in an entry.
    batch: f64,
    /// How long a replica holds a request for its deadline, on average.
    held_us: f64,
    /// Writes without an answer.
    failed: u64,
}

/// What replicas count, summed up.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    fast: f64,
    slow: f64,
    released: f64,
    held_us: f64,
    applied: f64,
}

/// Makes all runs and prints a table.
pub fn run(args: &CommuteArgs) -> Result<(), String> {
    cleanup::on_interrupt();
    let mut runs = Vec::new();
    for round in 0..args.rounds.max(1) {
        for &clients in &args.clients {
            for kind in &KINDS {
                let run = measure(args, kind, clients, args.seed + u64::from(round))?;
                say(format_args!(
                    "round {}, {} clients, {}: {:.0} writes/s, {:.1} % fast",
                    round + 1,
                    clients,
                    kind.name,
                    run.writes_per_s,
                    100.0 * run.fast_share
                ));
                runs.push(run);
            }
        }
    }
    println!("{}", title(args));
    print!("{}", table(&runs, &args.clients));
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&runs).map_err(|error| error.to_string())?;
        units::write(path, &text)?;
    }
    Ok(())
}

fn title(args: &CommuteArgs) -> String {
    format!(
        "{}, {} replicas, {}: {} keys, skew {}, medians of {} runs of {} s",
        args.cluster.protocol,
        args.cluster.replicas,
        args.cluster.durability,
        args.keys,
        args.skew,
        args.rounds.max(1),
        args.duration.as_secs_f64()
    )
}

fn measure(args: &CommuteArgs, kind: &Kind, clients: usize, seed: u64) -> Result<Run, String> {
    let asked = &args.cluster;
    let options = asked.options(format!("--param=commute={}", kind.commutes));
    let (binary, parent) = (asked.binary()?, asked.data_dir.as_deref());
    let cluster = Cluster::quorate(&binary, asked.replicas, parent, &options)?;
    let mix = Mix {
        keys: Arc::new(Keys::new(args.keys, args.skew)),
        two_keys: kind.two_keys,
        reads: 0.0,
        pace: args.pace,
        patience: PATIENCE,
    };
    let load = Clients::start(&cluster.endpoints, clients, &mix, seed)?;
    std::thread::sleep(WARM_UP);
    drop(load.take());
    let (before, began) = (Counts::scrape(&cluster.endpoints)?, load.elapsed());
    std::thread::sleep(args.duration);
    let (after, ended) = (Counts::scrape(&cluster.endpoints)?, load.elapsed());
    let done = load.stop();
    let mut latency = Latency::new();
    let mut failed = 0;
    for one in done.iter().filter(|one| (began..ended).contains(&one.at)) {
        match one.is_answered {
            true => latency.record(one.took.as_nanos() as u64),
            false => failed += 1,
        }
    }
    let entries = after.fast + after.slow - before.fast - before.slow;
    let applied = (after.applied - before.applied) / f64::from(args.cluster.replicas);
    let summary = latency.summary();
    Ok(Run {
        kind: kind.name,
        clients,
        writes_per_s: latency.count() as f64 / (ended - began).as_secs_f64(),
        p50_us: summary.p50_ns as f64 / 1e3,
        p99_us: summary.p99_ns as f64 / 1e3,
        fast_share: (after.fast - before.fast) / entries.max(1.0),
        batch: applied / entries.max(1.0),
        held_us: (after.held_us - before.held_us) / (after.released - before.released).max(1.0),
        failed,
    })
}

impl Counts {
    fn scrape(endpoints: &[String]) -> Result<Counts, String> {
        let mut counts = Counts::default();
        for url in endpoints {
            let page = scrape::get(url, "/metrics")?;
            let figure = |name: &str| {
                let label = format!("figure=\"{name}\"");
                scrape::labelled(&page, "quorate_protocol", &label)
            };
            counts.fast += figure("answered_fast_total");
            counts.slow += figure("answered_slowly_total");
            counts.released += figure("released_total");
            counts.held_us += figure("held_us_total");
            counts.applied += scrape::value(&page, "quorate_commands_applied_total");
        }
        Ok(counts)
    }
}

fn table(runs: &[Run], clients: &[usize]) -> String {
    let head = [
        "clients",
        "writes",
        "writes/s",
        "p50 us",
        "p99 us",
        "fast %",
        "slow %",
        "held us",
        "per entry",
        "failed",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for &clients in clients {
        for kind in &KINDS {
            let of = |value: fn(&Run) -> f64| {
                let same = runs.iter().filter(|run| run.kind == kind.name);
                let same = same.filter(|run| run.clients == clients).map(value);
                median(same.collect()).unwrap_or_default()
            };
            rows.push(vec![
                clients.to_string(),
                kind.name.to_owned(),
                format!("{:.0}", of(|run| run.writes_per_s)),
                format!("{:.0}", of(|run| run.p50_us)),
                format!("{:.0}", of(|run| run.p99_us)),
                format!("{:.1}", 100.0 * of(|run| run.fast_share)),
                format!("{:.1}", 100.0 - 100.0 * of(|run| run.fast_share)),
                format!("{:.0}", of(|run| run.held_us)),
                format!("{:.1}", of(|run| run.batch)),
                format!("{:.0}", of(|run| run.failed as f64)),
            ]);
        }
    }
    align(&rows)
}

const WARM_UP: Duration = Duration::from_secs(1);
/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(2);
