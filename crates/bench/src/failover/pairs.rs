//! Runs with faults beside equal ones without: what is left of the throughput.

use tokio::runtime::Runtime;

use super::course::Course;
use super::{FailoverArgs, Mix, one};
use crate::rounds::say;
use crate::trial::ClusterArgs;

/// Runs them in turns, each kind first in every other pair; all that were hurt.
pub(super) fn run(
    args: &FailoverArgs,
    runtime: &Runtime,
    cluster: &ClusterArgs,
    mix: Mix,
) -> Result<Vec<Course>, String> {
    let mut hurt = Vec::new();
    let mut ratios: [Vec<f64>; 2] = Default::default();
    for pair in 0..args.pairs {
        let hurt_first = pair % 2 == 0;
        let first = one(args, runtime, cluster, mix, hurt_first)?;
        let second = one(args, runtime, cluster, mix, !hurt_first)?;
        let (with, without) = if hurt_first {
            (first, second)
        } else {
            (second, first)
        };
        say(format_args!("{with}"));
        let [meanwhile, afterwards] = with.beside(&without, args.resume_within);
        say(format_args!(
            "{:>16} {:>12} of a run without faults: {meanwhile:.2} while one was away, {afterwards:.2} afterwards",
            "", "",
        ));
        ratios[0].push(meanwhile);
        ratios[1].push(afterwards);
        hurt.push(with);
    }
    let [meanwhile, afterwards] = ratios.map(|mut all| median(&mut all));
    say(format_args!(
        "{}, {}: median of {} pairs: {meanwhile:.2} while one was away, {afterwards:.2} afterwards",
        mix.name(),
        cluster.protocol,
        args.pairs,
    ));
    Ok(hurt)
}

/// The middle one, or the mean of the two in the middle.
fn median(all: &mut [f64]) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    let upper = all.get(all.len() / 2).copied().unwrap_or(f64::NAN);
    let lower = all.get(all.len().saturating_sub(1) / 2).copied();
    (lower.unwrap_or(upper) + upper) / 2.0
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut []).is_nan());
    }
}
