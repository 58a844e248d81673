//! Racos: seeds that must pass, some of which once did not.

use crate::runs::pass;
use quorate_sim::Report;

/// All values are spread, however short.
const FIVE: &str = "--protocol racos --replicas 5 --code 5,3 --param payload_min=1";

#[test]
fn five_replicas_with_three_of_five_codes_pass() {
    let reports = pass(FIVE, 0..6);
    let saw = |branch| {
        let mut branches = reports.iter().map(|report| &report.totals.branches);
        branches.any(|branches| branches.contains_key(branch))
    };
    assert!(saw("segment let go") && saw("roster waits") && saw("segment asked for again"));
}

/// Once: an origin that had lost its disk heard of its own loss, and asked itself for an acknowledgement
/// (4, 20, 25).
#[test]
fn who_lost_its_disk_asks_the_others() {
    let reports = pass(FIVE, [4, 20, 25]);
    let branches = |report: &Report| report.totals.branches.contains_key("segment rebuilt");
    assert!(reports.iter().any(branches));
}

#[test]
fn other_codes_pass() {
    for (replicas, code, seeds) in [(3, "3,1", 3), (4, "4,2", 3), (7, "7,4", 2), (7, "7,3", 2)] {
        let line =
            format!("--protocol racos --replicas {replicas} --code {code} --param payload_min=1");
        pass(&line, 0..seeds);
    }
}

/// Two of five may fail, and values are cut less finely while they are away.
#[test]
fn smaller_codes_let_any_minority_fail() {
    let line = format!("{FIVE} --param f=2 --param adaptive=true");
    let reports = pass(&line, 0..6);
    let saw = |branch| {
        let mut branches = reports.iter().map(|report| &report.totals.branches);
        branches.any(|branches| branches.contains_key(branch))
    };
    assert!(saw("value cut anew") && saw("value in fewer segments"));
}

/// Holders propose, and the log makes void what origins left.
const MERGED: &str = "--protocol racos --param merged=true --param payload_min=1";

#[test]
fn proposals_by_holders_pass() {
    let mut saw_voids = false;
    for (replicas, code, seeds) in [(5, "5,3", 3), (4, "4,2", 2), (7, "7,4", 1), (7, "7,3", 1)] {
        let line = format!("{MERGED} --replicas {replicas} --code {code}");
        let reports = pass(&line, 0..seeds);
        let mut branches = reports.iter().map(|report| &report.totals.branches);
        saw_voids |= branches.any(|branches| branches.contains_key("value made void"));
    }
    assert!(saw_voids);
}

/// Once: segments on slow links took longer than it took to be taken for gone, and every value was made void
/// before it came through (1060).
#[test]
fn who_is_taken_for_gone_is_given_longer() {
    let line = format!("{MERGED} --replicas 5 --code 5,3 --param origin_gone_ms=20");
    pass(&line, [1060]);
}

/// A group goes to other members and other protocols, and back.
#[test]
fn members_and_protocols_change() {
    pass(&format!("{FIVE} --profile swarm,epochs,switches"), 0..4);
}

/// Once: damage took the record of a segment, and the proposal that rested on it was taken for one that was never
/// said (61814).
#[test]
fn a_proposal_stands_when_its_segment_is_damaged() {
    pass(&format!("{MERGED} --replicas 5 --code 5,3"), [61814]);
}

/// Once: a proposal that a start had left out came back at the next one, when its segment was there again
/// (62160; with epochs 61612).
#[test]
fn a_proposal_that_was_left_out_does_not_come_back() {
    let line = format!("{MERGED} --replicas 7 --code 7,3 --param f=1");
    pass(&line, [62160]);
    pass(&format!("{line} --profile swarm,epochs,levels"), [61612]);
    // Nor one start later, beside what was proposed meanwhile.
    let line = "--protocol racos --replicas 7 --code 7,4 --param payload_min=1";
    pass(&format!("{line} --profile swarm,settings"), [2000029]);
}

/// Once waits for pieces of snapshots grew with how long answers took, up to a second: a snapshot that nobody has any
/// more was asked for too long (4000362, and 4000537 with epochs).
#[test]
fn a_snapshot_comes_through_where_messages_are_lost() {
    let line = "--protocol racos --replicas 7 --code 7,4 --param payload_min=1";
    pass(&format!("{line} --profile swarm,settings"), [4000362]);
    pass(&format!("{line} --profile swarm,epochs"), [4000537]);
}
