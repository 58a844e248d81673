//! `bench clocks`: the clock of one replica goes wrong under load, and is set right again.
//!
//! Real processes serve the plain face, and clients write and read a few keys through all of them. The clock
//! of each replica in its turn goes ahead and falls back by as much as asked for. All that clients saw must have
//! happened one after the other, and how long it takes until latency is what it was is measured: from the
//! moment at which a clock is right again.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use quorate_sim::plain::history::{self, Op};

use crate::cleanup::{self, TempDir};
use crate::load::Keys;
use crate::plain::{Clients, Done, Mix, PlainArgs};
use crate::replicas::{REPLICA, Replicas};
use crate::rounds::say;
use crate::tables::{align, median};
use crate::test_source;
use crate::units;

/// The options of `bench clocks`.
#[derive(Debug, Clone, Args)]
pub struct ClocksArgs {
    #[command(flatten)]
    cluster: PlainArgs,
    /// How far a clock goes wrong, ahead and back
    #[arg(long, default_value = "3600s", value_parser = units::duration)]
    off: Duration,
    /// How long it is wrong, and right again
    #[arg(long, default_value = "2s", value_parser = units::duration)]
    phase: Duration,
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
    /// Decides keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// One clock that went wrong.
struct Turn {
    replica: usize,
    off_ns: i64,
    /// Medians of latency: before, while it was wrong, and in the second half of the time after.
    medians: [Duration; 3],
    /// The slowest answer while it was wrong, and after.
    slowest: Duration,
    /// From when it was right again until latency was what it had been, as the beginning of a window; `None` for
    /// never.
    back: Option<Duration>,
    failed: usize,
}

/// Runs it: 0 when all went well, 1 when a check failed, 2 when it could not run.
pub fn run(args: &ClocksArgs) -> ExitCode {
    cleanup::on_interrupt();
    let all_well = if args.within.is_zero() {
        "all that clients saw happened one after the other; latency was not judged"
    } else {
        "all that clients saw happened one after the other, and latency came back in time"
    };
    crate::ended_with(clocks(args), all_well)
}

fn clocks(args: &ClocksArgs) -> Result<Vec<String>, String> {
    let sources =
        TempDir::new(args.cluster.data_dir.as_deref()).map_err(|error| error.to_string())?;
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
    let (mut all, mut turns) = (load.take(), Vec::new());
    let off_ns = i64::try_from(args.off.as_nanos()).map_err(|_| "--off is too long".to_owned())?;
    for replica in 0..args.cluster.replicas.into() {
        for off_ns in [off_ns, -off_ns] {
            let phase = |all: &mut Vec<Done>| {
                std::thread::sleep(args.phase);
                let done = load.take();
                all.extend_from_slice(&done);
                done
            };
            let before = phase(&mut all);
            tell(replica, off_ns)?;
            let wrong = phase(&mut all);
            tell(replica, 0)?;
            let right_at = load.elapsed();
            let after = phase(&mut all);
            let turn = judge(replica, off_ns, right_at, [&before, &wrong, &after]);
            say(format_args!("{}", turn.line()));
            turns.push(turn);
        }
    }
    all.extend(load.stop());
    print!("{}", table(&turns));
    let ops: Vec<Op> = all.iter().filter_map(|done| done.op.clone()).collect();
    println!(
        "{} operations, {} without an answer, checked",
        ops.len(),
        all.iter().filter(|done| !done.is_answered).count()
    );
    let mut violations: Vec<String> = history::check(&ops).err().into_iter().collect();
    let is_judged = !args.within.is_zero();
    for turn in turns
        .iter()
        .filter(|turn| is_judged && turn.back.is_none_or(|back| back + WINDOW > args.within))
    {
        violations.push(format!("latency came back too late: {}", turn.line()));
    }
    Ok(violations)
}

fn begin(args: &ClocksArgs, sources: String) -> Result<Replicas, String> {
    let cluster = &args.cluster;
    let options = cluster.options(format!("--server-arg=--test-source={sources}/{REPLICA}"));
    let (binary, parent) = (cluster.binary()?, cluster.data_dir.as_deref());
    Replicas::begin(
        binary,
        cluster.replicas,
        parent,
        &options,
        START_PATIENCE,
        None,
    )
}

fn judge(replica: usize, off_ns: i64, right_at: Duration, phases: [&[Done]; 3]) -> Turn {
    let middle = |done: &[Done]| {
        let took = done.iter().filter(|one| one.is_answered);
        let took = took.map(|one| one.took.as_secs_f64());
        Duration::from_secs_f64(median(took.collect()).unwrap_or_default())
    };
    let [before, wrong, after] = phases;
    let both = wrong.iter().chain(after);
    Turn {
        replica,
        off_ns,
        medians: [
            middle(before),
            middle(wrong),
            middle(&after[after.len() / 2..]),
        ],
        slowest: both.clone().map(|one| one.took).max().unwrap_or_default(),
        back: back(before, after, right_at),
        failed: both.filter(|one| !one.is_answered).count(),
    }
}

/// When latency was what it had been: the beginning of the first windows in a row whose medians are no higher
/// than nearly all before. Later ones may be: others use the machine, as they did before.
fn back(before: &[Done], after: &[Done], right_at: Duration) -> Option<Duration> {
    let began = before.iter().map(|one| one.at).min()?;
    let mut usual: Vec<f64> = windows(before, began).into_iter().flatten().collect();
    usual.sort_unstable_by(f64::total_cmp);
    let most = usual.get((usual.len() * USUAL_TENTHS / 10).min(usual.len().checked_sub(1)?))?;
    let is_usual = |median: &Option<f64>| median.is_some_and(|median| median <= *most);
    let after = windows(after, right_at);
    let first = after
        .windows(WINDOWS_IN_ROW)
        .position(|row| row.iter().all(is_usual))?;
    Some(WINDOW * first as u32)
}

/// The medians of latency in windows of time from `began` on; `None` where nothing was answered. The last
/// one, which may be cut short, is left out.
fn windows(done: &[Done], began: Duration) -> Vec<Option<f64>> {
    let mut took: Vec<Vec<f64>> = Vec::new();
    for one in done.iter().filter(|one| one.at >= began) {
        let index = ((one.at - began).as_nanos() / WINDOW.as_nanos()) as usize;
        took.resize(took.len().max(index + 1), Vec::new());
        took[index].push(match one.is_answered {
            true => one.took.as_secs_f64(),
            false => f64::INFINITY,
        });
    }
    took.pop();
    took.into_iter().map(median).collect()
}

impl Turn {
    fn line(&self) -> String {
        let off = self.off_ns / 1_000_000_000;
        format!(
            "replica {}, {off:+} s: {} before, {} wrong, {} after; back {}",
            self.replica + 1,
            micros(self.medians[0]),
            micros(self.medians[1]),
            micros(self.medians[2]),
            self.back_words()
        )
    }

