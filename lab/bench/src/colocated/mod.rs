//! `bench colocated`: replicas of one process, whole but for their faces, and what carries their frames: TCP and UDP on
//! loopback, or rings in memory. Nothing is written, so that the way is most of what is measured.
//!
//! As in `bench compare`, ratios are taken between runs of the same turn; who comes first changes with the turn.

mod cluster;
mod null;

use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use quorate_core::{Principal, Wire};
use quorate_plain_store::{Store, Write};
use quorate_server::{Failure, Handle, Layout};

use cluster::{Cluster, Fit};
use null::Null;
use quorate_load::latency::Latency;
use quorate_tooling::tables::{align, median};
use quorate_tooling::units::{self, show_count, show_ns};

/// What `bench colocated` can be told.
#[derive(Debug, Clone, Args)]
pub struct ColocatedArgs {
    /// How the replicas agree, each in its turn, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "chora,multi-paxos")]
    protocols: Vec<String>,
    /// What carries frames, separated by commas; ratios are to the first
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "tcp,udp,rings"
    )]
    ways: Vec<Way>,
    /// Whether replicas have a thread each or share one with all clients, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "threaded,fused"
    )]
    layouts: Vec<Threads>,
    /// What they replicate, each in its turn, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "plain")]
    applications: Vec<Replicated>,
    /// How often every way gets its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pairs: u16,
    /// Numbers of clients, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,64", value_parser = clap::value_parser!(u16).range(1..))]
    clients: Vec<u16>,
    /// Bytes per value
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    val_size: usize,
    /// Measured time of each run
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    duration: Duration,
    /// Load before each measurement
    #[arg(long, default_value = "300ms", value_parser = units::duration)]
    warmup: Duration,
    /// Replicas of each cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=9))]
    replicas: u16,
}

/// What carries frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Connections on loopback
    Tcp,
    /// Connections, and datagrams for short frames
    Udp,
    /// Rings in memory
    Rings,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Tcp => "tcp",
            Way::Udp => "udp",
            Way::Rings => "rings",
        }
    }
}

/// What is replicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Replicated {
    /// The plain key-value store
    Plain,
    /// Nothing: commands are ordered and have no effect
    Null,
}

impl Replicated {
    fn name(self) -> &'static str {
        match self {
            Replicated::Plain => "plain",
            Replicated::Null => "null",
        }
    }
}

/// How replicas and clients share threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Threads {
    /// One for each replica, and one for all clients
    Threaded,
    /// One for everything
    Fused,
}

impl Threads {
    fn layout(self) -> Layout {
        match self {
            Threads::Threaded => Layout::Threaded,
            Threads::Fused => Layout::Fused,
        }
    }
}

/// What differs between runs of a turn, and what does not.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Case {
    protocol: String,
    application: Replicated,
    threads: Threads,
    clients: u16,
}

/// What one run measured.
#[derive(Debug, Clone)]
struct Run {
    pair: u16,
    case: Case,
    way: Way,
    per_second: f64,
    p50_ns: f64,
    p99_ns: f64,
}

/// Runs it and prints a table.
pub fn run(args: &ColocatedArgs) -> Result<(), String> {
    quorate_tooling::cleanup::on_interrupt();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let mut runs = Vec::new();
    for pair in 0..args.pairs {
        for (protocol, application, threads) in args.settings() {
            let mut ways = args.ways.clone();
            if pair % 2 == 1 {
                ways.reverse();
            }
            for way in ways {
                let turn = Turn {
                    pair,
                    protocol,
                    application,
                    threads,
                    way,
                };
                runtime.block_on(async {
                    match application {
                        Replicated::Plain => turn.run::<Store>(args, &mut runs).await,
                        Replicated::Null => turn.run::<Null>(args, &mut runs).await,
                    }
                })?;
            }
        }
    }
    print!("{}", render(args, &runs));
    Ok(())
}

impl ColocatedArgs {
    /// What gets its turn, by whatever ways.
    fn settings(&self) -> impl Iterator<Item = (&str, Replicated, Threads)> {
        self.protocols.iter().flat_map(move |protocol| {
            self.applications.iter().flat_map(move |application| {
                let layouts = self.layouts.iter();
                layouts.map(move |threads| (&protocol[..], *application, *threads))
            })
        })
    }
}

/// A cluster, and when.
#[derive(Debug, Clone, Copy)]
struct Turn<'a> {
    pair: u16,
    protocol: &'a str,
    application: Replicated,
    threads: Threads,
    way: Way,
}

impl Turn<'_> {
    /// All numbers of clients, one after the other, against a fresh cluster.
    async fn run<A: Fit>(self, args: &ColocatedArgs, runs: &mut Vec<Run>) -> Result<(), String> {
        let (threads, way) = (self.threads, self.way);
        let layout = threads.layout();
        let cluster = Cluster::<A>::start(self.protocol, args.replicas, layout, way).await?;
        for &clients in &args.clients {
            let latency = load(args, &cluster, clients).await?;
            let summary = latency.summary();
            let run = Run {
                pair: self.pair,
                case: Case {
                    protocol: self.protocol.to_owned(),
                    application: self.application,
                    threads,
                    clients,
                },
                way,
                per_second: latency.count() as f64 / args.duration.as_secs_f64(),
                p50_ns: summary.p50_ns as f64,
                p99_ns: summary.p99_ns as f64,
            };
            eprintln!(
                "turn {} of {}: {}, {}, {threads:?}, {clients} clients by {}: {}/s",
                self.pair + 1,
                args.pairs,
                self.protocol,
                self.application.name(),
                way.name(),
                show_count(run.per_second),
            );
            runs.push(run);
        }
        cluster.stop().await
    }
}

