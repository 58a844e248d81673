//! `bench members`: members come and go under load. How long each change takes, how long writes stand
//! still meanwhile, and whether one that was acknowledged is missing in the end.
//!
//! Clients are closed loops that write keys of their own, spread over the replicas; each goes on with
//! another when its replica fails. `replace` kills a member (SIGKILL), deletes its folder, adds a new
//! replica and removes the old member, one after the other; `resize` adds and removes one at a time;
//! `switch` goes from each protocol to each other, every time with a replica killed just before and
//! started again right afterwards.

mod circuit;
mod fleet;
mod step;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tokio::runtime::Runtime;

use quorate_protocols::{Code, ready_names};

use crate::cleanup;
use crate::rounds::say;
use crate::trial::{Load, Sample};
use crate::units;
use circuit::circuit;
use fleet::Fleet;
use step::Step;

/// The options of `bench members`.
#[derive(Debug, Clone, Args)]
pub struct MembersArgs {
    /// How the replicas agree
    #[arg(long, default_value = "multi-paxos")]
    protocol: String,
    /// Replicas to begin with
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    replicas: u16,
    /// What is done
    #[arg(long, default_value = "replace")]
    plan: Plan,
    /// How often
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Between two changes
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    pause: Duration,
    /// Clients, spread over the replicas, each with one write outstanding
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Bytes per value
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    val_size: usize,
    /// Values written before the load begins: what a new replica has to fetch
    #[arg(long, default_value_t = 10_000)]
    fill: u64,
    /// The code of rs-paxos where the plan goes to it, as N,K
    #[arg(long, value_name = "N,K")]
    code: Option<Code>,
    /// A parameter of the protocol; repeated
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<String>,
    /// Decides keys and values [default: drawn at random and printed]
    #[arg(long)]
    seed: Option<u64>,
    /// The quorate executable [default: this one]
    #[arg(long)]
    quorate: Option<PathBuf>,
    /// Directory for the data, on the disk to test [default: TMPDIR or here]
    #[arg(long)]
    data_dir: Option<PathBuf>,
}

/// What is done to the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Plan {
    /// Each of three members dies for good, and a new one takes its place
    Replace,
    /// Four members more, one by one, and back
    Resize,
    /// From each protocol to each other, with kills
    Switch,
}

/// Runs it: 0 when nothing was lost, 1 otherwise, 2 when it could not run.
pub fn run(args: &MembersArgs) -> ExitCode {
    cleanup::on_interrupt();
    crate::ended_with(members(args), "no violation")
}

fn members(args: &MembersArgs) -> Result<Vec<String>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
    let steps = args.plan.steps(args.rounds, &args.protocol);
    let is_new = |step: &&Step| matches!(step, Step::Add | Step::Replace);
    let replicas = args.replicas + steps.iter().filter(is_new).count() as u16;
    let mut fleet = Fleet::begin(args, &runtime, replicas)?;
    say(format_args!(
        "{}, {} replicas, {} clients, {} B values, seed {seed}, data in {}",
        args.protocol,
        args.replicas,
        args.clients,
        args.val_size,
        fleet.directory().display()
    ));
    let load = Load::new(seed, args.val_size, 0.0, &fleet.endpoints());
    runtime.block_on(load.fill(args.fill))?;
    let began = Instant::now();
    let clients = load.start(&runtime, args.clients, began);
    let done = walk(args, &runtime, &mut fleet, (&load, &steps), began);
    let samples = runtime.block_on(load.stop(clients))?;
    let done = done?;
    let violations = runtime.block_on(load.verify(&fleet.endpoints()))?;
    if !violations.is_empty() {
        fleet.keep();
    }
    say(format_args!(
        "{}",
        Summary {
            done: &done,
            samples: &samples
        }
    ));
    Ok(violations)
}

