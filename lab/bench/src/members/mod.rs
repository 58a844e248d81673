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
mod plot;
mod step;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tokio::runtime::Runtime;

use quorate_protocols::Code;

use circuit::circuit;
use fleet::Fleet;
use quorate_load::trial::Load;
use quorate_tooling::cleanup;
use quorate_tooling::program::Place;
use quorate_tooling::terminal::say;
use quorate_tooling::units;
use step::Step;
use summary::{Done, Summary};

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
    /// How often the plan is carried out
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
    /// Draw writes over time around the first change of each kind into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Decides keys and values [default: drawn at random and printed]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    place: Place,
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
    /// Each kind of change once, beside none
    Kinds,
    /// From the usual number of proposers to one, and back, beside none; a request that fails is a violation
    Proposers,
}

/// Runs it: 0 when nothing was lost, 1 otherwise, 2 when it could not run.
pub fn run(args: &MembersArgs) -> ExitCode {
    cleanup::on_interrupt();
    quorate_load::ended_with(members(args), "no violation")
}

fn members(args: &MembersArgs) -> Result<Vec<String>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
    let steps = args.steps();
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
    let done = walk(args, &runtime, &mut fleet, &steps, &load, began);
    let samples = runtime.block_on(load.stop(clients))?;
    let done = done?;
    if let Some(path) = &args.plot {
        let title = format!("{}, {} replicas", args.protocol, args.replicas);
        std::fs::write(path, plot::render(&done, &samples, &title))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let mut violations = runtime.block_on(load.verify(&fleet.endpoints()))?;
    let failed = load.failures().len();
    if args.plan == Plan::Proposers && failed > 0 {
        violations.push(format!("{failed} requests failed, and none should"));
    }
    if !violations.is_empty() {
        fleet.keep();
    }
    say(format_args!(
        "{}",
        Summary {
            done: &done,
            samples: &samples,
            failures: &load.failures(),
        }
    ));
    Ok(violations)
}

/// Takes one step after the other; says when each began and ended.
fn walk(
    args: &MembersArgs,
    runtime: &Runtime,
    fleet: &mut Fleet,
    steps: &[Step],
    load: &Load,
    began: Instant,
) -> Result<Vec<Done>, String> {
    let mut done = Vec::new();
    for step in steps {
        std::thread::sleep(args.pause);
        let from = began.elapsed();
        let what = step.take(runtime, fleet, load)?;
        let until = began.elapsed();
        done.push(Done {
            kind: step.kind(),
            what,
            from,
            until,
        });
    }
    std::thread::sleep(args.pause);
    Ok(done)
}

impl MembersArgs {
    fn steps(&self) -> Vec<Step> {
        let protocol = self.protocol.as_str();
        let once = match self.plan {
            Plan::Replace => vec![Step::Replace; 3],
            Plan::Resize => [[Step::Add; 4], [Step::Remove; 4]].concat(),
            Plan::Switch => {
                let mut names = quorate_protocols::names();
                names.sort_by_key(|name| *name != protocol);
                let walk = circuit(names.len()).into_iter();
                let step = |to| Step::Switch {
                    to: names[to],
                    without_one: true,
                };
                walk.map(step).collect()
            }
            Plan::Kinds => self.kinds(),
            Plan::Proposers => vec![
                Step::Nothing(NOTHING_FOR),
                Step::Parameter(PROPOSERS, 1),
                Step::Parameter(PROPOSERS, self.replicas.into()),
            ],
        };
        once.repeat(self.rounds.into())
    }

    /// Each kind of change, so that all is as before in the end.
    fn kinds(&self) -> Vec<Step> {
        let mut steps = vec![
            Step::Nothing(NOTHING_FOR),
            Step::Add,
            Step::Remove,
            Step::Replace,
        ];
        steps.push(Step::Parameter("batch_commands", BATCH_COMMANDS));
        if let Some(code) = self.code {
            steps.extend([Step::Code(1), Step::Code(code.k)]);
        }
        let names = quorate_protocols::names();
        let own = names.iter().find(|name| **name == self.protocol);
        let other = names.iter().find(|name| **name != self.protocol);
        let there_and_back = other.into_iter().chain(own);
        steps.extend(there_and_back.map(|to| Step::Switch {
            to,
            without_one: false,
        }));
        steps
    }
}

/// A stretch without a change, about as long as one with a change.
const NOTHING_FOR: Duration = Duration::from_secs(1);
/// Another number than the usual one, which does not slow this load down.
const BATCH_COMMANDS: u32 = 512;
const PROPOSERS: &str = "proposers";

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: MembersArgs,
    }

    #[test]
    fn proposers_come_back() {
        let words = [
            "bench",
            "--rounds",
            "1",
            "--replicas",
            "5",
            "--plan",
            "proposers",
        ];
        let steps = <Cli as clap::Parser>::parse_from(words).args.steps();
        let changes = [
            Step::Parameter("proposers", 1),
            Step::Parameter("proposers", 5),
        ];
        assert_eq!(steps[1..], changes);
    }

    #[test]
    fn a_plan_ends_with_as_many_members_as_it_began_with() {
        for plan in ["replace", "resize", "kinds"] {
            let words = [
                "bench",
                "--rounds",
                "2",
                "--protocol",
                "rabia",
                "--plan",
                plan,
            ];
            let steps = <Cli as clap::Parser>::parse_from(words).args.steps();
            let count = |kind| steps.iter().filter(|step| **step == kind).count();
            assert_eq!(count(Step::Add), count(Step::Remove));
        }
    }
}
