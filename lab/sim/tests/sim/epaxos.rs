//! EPaxos: seeds that must pass, where everything conflicts and where writes of different keys do not.

use crate::runs::{self, hits};
use quorate_sim::Report;
use std::ops::Range;

fn pass(line: &str, seeds: Range<u64>) -> Vec<Report> {
    runs::pass(&format!("--protocol epaxos {line}"), seeds)
}

#[test]
fn three_members_pass() {
    let reports = pass("--replicas 3", 0..15);
    for branch in [
        "instance made void",
        "instance recovered",
        "value validated",
    ] {
        assert!(hits(&reports, branch) > 0, "{branch}");
    }
}

#[test]
fn writes_that_commute_pass() {
    let reports = pass("--replicas 3 --store plain", 0..10);
    assert!(hits(&reports, "mark proposed") > 0);
    pass("--replicas 5 --store plain", 0..5);
}

#[test]
fn entries_that_are_held_pass() {
    let reports = pass("--replicas 3 --param toq_us=200", 0..10);
    assert!(hits(&reports, "value validated") > 0);
    pass("--replicas 5 --param toq_us=1000 --store plain", 0..5);
}

#[test]
fn a_fast_quorum_alone_is_asked_and_passes() {
    pass("--replicas 3 --param thrifty=true", 0..5);
    pass(
        "--replicas 5 --param thrifty=true --store plain --param toq_us=200",
        0..5,
    );
}

#[test]
fn other_sizes_pass() {
    pass("--replicas 5", 0..5);
    pass("--replicas 4", 0..3);
    pass("--replicas 2", 0..3);
    pass("--replicas 1", 0..3);
}

#[test]
fn many_entries_and_few_marks_pass() {
    pass("--replicas 3 --param outstanding=8", 0..5);
    pass("--replicas 3 --store plain --param mark_us=50000", 0..5);
}