    fn back_words(&self) -> String {
        match self.back {
            Some(back) => format!("within {} ms", (back + WINDOW).as_millis()),
            None => "never".to_owned(),
        }
    }
}

fn micros(time: Duration) -> String {
    format!("{} us", time.as_micros())
}

fn table(turns: &[Turn]) -> String {
    let head = [
        "replica",
        "off",
        "p50 before",
        "p50 wrong",
        "p50 after",
        "slowest",
        "back",
        "failed",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for turn in turns {
        rows.push(vec![
            (turn.replica + 1).to_string(),
            format!("{:+} s", turn.off_ns / 1_000_000_000),
            micros(turn.medians[0]),
            micros(turn.medians[1]),
            micros(turn.medians[2]),
            micros(turn.slowest),
            turn.back_words(),
            turn.failed.to_string(),
        ]);
    }
    align(&rows)
}

const WARM_UP: Duration = Duration::from_secs(1);
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Over how long a median of latency is taken.
const WINDOW: Duration = Duration::from_millis(50);
/// Latency is what it was while medians are no higher than so many tenths of those before.
const USUAL_TENTHS: usize = 9;
/// So many windows in a row say so.
const WINDOWS_IN_ROW: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn done(at_ms: u64, took_us: u64) -> Done {
        Done {
            op: None,
            took: Duration::from_micros(took_us),
            at: Duration::from_millis(at_ms),
            is_answered: true,
        }
    }

    #[test]
    fn latency_is_back_once_windows_in_a_row_are_as_before() {
        let right_at = Duration::from_millis(1_000);
        let before: Vec<Done> = (0..1_000).map(|ms| done(ms, 1_000)).collect();
        let slow_until = |until: u64| {
            let took = move |ms| if ms < until { 9_000 } else { 900 };
            let after: Vec<Done> = (1_000..1_400).map(|ms| done(ms, took(ms))).collect();
            back(&before, &after, right_at)
        };
        assert_eq!(slow_until(1_000), Some(Duration::ZERO));
        assert_eq!(slow_until(1_080), Some(Duration::from_millis(100)));
        assert_eq!(slow_until(1_500), None);
    }
}
