//! Seeds that are run, and what is expected of each.

use quorate_sim::{Report, Simulator, parse};

/// A simulator by its command line.
pub(crate) fn simulator(line: &str) -> Simulator {
    Simulator::new(&parse(line).unwrap()).unwrap()
}

/// Runs seeds, none of which may show a violation or do too little to tell.
pub(crate) fn pass(line: &str, seeds: impl IntoIterator<Item = u64>) -> Vec<Report> {
    let simulator = simulator(line);
    let reports: Vec<Report> = seeds.into_iter().map(|seed| simulator.seed(seed)).collect();
    for report in &reports {
        assert_eq!(report.violation, None, "{line}, seed {}", report.seed);
        assert!(report.totals.ops >= 500, "{report:?}");
    }
    reports
}

/// How often a rare branch was taken.
pub(crate) fn hits(reports: &[Report], branch: &str) -> u64 {
    let of = |report: &Report| report.totals.branches.get(branch).copied();
    reports.iter().filter_map(of).sum()
}
