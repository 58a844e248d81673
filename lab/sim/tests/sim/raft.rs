//! Raft: seeds that must pass, and mutants that must not.

use crate::runs;
use quorate_sim::{Report, Simulator};
use std::ops::Range;

fn simulator(line: &str) -> Simulator {
    runs::simulator(&format!("--protocol raft {line}"))
}

fn pass(line: &str, seeds: Range<u64>) -> Vec<Report> {
    runs::pass(&format!("--protocol raft {line}"), seeds)
}

#[test]
fn three_replicas_pass() {
    let reports = pass("--replicas 3", 0..20);
    let elected = |report: &Report| report.totals.branches.get("elected").copied();
    let elections = reports.iter().filter_map(elected).sum::<u64>();
    assert!(elections > 20, "leaders change: {elections}");
}

#[test]
fn other_sizes_pass() {
    pass("--replicas 5", 0..8);
    pass("--replicas 7", 0..4);
    pass("--replicas 4", 0..4);
    pass("--replicas 1", 0..3);
}

#[test]
fn replicas_without_disks_pass() {
    let mut reports = pass("--replicas 3 --durability memory", 0..10);
    reports.extend(pass("--replicas 5 --durability memory", 0..5));
    let rejoined = |report: &Report| report.totals.branches.contains_key("rejoined");
    assert!(reports.iter().any(rejoined));
}

#[test]
fn small_windows_and_logs_in_many_messages_pass() {
    pass("--param window=1 --param outstanding=1", 0..5);
    pass(
        "--param window=32 --param outstanding=8 --param append_bytes=1",
        0..5,
    );
}

/// A log in many messages, of which the first was lost: each of the others was refused, and each refusal was
/// answered with the whole log. Simulated time stood still.
#[test]
fn refused_parts_of_a_log_do_not_multiply() {
    pass("--replicas 5", 70_000_001..70_000_002);
}

/// A replica went on in a life that was over, and its votes counted nowhere; two of five had lost their promises, so
/// that nobody was elected without it, and nobody told it.
#[test]
fn a_replica_whose_life_is_over_hears_of_it() {
    pass("--replicas 5", 2_000_767..2_000_768);
}

/// A few here, all of them in `scripts/mutants.sh`.
#[test]
fn mutants_are_found() {
    for mutant in ["majority-1", "votes-1", "no-append-record"] {
        let simulator = simulator(&format!("--mutant {mutant}"));
        let found = (0..80).any(|seed| simulator.seed(seed).violation.is_some());
        assert!(found, "{mutant} was not found within 80 seeds");
    }
}
