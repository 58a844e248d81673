//! Runs with faults beside equal ones without: what is left of the throughput.

use std::time::Duration;

use tokio::runtime::Runtime;

use super::course::Course;
use super::{FailoverArgs, Kind, one};
use quorate_load::trial::ClusterArgs;
use quorate_tooling::tables::median;
use quorate_tooling::terminal::say;
use quorate_tooling::units::show_ns;

/// What they came to.
pub(super) struct Pairs {
    /// The runs with faults.
    pub(super) hurt: Vec<Course>,
    /// What should not be.
    pub(super) wrong: Vec<String>,
}

/// Runs them in turns, each kind first in every other pair. Where nobody leads, pairs go on with the next
/// replicas, so that all of them are hurt.
pub(super) fn run(
    args: &FailoverArgs,
    runtime: &Runtime,
    cluster: &ClusterArgs,
    kind: Kind,
) -> Result<Pairs, String> {
    let mut hurt = Vec::new();
    let mut ratios: [Vec<f64>; 2] = Default::default();
    for pair in 0..args.pairs {
        let faults = Some(FAULTS * usize::from(pair));
        let order = match pair % 2 == 0 {
            true => [faults, None],
            false => [None, faults],
        };
        let [first, second] = order.map(|first| one(args, runtime, cluster, kind, first));
        let (with, without) = match pair % 2 == 0 {
            true => (first?, second?),
            false => (second?, first?),
        };
        say(format_args!("{with}"));
        let [meanwhile, afterwards] = with.beside(&without, args.resume_within);
        say(format_args!(
            "{:>24} {:>12} of a run without faults: {meanwhile:.2} while one was away, {afterwards:.2} afterwards",
            "", "",
        ));
        ratios[0].push(meanwhile);
        ratios[1].push(afterwards);
        hurt.push(with);
    }
    let [meanwhile, afterwards] = ratios.map(|all| median(all).unwrap_or(f64::NAN));
    let name = format!("{kind}, {}", cluster.protocol);
    say(format_args!(
        "{name}: median of {} pairs: {meanwhile:.2} while one was away, {afterwards:.2} afterwards; {}",
        args.pairs,
        resumed(&hurt),
    ));
    let is_less = |keep: &f64| afterwards < *keep;
    let wrong = args.keep.filter(is_less).map(|keep| {
        format!("{name}: {afterwards:.2} of the throughput was left in the end, which is less than {keep}")
    });
    Ok(Pairs {
        hurt,
        wrong: wrong.into_iter().collect(),
    })
}

/// How soon writes went on, in words.
fn resumed(hurt: &[Course]) -> String {
    let all: Vec<Duration> = hurt.iter().flat_map(Course::all_resumed).collect();
    let ns = |time: &Duration| time.as_nanos() as u64;
    let middle = median(all.iter().map(|time| ns(time) as f64).collect());
    let longest = all.iter().map(ns).max();
    match middle.zip(longest) {
        Some((middle, longest)) => format!(
            "writes went on after {} in the median, {} at most, of {} faults",
            show_ns(middle as u64),
            show_ns(longest),
            all.len()
        ),
        None => "no write went on".to_owned(),
    }
}

/// Of each run.
const FAULTS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::course::tests::course;

    #[test]
    fn how_soon_writes_went_on_is_told_of_all_runs() {
        let words = resumed(&[course(), course()]);
        assert_eq!(
            words,
            "writes went on after 250 ms in the median, 250 ms at most, of 2 faults"
        );
        assert_eq!(resumed(&[]), "no write went on");
    }
}
