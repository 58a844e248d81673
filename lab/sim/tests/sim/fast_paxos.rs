//! Fast Paxos: seeds that must pass.

use crate::runs::{self, hits};
use quorate_sim::Report;
use std::ops::Range;

fn pass(line: &str, seeds: Range<u64>) -> Vec<Report> {
    runs::pass(&format!("--protocol fast-paxos {line}"), seeds)
}

#[test]
fn three_members_pass() {
    let reports = pass("--replicas 3", 0..15);
    for branch in ["collision", "leader deposed", "slot proposed again"] {
        assert!(hits(&reports, branch) > 0, "{branch}");
    }
}

#[test]
fn other_sizes_pass() {
    pass("--replicas 5", 0..5);
    pass("--replicas 4", 0..3);
    pass("--replicas 2", 0..3);
    pass("--replicas 1", 0..3);
}

#[test]
fn small_windows_and_many_entries_pass() {
    pass("--replicas 3 --param window=1", 0..5);
    pass("--replicas 3 --param outstanding=8", 0..5);
}
