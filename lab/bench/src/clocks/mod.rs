//! `bench clocks`: the clock of one replica goes wrong under load, and is set right again.
//!
//! Real processes serve the plain face, and clients write and read a few keys through all of them. The clock
//! of each replica in its turn goes ahead and falls back by as much as asked for, in every round. All that clients
//! saw must have happened one after the other, and how long it takes until latency is what it was is measured:
//! from the moment at which a clock is right again.
//!
//! A single turn proves nothing about that: whoever else uses the machine is late now and then, whatever a clock
//! does. So each round has a turn in which no clock goes wrong, the median of the rounds is judged, and when that
//! turn is late too, nothing is.

mod turn;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use quorate_sim::versions::{self, Op};

use crate::plain::{Clients, Done, Mix, PlainArgs};
use crate::test_source;
use quorate_load::load::Keys;
use quorate_load::replicas::{REPLICA, Replicas};
use quorate_tooling::cleanup::{self, TempDir};
use quorate_tooling::tables::align;
use quorate_tooling::terminal::say;
use quorate_tooling::units;
use turn::{Case, Turn};

/// The options of `bench clocks`.
#[derive(Debug, Clone, Args)]
pub struct ClocksArgs {
    #[command(flatten)]
    cluster: PlainArgs,
    /// How far a clock goes wrong, ahead and back
    #[arg(long, default_value = "3600s", value_parser = units::duration)]
    off: Duration,
    /// How long it is right before, wrong, and right again
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    phase: Duration,
    /// How often each clock goes wrong each way; the medians are judged
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Clients, each with one request at a time
    #[arg(long, default_value_t = 12)]
    clients: usize,
    /// The least time from one request of a client to its next
    #[arg(long, default_value = "4ms", value_parser = units::duration)]
    pace: Duration,
    /// Keys there are
    #[arg(long, default_value_t = 20)]
    keys: u64,
    /// Latency must be what it was so soon after a clock is right again; with 0s only what clients saw is judged
    #[arg(long, default_value = "100ms", value_parser = units::duration)]
    within: Duration,
    /// The seed that decides keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs it: 0 when all went well, 1 when a check failed, 2 when it could not run.
pub fn run(args: &ClocksArgs) -> ExitCode {
    cleanup::on_interrupt();
    let all_well = if args.within.is_zero() {
        "all that clients saw happened one after the other; latency was not judged"
    } else {
        "all that clients saw happened one after the other, and latency came back in time"
    };
    quorate_load::ended_with(clocks(args), all_well)
}

fn clocks(args: &ClocksArgs) -> Result<Vec<String>, String> {
    let sources = TempDir::new(args.cluster.place.parent()).map_err(|error| error.to_string())?;
    let source = |replica: usize| sources.path().join((replica + 1).to_string());
    let tell =
        |replica: usize, off_ns: i64| test_source::write(&source(replica), off_ns, Duration::ZERO);
    (0..args.cluster.replicas.into()).try_for_each(|replica| tell(replica, 0))?;
    let replicas = begin(args, sources.path().display().to_string())?;
    let mix = Mix {
        keys: Arc::new(Keys::new(args.keys, 0.0)),
        two_keys: 0.3,
        reads: 0.4,
        pace: args.pace,
        patience: PATIENCE,
    };
    let load = Clients::start(&replicas.endpoints, args.clients, &mix, args.seed)?;
    std::thread::sleep(WARM_UP);
    let mut all = load.take();
    let mut cases = Case::all(args.cluster.replicas, args.off)?;
    for _ in 0..args.rounds {
        for case in &mut cases {
            let phase = |all: &mut Vec<Done>| {
                std::thread::sleep(args.phase);
                let done = load.take();
                all.extend_from_slice(&done);
                done
            };
            let before = phase(&mut all);
            tell(case.replica, case.off_ns)?;
            let wrong = phase(&mut all);
            tell(case.replica, 0)?;
            let right_at = load.elapsed();
            let after = phase(&mut all);
            let turn = Turn::of([&before, &wrong, &after], right_at);
            say(format_args!("{}: {}", case.name(), turn.line()));
            case.turns.push(turn);
        }
    }
    all.extend(load.stop());
    print!("{}", table(&cases, args.within));
    let ops: Vec<Op> = all.iter().filter_map(|done| done.op.clone()).collect();
    println!(
        "{} operations, {} without an answer, checked",
        ops.len(),
        all.iter().filter(|done| !done.is_answered).count()
    );
    let mut violations: Vec<String> = versions::check(&ops).err().into_iter().collect();
    if violations.is_empty() && !args.within.is_zero() {
        violations.extend(late(&cases, args.within)?);
    }
    Ok(violations)
}

/// The cases whose median is late. Fails when it is without a clock that went wrong: such a machine tells nothing.
fn late(cases: &[Case], within: Duration) -> Result<Vec<String>, String> {
    let late = |case: &&Case| turn::is_late(case.back(), within);
    if let Some(control) = cases.iter().filter(|case| case.is_control()).find(late) {
        return Err(format!(
            "latency cannot be judged on this machine now: it was what it had been {} with no clock wrong. \
             Stop what else runs, or ask for less with --within",
            turn::within_words(control.back())
        ));
    }
    let sentence = |case: &Case| {
        let (name, back) = (case.name(), turn::within_words(case.back()));
        format!("latency came back too late: {name}: {back}, the median of all rounds")
    };
    Ok(cases.iter().filter(late).map(sentence).collect())
}

fn begin(args: &ClocksArgs, sources: String) -> Result<Replicas, String> {
    let cluster = &args.cluster;
    let options = cluster.options(format!("--server-arg=--test-source={sources}/{REPLICA}"));
    let (binary, parent) = (cluster.place.binary()?, cluster.place.parent());
    Replicas::begin(
        binary,
        cluster.replicas,
        parent,
        &options,
        START_PATIENCE,
        None,
    )
}

fn table(cases: &[Case], within: Duration) -> String {
    let head = [
        "clock",
        "p50 before",
        "p50 wrong",
        "p50 after",
        "slowest",
        "back",
        "late",
        "failed",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for case in cases {
        let [before, wrong, after] = case.medians().map(turn::micros);
        let is_late = |turn: &&Turn| turn::is_late(turn.back, within);
        let late = case.turns.iter().filter(is_late).count();
        rows.push(vec![
            case.name(),
            before,
            wrong,
            after,
            turn::micros(case.slowest()),
            turn::within_words(case.back()),
            match within.is_zero() {
                true => "not judged".to_owned(),
                false => format!("{late} of {}", case.turns.len()),
            },
            case.turns
                .iter()
                .map(|turn| turn.failed)
                .sum::<usize>()
                .to_string(),
        ]);
    }
    align(&rows)
}

const WARM_UP: Duration = Duration::from_secs(1);
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(2);
