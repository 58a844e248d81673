//! A failing seed made smaller: fewer faults, operations and clients, less time, as far as the
//! violation stays.

use crate::nemesis::FAULTS;
use crate::options::SimOptions;

/// Runs spent on looking for smaller ones.
const RUNS_MAX: usize = 100;
/// Fewer operations than this are not worth a run.
const OPS_MIN: u64 = 5;

/// Gives options under which the violation stays although they ask for less. `profiles` are those
/// that take part in the seed; `stays` runs the seed with other options and says whether the same
/// kind of violation comes.
pub(crate) fn shrink(
    options: &SimOptions,
    profiles: &[&'static str],
    mut stays: impl FnMut(&SimOptions) -> bool,
) -> SimOptions {
    let mut best = options.clone();
    best.profile = profiles.iter().map(ToString::to_string).collect();
    if best.profile.is_empty() {
        best.profile.push("calm".into());
    }
    let mut runs = 0;
    loop {
        let candidates = smaller(&best);
        let found = candidates.into_iter().find(|candidate| {
            runs += 1;
            runs <= RUNS_MAX && stays(candidate)
        });
        match found {
            Some(candidate) => best = candidate,
            None => return best,
        }
    }
}

/// Options that ask for a little less, the most promising first.
fn smaller(options: &SimOptions) -> Vec<SimOptions> {
    let mut candidates = Vec::new();
    let mut with = |change: &dyn Fn(&mut SimOptions)| {
        let mut candidate = options.clone();
        change(&mut candidate);
        candidates.push(candidate);
    };
    if options.ops > OPS_MIN {
        with(&|o| (o.ops, o.hurt_ms) = (o.ops / 4, o.hurt_ms / 4));
        with(&|o| o.ops /= 2);
    }
    if options.hurt_ms > 1 {
        with(&|o| o.hurt_ms /= 2);
    }
    for dropped in options.profile.iter().filter(|_| options.profile.len() > 1) {
        with(&|o| o.profile.retain(|name| name != dropped));
    }
    let is_classic = options.profile.iter().any(|name| name == "classic");
    for (_, fault) in FAULTS.iter().filter(|_| is_classic) {
        if !options.without.iter().any(|name| name == fault) {
            with(&|o| o.without.push((*fault).into()));
        }
    }
    match options.clients {
        None => [1, 2, 4]
            .iter()
            .for_each(|clients| with(&|o| o.clients = Some(*clients))),
        Some(clients) if clients > 1 => with(&|o| o.clients = Some(clients / 2)),
        Some(_) => {}
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Simulator, parse};

    fn options(line: &str) -> SimOptions {
        parse(line).unwrap()
    }

    #[test]
    fn what_the_violation_does_not_need_is_left_out() {
        let profiles = ["loss", "pauses", "crashes"];
        let needs = |o: &SimOptions| o.profile.iter().any(|name| name == "pauses") && o.ops >= 100;
        let small = shrink(&options("--ops 1000"), &profiles, needs);
        assert_eq!(small.profile, ["pauses"]);
        assert_eq!((small.ops, small.clients), (125, Some(1)));
        assert!(small.hurt_ms < 10);
    }

    #[test]
    fn a_mutant_is_still_caught_in_the_smaller_run() {
        let options = options("--profile swarm --mutant proposal-threshold");
        let kind = |options: &SimOptions, seed| {
            let report = Simulator::new(options).unwrap().seed(seed);
            report.violation.map(|violation| violation.kind)
        };
        let seed = (0..50)
            .find(|seed| kind(&options, *seed).is_some())
            .unwrap();
        let profiles = Simulator::new(&options).unwrap().taking_part(seed);
        let same = kind(&options, seed);
        let small = shrink(&options, &profiles, |o| kind(o, seed) == same);
        assert_eq!(kind(&small, seed), same);
        assert!(small.ops < options.ops, "{}", small.command(seed));
        assert!(small.profile.len() < profiles.len().max(2));
    }
}