/// Takes one step after the other; says when each began and ended.
fn walk(
    args: &MembersArgs,
    runtime: &Runtime,
    fleet: &mut Fleet,
    (load, steps): (&Load, &[Step]),
    began: Instant,
) -> Result<Vec<Done>, String> {
    let mut done = Vec::new();
    for step in steps {
        std::thread::sleep(args.pause);
        let from = began.elapsed();
        let what = step.take(runtime, fleet, load)?;
        let until = began.elapsed();
        done.push(Done { what, from, until });
    }
    std::thread::sleep(args.pause);
    Ok(done)
}

impl Plan {
    fn steps(self, rounds: u16, protocol: &str) -> Vec<Step> {
        let once = match self {
            Plan::Replace => vec![Step::Replace; 3],
            Plan::Resize => [[Step::Add; 4], [Step::Remove; 4]].concat(),
            Plan::Switch => {
                let mut names = ready_names();
                names.sort_by_key(|name| *name != protocol);
                let walk = circuit(names.len()).into_iter();
                walk.map(|to| Step::Switch(names[to])).collect()
            }
        };
        once.repeat(rounds.into())
    }
}

/// A change that was made.
#[derive(Debug)]
struct Done {
    what: String,
    /// Since the load began.
    from: Duration,
    until: Duration,
}

/// What people read in the end.
struct Summary<'a> {
    done: &'a [Done],
    /// In the order in which they were acknowledged.
    samples: &'a [Sample],
}

impl Summary<'_> {
    /// The longest time without an acknowledgement that touches this stretch.
    fn gap(&self, from: Duration, until: Duration) -> Duration {
        let times = self.samples.windows(2);
        let gaps = times.map(|pair| (pair[0].done, pair[1].done));
        let touching = gaps.filter(|(begin, end)| *end >= from && *begin <= until);
        touching
            .map(|(begin, end)| end - begin)
            .max()
            .unwrap_or_default()
    }

    fn rate(&self, from: Duration, until: Duration) -> f64 {
        let within = |sample: &&Sample| (from..until).contains(&sample.done);
        let count = self.samples.iter().filter(within).count();
        count as f64 / (until - from).as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |time: Duration| units::show_ns(time.as_nanos() as u64);
        writeln!(
            f,
            "{:>38} {:>10} {:>12} {:>10}",
            "change", "took", "longest gap", "writes/s"
        )?;
        for Done { what, from, until } in self.done {
            let (took, gap) = (show(*until - *from), show(self.gap(*from, *until)));
            let rate = units::show_count(self.rate(*from, *until));
            writeln!(f, "{what:>38} {took:>10} {gap:>12} {rate:>10}")?;
        }
        let first = self.done.first().map_or(Duration::ZERO, |done| done.from);
        let last = self
            .samples
            .last()
            .map_or(Duration::ZERO, |sample| sample.done);
        let all = self.gap(Duration::ZERO, last);
        write!(
            f,
            "{} writes acknowledged, {} writes/s before the first change, longest gap of all {}",
            units::show_count(self.samples.len() as f64),
            units::show_count(self.rate(Duration::ZERO, first)),
            show(all)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(done_ms: u64) -> Sample {
        Sample {
            sent: Duration::ZERO,
            done: Duration::from_millis(done_ms),
            is_write: true,
        }
    }

    #[test]
    fn a_gap_belongs_to_the_change_that_it_touches() {
        let samples = [10, 20, 120, 130, 300].map(sample);
        let summary = Summary {
            done: &[],
            samples: &samples,
        };
        let ms = Duration::from_millis;
        assert_eq!(summary.gap(ms(0), ms(15)), ms(10));
        assert_eq!(summary.gap(ms(50), ms(60)), ms(100));
        assert_eq!(summary.gap(ms(0), ms(300)), ms(170));
    }

    #[test]
    fn a_plan_ends_with_as_many_members_as_it_began_with() {
        for plan in [Plan::Replace, Plan::Resize] {
            let steps = plan.steps(2, "rabia");
            let count = |kind| steps.iter().filter(|step| **step == kind).count();
            assert_eq!(count(Step::Add), count(Step::Remove));
        }
    }
}
