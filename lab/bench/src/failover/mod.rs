//! `bench failover`: a leader killed under load, and the next one after it, as in Figure 8 of the
//! RS-Paxos paper: throughput over time, how soon writes go on, and whether one was lost.
//!
//! Each run has a cluster of its own. Its leader is killed (SIGKILL) after a third of the time, the
//! next leader after two thirds; each is started again some seconds later. Clients are closed
//! loops, spread over the replicas, and go on with the next replica when theirs fails. Replicas may
//! also be paused or slowed down, and where nobody leads each in its turn is the victim.

mod course;
mod harm;
mod pairs;
mod plot;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tokio::runtime::Runtime;

use course::{Course, Outage};
use harm::{Harm, Victims, Watching};
use quorate_load::replicas::Replicas;
use quorate_load::trial::{self, ClusterArgs, Load};
use quorate_tooling::cleanup;
use quorate_tooling::scrape;
use quorate_tooling::terminal::say;
use quorate_tooling::units;

/// The options of `bench failover`.
#[derive(Debug, Clone, Args)]
pub struct FailoverArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The protocol that is measured beside it, with whole values
    #[arg(long, default_value = "multi-paxos")]
    beside: String,
    /// Measure nothing beside it
    #[arg(long)]
    alone: bool,
    /// The loads, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "read,write")]
    loads: Vec<Mix>,
    /// Length of each run
    #[arg(long, default_value = "20s", value_parser = units::duration)]
    duration: Duration,
    /// What is done to a replica; several, separated by commas, in runs of their own
    #[arg(long, value_delimiter = ',', default_value = "kill")]
    fault: Vec<Harm>,
    /// The replicas that are hurt
    #[arg(long, default_value = "leader")]
    victims: Victims,
    /// How long it lasts
    #[arg(long, default_value = "3s", value_parser = units::duration)]
    away: Duration,
    /// Runs of each kind, each beside an equal one in which nothing happens; 0 for one run alone
    #[arg(long, default_value_t = 0)]
    pairs: u16,
    /// The least throughput that may be left when all are back, as a share of that of the equal runs: the median
    /// of all pairs
    #[arg(long, value_name = "SHARE", requires = "pairs")]
    keep: Option<f64>,
    /// Draw this figure of the protocol, too, and say what it was before, during and after faults: the mean
    /// over the replicas of `quorate_protocol{figure="..."}`, such as pulsing
    #[arg(long)]
    watch: Option<String>,
    /// Clients, spread over the replicas, each with one operation outstanding
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Bytes per value
    #[arg(long, default_value = "16KiB", value_parser = units::bytes)]
    val_size: usize,
    /// Values written before the load begins
    #[arg(long, default_value_t = 1000)]
    fill: u64,
    /// Most time between a fault and the next write that is acknowledged
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    resume_within: Duration,
    /// Draw throughput over time to this file, as SVG
    #[arg(long)]
    plot: Option<PathBuf>,
}

/// A kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mix {
    /// Nine reads to one write
    Read,
    /// Nine writes to one read
    Write,
}

impl Mix {
    fn name(self) -> &'static str {
        match self {
            Mix::Read => "read-intensive",
            Mix::Write => "write-intensive",
        }
    }

    fn read_share(self) -> f64 {
        match self {
            Mix::Read => 0.9,
            Mix::Write => 0.1,
        }
    }
}

/// What is run, and what is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    mix: Mix,
    harm: Harm,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, {}", self.mix.name(), self.harm)
    }
}

/// Runs it: 0 when nothing was lost and writes went on in time, 1 otherwise, 2 when it could not run.
pub fn run(args: &FailoverArgs) -> ExitCode {
    cleanup::on_interrupt();
    quorate_load::ended_with(failover(args), "no violation")
}

