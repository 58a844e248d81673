//! RS-Paxos: seeds that must pass, some of which once did not.

use crate::runs::{pass, simulator};

/// All values are coded, however short.
const FIVE: &str = "--protocol rs-paxos --replicas 5 --code 5,3 --param payload_min=1";

#[test]
fn five_replicas_with_three_of_five_codes_pass() {
    let reports = pass(FIVE, 0..6);
    let saw = |branch| {
        let mut branches = reports.iter().map(|report| &report.totals.branches);
        branches.any(|branches| branches.contains_key(branch))
    };
    assert!(saw("elected") && saw("smaller code") && saw("payloads gathered"));
}

#[test]
fn other_codes_pass() {
    pass(
        "--protocol rs-paxos --replicas 3 --code 3,1 --param payload_min=1",
        0..3,
    );
    pass(
        "--protocol rs-paxos --replicas 7 --code 7,5 --param payload_min=1",
        0..2,
    );
    pass(
        "--protocol rs-paxos --replicas 5 --code 5,3 --param profile=flex --param payload_min=1",
        0..3,
    );
}

/// Once: the simulator left a member out for good that lacked a fragment, not the one that had lost its
/// promises.
#[test]
fn who_does_not_vote_is_left_out_first() {
    pass(
        "--protocol rs-paxos --replicas 3 --code 3,1 --param payload_min=1",
        [60_216],
    );
}

/// Once: fragments that could not be read were given up though others had lost theirs (15, 29, 39,
/// 57), tiny ones were moved for ever (1), and a payload that was dead was gathered for ever (86).
#[test]
fn every_fragment_that_is_wanted_is_had_in_the_end() {
    pass(FIVE, [1, 15, 29, 39, 57, 86]);
}

/// Once: damage took promises and the news of a decision from several logs, and these replicas freed
/// the fragments of what they did not know to be decided.
#[test]
fn who_lost_promises_keeps_its_fragments() {
    pass(FIVE, [10_043]);
}

/// Once: a slot that a member only heard of stayed behind when it led (2248), two flipped bits were the
/// same (10033), and the simulator took the last fragments but two of an undecided value (10375), or
/// those of a vote that nothing on the disk vouched for (12791).
#[test]
fn what_once_failed_passes() {
    pass(FIVE, [2248, 10_033, 10_375, 12_791]);
}

/// Once: fragments that were lost left no candidate enough to propose a value again, though a replica
/// that had lost its promises had more of them, which votes no sooner than the value is decided.
#[test]
fn fragments_count_wherever_they_are() {
    pass(FIVE, [22_050]);
    let seven =
        |code| format!("--protocol rs-paxos --replicas 7 --code {code} --param payload_min=1");
    pass(&seven("7,3"), [30_200, 30_650]);
    pass(&seven("7,5"), [80_485]);
}

/// Probing a run changes nothing about it.
#[test]
fn a_seed_repeats_itself_traced_or_not() {
    let simulator = simulator(FIVE);
    let first = simulator.seed(2);
    assert_eq!(simulator.traced(2).0, first);
}

/// Once: a dead payload was gathered for ever, with whole values in the fragment store too; and the simulator
/// wiped the last disk with a copy, while that which had been rebuilt elsewhere was not durable (10430).
#[test]
fn values_apart_pass_with_multi_paxos() {
    pass(
        "--protocol multi-paxos --replicas 3 --param payload_min=1",
        [0, 1, 77, 10_430],
    );
}
