//! Schedules that break what is nearly right.

use super::net::{A, B, C, D, E, Net};
use crate::epaxos::{Config, Fault, Timer};
use crate::shared::faults::Faults;
use quorate_core::RequestId;

pub(super) fn with(fault: Fault) -> impl Fn(&mut Config) {
    move |config| config.faults = Faults::only(fault)
}

/// Two coordinators die whose entries conflict, and each is known to one more member: two others recover them at the
/// same time, and neither may take both for committed on the fast path.
pub(super) fn two_orphans(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(5, &[], edit);
    net.set_all(A);
    net.set_all(B);
    net.pass_kind("pre-accept", A, C);
    net.pass_kind("pre-accept", B, D);
    net.lose_all();
    net.fail(A);
    net.fail(B);
    net.suspect(C);
    net.suspect(D);
    net.settle(&[]);
    assert!(net.branch("instance made void") > 0);
    let last = net.set_all(E);
    net.settle(&[last]);
}

#[test]
fn es2_of_two_orphans_that_conflict_not_both_are_taken_for_committed() {
    two_orphans(|_| {});
}

/// A coordinator commits on the fast path, and its commit reaches one member alone. Power fails at both, and nobody
/// may hold that it had not.
pub(super) fn forgotten_commit(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit);
    net.nodes[A].is_stuck = true;
    let request = net.set_all(A);
    net.lose_all();
    net.flush(A);
    net.fire(A, Timer::Retransmit);
    net.fire(A, Timer::Retransmit);
    net.pass_kind("pre-accept", A, C);
    net.lose_but_to(A);
    net.run();
    let was_told = net.times(A, request) > 0;
    net.fail(A);
    net.lose_all();
    net.fail(C);
    net.restart(A);
    net.suspect(A);
    net.run();
    net.suspect(B);
    net.run();
    net.restart(C);
    net.settle(&[]);
    assert!(!was_told || net.times(B, request) == 1, "what was committed stays (E7)");
}

#[test]
fn es4_a_coordinator_knows_after_a_restart_what_it_had_committed() {
    forgotten_commit(|_| {});
}

/// An entry is committed behind one that is not, which a later entry of the same key may yet be committed before.
pub(super) fn circle(edit: impl Fn(&mut Config)) -> (Net, RequestId, RequestId) {
    let mut net = Net::edited(3, &[], edit);
    // C's entry is known to C alone, whose name is the highest.
    net.set(C, 1);
    let late = net.hold("pre-accept", C, B);
    net.lose_all();
    // A's comes to C, and is behind it.
    let first = net.set(A, 1);
    net.hold("pre-accept", A, B);
    net.run();
    let is_early = net.is_answered(A, first);
    // B's is asked for afterwards, if A's was answered; B has not heard of C's.
    let second = net.set(B, 1);
    net.hold("pre-accept", B, C);
    net.run();
    net.release(late);
    net.run();
    let _ = is_early;
    (net, first, second)
}

#[test]
fn es6_an_entry_is_answered_when_all_below_it_is_decided() {
    let (mut net, first, second) = circle(|_| {});
    net.settle(&[first, second]);
}

/// Entries that wait for each other, while members start again.
#[test]
fn es3_two_recoveries_that_wait_for_each_other_end() {
    let mut net = Net::new(3, &[]);
    let first = net.set_all(A);
    let second = net.set_all(B);
    net.pass_kind("pre-accept", A, C);
    net.lose_all();
    for me in [A, B] {
        net.fail(me);
        net.restart(me);
    }
    for me in [A, B, C] {
        net.suspect(me);
    }
    let third = net.set_all(C);
    net.settle(&[third]);
    for request in [first, second] {
        let times = [A, B, C].map(|me| net.times(me, request));
        assert!(times.iter().all(|it| *it == times[0] && *it <= 1));
    }
}

/// Only a later entry of the same key is known to who recovers an earlier one.
#[test]
fn es7_an_entry_of_which_only_a_later_one_tells_is_made_void_or_found() {
    let mut net = Net::new(5, &[]);
    let first = net.set(A, 1);
    net.lose_all();
    let second = net.set(A, 1);
    net.pass_kind("pre-accept", A, B);
    net.lose_all();
    net.fail(A);
    net.suspect(B);
    let third = net.set(C, 1);
    net.settle(&[third]);
    for me in [B, C, D, E] {
        assert!(net.times(me, first) + net.times(me, second) <= 2);
    }
}

/// New entries of one key at all members without end: what was asked for is delivered all the same.
#[test]
fn es8_a_chain_of_conflicting_entries_holds_nobody_up() {
    let mut net = Net::new(3, &[]);
    let first = net.set(A, 1);
    for round in 0..40 {
        for me in [A, B, C] {
            net.set(me, 1);
            let now = net.take_packets(|_| true);
            net.release(now);
        }
        if round % 5 == 4 {
            for me in [A, B, C] {
                net.try_fire(me, Timer::Mark);
            }
        }
    }
    assert!([A, B, C].iter().all(|me| net.times(*me, first) == 1));
}

/// A member is given a log that ends within a circle of entries, and starts again there.
#[test]
fn es9_a_member_goes_on_in_the_middle_of_what_others_delivered_at_once() {
    for cut in 1..4 {
        let mut net = Net::new(3, &[]);
        let requests: Vec<RequestId> = (0..3).flat_map(|me| [net.set(me, 1), net.set(me, 1)]).collect();
        let held = net.take_packets(|packet| packet.to == C);
        net.run();
        net.lose_all();
        for me in [A, B] {
            net.try_fire(me, Timer::Mark);
        }
        let more = net.take_packets(|packet| packet.to == C);
        net.run();
        net.lose_all();
        if net.nodes[A].log.len() > cut {
            net.give_slots(A, C, cut);
            net.fail(C);
            net.restart(C);
        }
        net.release(held);
        net.release(more);
        let mine: Vec<RequestId> = requests[..4].to_vec();
        net.settle(&mine);
    }
}

/// While a member is down the others deliver; it comes back, and forms an entry.
#[test]
fn es10_who_was_away_keeps_and_forms_nothing_before_it_knows_what_was_delivered() {
    let mut net = Net::new(3, &[]);
    let first = net.set_all(A);
    net.settle(&[first]);
    net.fail(C);
    let more: Vec<RequestId> = (0..5).map(|_| net.set_all(A)).collect();
    net.settle(&more);
    net.restart(C);
    let last = net.set_all(C);
    net.settle(&more);
    net.settle(&[last]);
}

/// A mark names an entry that is made void.
#[test]
fn es11_a_mark_behind_an_entry_that_is_made_void_is_delivered() {
    let mut net = Net::new(3, &[]);
    // Known to A alone, and behind it an entry that others know.
    net.set(A, 1);
    net.lose_all();
    let second = net.set(A, 1);
    net.run();
    assert_eq!(net.times(B, second), 0);
    net.fail(A);
    net.suspect(B);
    net.run();
    net.settle(&[second]);
    assert!(net.branch("instance made void") > 0);
}

/// An entry arrives again when it is delivered long since.
#[test]
fn es12_an_entry_that_comes_again_when_it_is_delivered_is_not_ordered_again() {
    let mut net = Net::new(3, &[]);
    let first = net.set_all(A);
    let again = net.hold("pre-accept", A, C);
    let copy: Vec<_> = again.to_vec();
    net.release(again);
    net.settle(&[first]);
    net.release(copy);
    let last = net.set_all(B);
    net.settle(&[last]);
    assert!([A, B, C].iter().all(|me| net.times(*me, first) == 1));
}