fn failover(args: &FailoverArgs) -> Result<Vec<String>, String> {
    if args.fault.contains(&Harm::Delays) && args.cluster.delay.is_none() {
        return Err(harm::NEEDS_DELAY.to_owned());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let mut clusters = vec![args.cluster.clone()];
    if !args.alone {
        clusters.push(args.cluster.whole(&args.beside));
    }
    let (mut courses, mut wrong) = (Vec::new(), Vec::new());
    say(format_args!("{}", Course::head()));
    let mut kinds = Vec::new();
    for &mix in &args.loads {
        kinds.extend(args.fault.iter().map(|&harm| Kind { mix, harm }));
    }
    for kind in kinds {
        for cluster in &clusters {
            if args.pairs > 0 {
                let pairs = pairs::run(args, &runtime, cluster, kind)?;
                wrong.extend(pairs.wrong);
                courses.extend(pairs.hurt);
                continue;
            }
            let course = one(args, &runtime, cluster, kind, Some(0))?;
            say(format_args!("{course}"));
            courses.push(course);
        }
    }
    if let Some(path) = &args.plot {
        std::fs::write(path, plot::render(&courses, &args.cluster.title()))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let late = courses.iter();
    wrong.extend(late.flat_map(|course| course.wrong(args.resume_within)));
    Ok(wrong)
}

/// One run, with faults or without; with them, and where nobody leads, this one is hurt first.
fn one(
    args: &FailoverArgs,
    runtime: &Runtime,
    cluster: &ClusterArgs,
    kind: Kind,
    first: Option<usize>,
) -> Result<Course, String> {
    let mut replicas = cluster.begin(&[])?;
    let load = Load::new(
        cluster.seed(),
        args.val_size,
        kind.mix.read_share(),
        &replicas.endpoints,
    );
    runtime.block_on(load.fill(args.fill))?;
    let began = Instant::now();
    let clients = load.start(runtime, args.clients, began);
    let watching =
        (args.watch.as_deref()).map(|figure| Watching::begin(figure, &replicas.endpoints, began));
    let mut counted = Counted::default();
    let struck = match first {
        Some(first) => strike_twice(
            StrikePlan {
                args,
                harm: kind.harm,
                first,
            },
            runtime,
            &mut replicas,
            began,
            &mut counted,
        ),
        None => Ok(Vec::new()),
    };
    sleep_until(began + args.duration);
    let samples = runtime.block_on(load.stop(clients))?;
    let watched = watching.map_or_else(Vec::new, Watching::end);
    let outages = struck?;
    for url in &replicas.endpoints {
        counted.add(url)?;
    }
    let violations = runtime.block_on(load.verify(&replicas.endpoints))?;
    if !violations.is_empty() {
        replicas.keep();
    }
    Ok(Course {
        kind,
        protocol: cluster.protocol.clone(),
        duration: args.duration,
        outages,
        samples,
        figure: args.watch.clone().unwrap_or_default(),
        watched,
        gathered: counted.gathered as u64,
        rebuilt: counted.rebuilt as u64,
        violations,
    })
}

/// Who is hurt, and how.
struct StrikePlan<'a> {
    args: &'a FailoverArgs,
    harm: Harm,
    /// The first victim where replicas take turns.
    first: usize,
}

/// Hurts one after a third of the time, and the next one after two thirds.
fn strike_twice(
    plan: StrikePlan<'_>,
    runtime: &Runtime,
    replicas: &mut Replicas,
    began: Instant,
    counted: &mut Counted,
) -> Result<Vec<Outage>, String> {
    let StrikePlan { args, harm, first } = plan;
    let mut outages = Vec::new();
    for third in 1..=2 {
        sleep_until(began + args.duration * third / 3);
        let victim = match args.victims {
            Victims::Leader => runtime.block_on(trial::leader(&replicas.endpoints))?,
            Victims::Turn => (first + third as usize - 1) % replicas.endpoints.len(),
        };
        if harm == Harm::Kill {
            counted.add(&replicas.endpoints[victim])?;
        }
        let at = began.elapsed();
        harm.strike(replicas, victim, began + at + args.away, args.cluster.delay)?;
        outages.push(Outage {
            at,
            back: began.elapsed(),
        });
    }
    Ok(outages)
}

/// What replicas counted; one that is killed begins again, so it is read before.
#[derive(Default)]
struct Counted {
    gathered: f64,
    rebuilt: f64,
}

impl Counted {
    fn add(&mut self, url: &str) -> Result<(), String> {
        let page = scrape::get(url, "/metrics")?;
        self.gathered += scrape::value(&page, "quorate_payloads_gathered_total");
        self.rebuilt += scrape::value(&page, "quorate_fragments_rebuilt_total");
        Ok(())
    }
}

fn sleep_until(time: Instant) {
    std::thread::sleep(time.saturating_duration_since(Instant::now()));
}