/// Clients that put one value after the other, spread over the replicas: what they saw within the time asked for.
async fn load<A: Fit>(
    args: &ColocatedArgs,
    cluster: &Cluster<A>,
    clients: u16,
) -> Result<Latency, String> {
    let value = Bytes::from(vec![7; args.val_size]);
    let began = Instant::now() + args.warmup;
    let ends = began + args.duration;
    let clients: Vec<_> = (0..clients)
        .map(|client| {
            let handle = cluster.handle(client);
            let value = value.clone();
            tokio::spawn(put_until(client, handle, value, began..ends))
        })
        .collect();
    let mut latency = Latency::new();
    for client in clients {
        let seen = client.await.map_err(|error| error.to_string())?;
        latency.merge(&seen.map_err(|failure| failure.to_string())?);
    }
    Ok(latency)
}

/// Records what begins and ends within the time.
async fn put_until<A: Fit>(
    client: u16,
    handle: Handle<A>,
    value: Bytes,
    within: Range<Instant>,
) -> Result<Latency, Failure> {
    let mut latency = Latency::new();
    for n in 0_u64.. {
        let key = Bytes::from(format!("{client}/{n}"));
        let body = Write::put(key, value.clone()).to_bytes();
        let sent = Instant::now();
        if sent >= within.end {
            break;
        }
        match handle.write(body, Principal(0)).await {
            Ok(_) => {}
            // A leader may have to be found first.
            Err(Failure::NotServing) if sent < within.start => tokio::task::yield_now().await,
            Err(failure) => return Err(failure),
        }
        let now = Instant::now();
        if sent >= within.start && now < within.end {
            latency.record((now - sent).as_nanos() as u64);
        }
    }
    Ok(latency)
}

const HEADINGS: [&str; 10] = [
    "protocol",
    "application",
    "threads",
    "clients",
    "by",
    "puts/s",
    "p50",
    "p99",
    "puts/s, of the first",
    "p50, of the first",
];

fn render(args: &ColocatedArgs, runs: &[Run]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for (protocol, application, threads) in args.settings() {
        for &clients in &args.clients {
            let case = Case {
                protocol: protocol.to_owned(),
                application,
                threads,
                clients,
            };
            let of_case: Vec<&Run> = runs.iter().filter(|run| run.case == case).collect();
            for &way in &args.ways {
                let mut row = vec![protocol.to_owned(), application.name().to_owned()];
                row.push(format!("{threads:?}").to_lowercase());
                row.push(clients.to_string());
                row.push(way.name().to_owned());
                row.extend(cells(&of_case, way, args.ways[0]));
                rows.push(row);
            }
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{} replicas in one process on {cores} cores, in memory, {} B values; medians of {} turns, ratios within \
         each\n{}",
        args.replicas,
        args.val_size,
        args.pairs,
        align(&rows)
    )
}

/// One way, of the runs that differ in that alone.
fn cells(runs: &[&Run], way: Way, first: Way) -> [String; 5] {
    let mine = || runs.iter().filter(|run| run.way == way);
    let of = |figure: fn(&Run) -> f64| {
        median(mine().map(|run| figure(run)).collect()).unwrap_or(f64::NAN)
    };
    let ratio = |figure: fn(&Run) -> f64| {
        let ratios = mine().filter_map(|run| {
            let mut others = runs.iter().filter(|other| other.pair == run.pair);
            Some(figure(run) / figure(others.find(|other| other.way == first)?))
        });
        median(ratios.collect()).unwrap_or(f64::NAN)
    };
    [
        show_count(of(|run| run.per_second)),
        show_ns(of(|run| run.p50_ns) as u64),
        show_ns(of(|run| run.p99_ns) as u64),
        format!("{:.2}", ratio(|run| run.per_second)),
        format!("{:.2}", ratio(|run| run.p50_ns)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: every way, with threads and without, for a moment.
    #[test]
    fn replicas_of_one_process_are_measured_by_every_way() {
        let args = ColocatedArgs {
            protocols: vec!["rabia".to_owned()],
            ways: vec![Way::Tcp, Way::Udp, Way::Rings],
            layouts: vec![Threads::Threaded, Threads::Fused],
            applications: vec![Replicated::Plain, Replicated::Null],
            pairs: 1,
            clients: vec![1, 8],
            val_size: 64,
            duration: Duration::from_millis(100),
            warmup: Duration::from_millis(100),
            replicas: 3,
        };
        run(&args).unwrap();
    }

    /// Scenario: the machine is twice as fast in the second turn; the ratio is the same in both.
    #[test]
    fn ratios_are_of_runs_of_the_same_turn() {
        let run = |pair, way, per_second| Run {
            pair,
            case: Case {
                protocol: "chora".to_owned(),
                application: Replicated::Null,
                threads: Threads::Fused,
                clients: 1,
            },
            way,
            per_second,
            p50_ns: 1e6 / per_second,
            p99_ns: 0.0,
        };
        let runs = [
            run(0, Way::Tcp, 10.0),
            run(0, Way::Rings, 40.0),
            run(1, Way::Tcp, 20.0),
            run(1, Way::Rings, 80.0),
        ];
        let runs: Vec<&Run> = runs.iter().collect();
        let [.., puts, p50] = cells(&runs, Way::Rings, Way::Tcp);
        assert_eq!([puts, p50], ["4.00", "0.25"]);
    }
}
