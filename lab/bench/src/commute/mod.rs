//! `bench commute`: what it brings that writes of different keys may pass each other, on the plain face.
//!
//! Two clusters that differ in one thing, whether writes commute, have the same load in turns: writes of one key
//! each, and of two. Of every run: how many entries were answered on the fast path, what the others are, how long
//! requests were held for their deadline, and what clients felt. Machines drift, so what commuting brings is the
//! ratio of two runs that follow each other; who comes first changes with the round.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::plain::{Clients, Mix, PlainArgs};
use quorate_load::latency::Latency;
use quorate_load::load::Keys;
use quorate_tooling::cleanup;
use quorate_tooling::scrape::Counters;
use quorate_tooling::tables::{Table, median};
use quorate_tooling::terminal::say;
use quorate_tooling::units;

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
    /// How much more often some keys are chosen: the i-th as often as 1 / i^SKEW says; 0 for all alike
    #[arg(long, default_value_t = 0.99)]
    skew: f64,
    /// Length of each run
    #[arg(long, default_value = "2s", value_parser = units::duration)]
    duration: Duration,
    /// Load before each run
    #[arg(long, default_value = "500ms", value_parser = units::duration)]
    warmup: Duration,
    /// How often each run is made; the medians are shown
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// The seed that decides keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write all runs to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is compared, in pairs.
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

/// What one run measured.
#[derive(Debug, Clone, Default, Serialize)]
struct Run {
    round: u16,
    kind: &'static str,
    clients: usize,
    writes_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    /// Entries answered on the fast path, of all.
    fast_share: Option<f64>,
    /// Commands in an entry.
    batch: f64,
    /// How long a replica holds a request for its deadline, in the mean.
    held_us: Option<f64>,
    /// Writes without an answer.
    failed: u64,
}

