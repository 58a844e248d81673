//! Domino: seeds that must pass.

use crate::runs::{self, hits};
use quorate_sim::Report;
use std::ops::Range;

fn pass(line: &str, seeds: Range<u64>) -> Vec<Report> {
    runs::pass(&format!("--protocol domino {line}"), seeds)
}

#[test]
fn three_members_pass() {
    let reports = pass("--replicas 3", 0..15);
    for branch in [
        "committed at the gateway",
        "lane taken over",
        "position proposed again",
    ] {
        assert!(hits(&reports, branch) > 0, "{branch}");
    }
}

#[test]
fn clusters_of_other_sizes_pass() {
    pass("--replicas 5", 0..5);
    pass("--replicas 4", 0..3);
    pass("--replicas 2", 0..3);
    pass("--replicas 1", 0..3);
}

#[test]
fn lanes_of_members_alone_and_rare_beats_pass() {
    pass("--replicas 3 --param way=dm", 0..5);
    pass(
        "--replicas 3 --param heartbeat_ms=10 --param reserve_ms=1",
        0..5,
    );
}
