//! NOPaxos: seeds that must pass.

use crate::runs::{self, hits};
use quorate_sim::Report;
use std::ops::Range;

fn pass(line: &str, seeds: Range<u64>) -> Vec<Report> {
    runs::pass(&format!("--protocol nopaxos {line}"), seeds)
}

#[test]
fn three_members_pass() {
    let reports = pass("--replicas 3", 0..15);
    for branch in ["view started", "gap", "committed before it is delivered"] {
        assert!(hits(&reports, branch) > 0, "{branch}");
    }
}

#[test]
fn clusters_of_other_sizes_pass() {
    pass("--replicas 5", 0..5);
    pass("--replicas 4", 0..3);
    pass("--replicas 1", 0..3);
}

#[test]
fn patience_with_late_stamps_and_small_windows_pass() {
    pass("--replicas 3 --param gap_us=100", 0..5);
    pass("--replicas 3 --param window=1 --param sync_us=5000", 0..5);
}