/// Makes all runs and prints a table.
pub fn run(args: &CommuteArgs) -> Result<(), String> {
    cleanup::on_interrupt();
    // One that has nothing to do costs nothing.
    let clusters = [false, true].map(|commutes| start(args, commutes));
    let [ordered, commuting] = clusters;
    let (ordered, commuting) = (ordered?, commuting?);
    let mut runs = Vec::new();
    for round in 0..args.rounds {
        for &clients in &args.clients {
            for pair in KINDS.chunks(2) {
                let mut pair: Vec<&Kind> = pair.iter().collect();
                if round % 2 == 1 {
                    pair.reverse();
                }
                for kind in pair {
                    let cluster = if kind.commutes { &commuting } else { &ordered };
                    let run = measure(args, cluster, kind, round, clients)?;
                    say(format_args!(
                        "round {}, {clients} clients, {}: {:.0} writes/s, {:.1} % fast",
                        round + 1,
                        kind.name,
                        run.writes_per_s,
                        100.0 * run.fast_share.unwrap_or_default()
                    ));
                    runs.push(run);
                }
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

fn start(args: &CommuteArgs, commutes: bool) -> Result<Cluster, String> {
    let asked = &args.cluster;
    let options = asked.options(format!("--param=commute={commutes}"));
    let (binary, parent) = (asked.place.binary()?, asked.place.parent());
    Cluster::quorate(&binary, asked.replicas, parent, &options)
}

fn title(args: &CommuteArgs) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}, {} replicas, {} gateways, {}: {} keys, skew {}, {cores} cores for all; medians of {} runs of {} s, ratios \
         of runs that follow each other",
        args.cluster.protocol,
        args.cluster.replicas,
        args.cluster.gateways,
        args.cluster.durability,
        args.keys,
        args.skew,
        args.rounds,
        args.duration.as_secs_f64()
    )
}

fn measure(
    args: &CommuteArgs,
    cluster: &Cluster,
    kind: &Kind,
    round: u16,
    clients: usize,
) -> Result<Run, String> {
    let mix = Mix {
        keys: Arc::new(Keys::new(args.keys, args.skew)),
        two_keys: kind.two_keys,
        reads: 0.0,
        pace: args.pace,
        patience: PATIENCE,
    };
    let counters = || Counters::scrape(&cluster.pages()).ok_or("no replica says what it counts");
    let seed = args.seed.wrapping_add(round.into());
    let load = Clients::start(&cluster.endpoints, clients, &mix, seed)?;
    std::thread::sleep(args.warmup);
    drop(load.take());
    let (before, began) = (counters()?, load.elapsed());
    std::thread::sleep(args.duration);
    let (after, ended) = (counters()?, load.elapsed());
    let done = load.stop();
    let mut latency = Latency::new();
    let mut failed = 0;
    for one in done.iter().filter(|one| (began..ended).contains(&one.at)) {
        match one.is_answered {
            true => latency.record(one.took.as_nanos() as u64),
            false => failed += 1,
        }
    }
    let counted = after.since(before);
    let deadlines = counted.deadlines;
    let applied = counted.commands_applied / f64::from(args.cluster.replicas);
    let summary = latency.summary();
    Ok(Run {
        round,
        kind: kind.name,
        clients,
        writes_per_s: latency.count() as f64 / (ended - began).as_secs_f64(),
        p50_us: summary.p50_ns as f64 / 1e3,
        p99_us: summary.p99_ns as f64 / 1e3,
        fast_share: deadlines.fast_share(),
        batch: applied / deadlines.entries().max(1.0),
        held_us: deadlines.held_us(),
        failed,
    })
}

const HEADINGS: [&str; 12] = [
    "clients",
    "writes",
    "writes/s",
    "p50",
    "p99",
    "fast %",
    "slow %",
    "held us",
    "per entry",
    "failed",
    "writes/s, of ordered",
    "p50, of ordered",
];

fn table(runs: &[Run], clients: &[usize]) -> String {
    let mut table = Table::new(&HEADINGS);
    for &clients in clients {
        for pair in KINDS.chunks(2) {
            for kind in pair {
                let of = |kind: &Kind| {
                    let name = kind.name;
                    let same = runs.iter().filter(move |run| run.kind == name);
                    same.filter(move |run| run.clients == clients)
                };
                let mut row = vec![clients.to_string(), kind.name.to_owned()];
                row.extend(cells(of(kind).collect(), of(&pair[0]).collect()));
                table.add(row);
            }
        }
    }
    table.to_string()
}

/// Runs of one kind, beside those of the ordered one of its pair.
fn cells(runs: Vec<&Run>, ordered: Vec<&Run>) -> Vec<String> {
    let of = |value: &dyn Fn(&Run) -> f64| {
        median(runs.iter().map(|run| value(run)).collect()).unwrap_or_default()
    };
    let ratio = |value: &dyn Fn(&Run) -> f64| {
        let ratios = runs.iter().filter_map(|run| {
            let beside = ordered.iter().find(|other| other.round == run.round)?;
            Some(value(run) / value(beside))
        });
        median(ratios.collect()).unwrap_or_default()
    };
    let fast = of(&|run| 100.0 * run.fast_share.unwrap_or_default());
    vec![
        format!("{:.0}", of(&|run| run.writes_per_s)),
        units::show_ns((1e3 * of(&|run| run.p50_us)) as u64),
        units::show_ns((1e3 * of(&|run| run.p99_us)) as u64),
        format!("{fast:.1}"),
        format!("{:.1}", 100.0 - fast),
        format!("{:.0}", of(&|run| run.held_us.unwrap_or_default())),
        format!("{:.1}", of(&|run| run.batch)),
        format!("{:.0}", of(&|run| run.failed as f64)),
        format!("{:.2}", ratio(&|run| run.writes_per_s)),
        format!("{:.2}", ratio(&|run| run.p50_us)),
    ]
}

/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the machine is three times as slow in the second round; what commuting brings is the same in both.
    #[test]
    fn ratios_are_of_runs_that_follow_each_other() {
        let run = |round, writes_per_s| Run {
            round,
            writes_per_s,
            p50_us: 1e6 / writes_per_s,
            ..Run::default()
        };
        let ordered = [run(0, 300.0), run(1, 100.0)];
        let commuting = [run(0, 600.0), run(1, 200.0)];
        let cells = cells(commuting.iter().collect(), ordered.iter().collect());
        assert_eq!(cells[8..], ["2.00", "0.50"]);
    }
}
