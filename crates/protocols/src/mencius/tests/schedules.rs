//! Nasty schedules of skipped slots and of what an owner says, one function each: as they are here they go well, and
//! `mutants.rs` shows what becomes of them when a rule is broken. The names M-S1 and so on are in the README.

use super::net::Net;
use crate::mencius::{Config, Message, Timer};
use quorate_core::{Input, Lsn, Outcome, Slot};

pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const C: usize = 2;

/// The rules as they are.
pub(super) const SOUND: fn(&mut Config) = |_| {};

pub(super) fn is_learn(message: &Message) -> bool {
    matches!(message, Message::Learn { .. })
}

/// M-S1: A skips slot 3 and tells B alone, which decides it; A starts again.
pub(super) fn a_skip_before_a_restart(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit);
    for me in [A, B] {
        net.write(me);
        net.run();
    }
    // Slot 2 is C's, and idle: A knows of no decision behind it.
    let x = net.write(B);
    // A hears of it by a question alone, and writes nothing down.
    net.lose(|_, to, _| to == A);
    net.pass(B, C);
    net.pass(C, B);
    while net.times(B, x) == 0 {
        net.fire(B, Timer::Retransmit);
        net.pass(B, A);
        net.pass(A, B);
    }
    assert!(net.nodes[B].log[3].is_none());
    net.crash(A);
    net.lose_all();
    net.isolate(B);
    net.restart(A);
    let y = net.write(A);
    for _ in 0..6 {
        net.run();
        for timer in [Timer::Retransmit, Timer::CatchUp] {
            let me = A;
            quorate_testkit::Cluster::fire(&mut *net, me, timer);
        }
    }
    net.settle(&[x, y]);
    net
}

#[test]
fn a_slot_that_was_skipped_is_not_used_after_a_restart() {
    a_skip_before_a_restart(SOUND);
}

/// M-S2: A suggests in slot 0, and that is slow; what A skipped before slot 1 overtakes it.
pub(super) fn a_skip_overtakes_a_suggestion(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit);
    let v = net.write(A);
    let slow = [net.hold(A, B), net.hold(A, C)].concat();
    let w = net.write(B);
    net.pass(B, A);
    net.pass(A, B);
    net.lose_all();
    net.release(slow);
    net.pass(C, A);
    assert_eq!(net.times(A, v), 1, "A and C have it");
    net.settle(&[v, w]);
    net
}

#[test]
fn what_is_skipped_is_named_apart_from_what_was_suggested() {
    a_skip_overtakes_a_suggestion(SOUND);
}

/// M-S3: an entry is decided by A and B, and nobody else knows; C takes A's lane over.
pub(super) fn a_decided_entry_at_one_member(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit);
    let v = net.write(A);
    net.pass(A, B);
    net.pass(B, A);
    assert_eq!(net.times(A, v), 1);
    net.crash(A);
    net.lose_all();
    let w = net.write(C);
    net.suspect(C);
    net.run();
    net.settle(&[v, w]);
    net
}

#[test]
fn a_taker_proposes_what_one_promise_shows() {
    a_decided_entry_at_one_member(SOUND);
}

/// A counts its own acceptance (too early, if it says so) and loses power; C takes the lane over by A's promise.
pub(super) fn an_owner_that_loses_power(counts_early: bool) -> Net {
    let mut net = Net::new(3, &[]);
    // The reservation is on its way to the disk before.
    net.write(A);
    net.lose_all();
    net.crash(A);
    net.restart(A);
    net = Net::new(3, &[]).begun();
    net.nodes[A].is_stuck = true;
    net.isolate(C);
    let v = net.write(A);
    net.pass(A, B);
    if counts_early {
        net.step(A, Input::Durable(Lsn(u64::MAX)));
    }
    net.pass(B, A);
    assert_eq!(net.times(A, v), usize::from(counts_early));
    net.crash(A);
    net.lose_all();
    net.restart(A);
    net.cut.clear();
    net.isolate(B);
    let w = net.write(C);
    for _ in 0..4 {
        net.run();
        for me in [A, C] {
            for timer in [Timer::Suspect, Timer::Retransmit] {
                quorate_testkit::Cluster::fire(&mut *net, me, timer);
            }
        }
    }
    net.settle(&[w]);
    assert_eq!(net.times(A, v), 0, "only B had it");
    net
}

#[test]
fn the_own_acceptance_counts_when_it_is_durable() {
    an_owner_that_loses_power(false);
}

/// M-S7: B has not heard that A skipped slot 3; A dies, and C takes the lane over.
pub(super) fn a_late_skip(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    let x = net.write(B);
    net.pass(B, A);
    let late = net.hold(A, B);
    net.crash(A);
    net.run();
    let y = net.write(C);
    net.pass(C, B);
    net.pass(B, C);
    net.suspect_twice(C);
    net.pass(C, B);
    net.pass(B, C);
    net.pass(C, B);
    net.pass(B, C);
    net.lose(|_, _, message| is_learn(message));
    net.lose_all();
    net.release(late);
    net.settle(&[x, y]);
    net
}

#[test]
fn a_skip_that_comes_late_agrees_with_who_took_the_lane_over() {
    a_late_skip(SOUND);
}

/// M-S10: one writer, all others idle, and what A skipped is lost. Whether the write is delivered once that was
/// asked about.
pub(super) fn a_lost_skip(edit: fn(&mut Config)) -> bool {
    let mut net = Net::edited(3, &[], edit);
    let x = net.write(B);
    net.pass(B, C);
    net.pass(C, B);
    net.pass(B, A);
    net.lose_all();
    assert_eq!(net.times(B, x), 0, "slot 0 is A's");
    for _ in 0..3 {
        quorate_testkit::Cluster::fire(&mut *net, B, Timer::Retransmit);
        net.run();
    }
    net.times(B, x) == 1
}

#[test]
fn what_was_skipped_is_asked_about_when_it_was_lost() {
    assert!(a_lost_skip(SOUND));
}

/// Skipped slots that nobody decided anything behind are told to all after a while.
#[test]
fn skipped_slots_are_told_to_all() {
    let mut net = Net::new(3, &[]);
    net.write(B);
    net.pass(B, A);
    net.lose_all();
    net.fire(A, Timer::Skip);
    assert_eq!(net.count("skip"), 2);
    assert!(!net.nodes[A].timers.contains_key(&Timer::Skip));
}

#[test]
fn a_read_waits_for_what_a_majority_has_accepted() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(B);
    net.pass(B, C);
    net.pass(C, B);
    net.pass(B, A);
    net.pass(A, B);
    assert_eq!(net.times(B, x), 1);
    net.lose_all();
    // A and C have accepted x and do not know that it is decided.
    net.isolate(B);
    let read = net.read(A);
    net.run();
    assert_eq!(net.outcome(A, read), None);
    net.settle(&[x]);
    assert_eq!(net.outcome(A, read), Some(Outcome::ReadAt(Slot(5))));
}

#[test]
fn a_read_by_who_saw_nothing_finds_what_others_accepted() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(B);
    net.lose(|_, to, _| to == A);
    net.run();
    assert_eq!(
        (net.times(B, x), net.times(A, x)),
        (0, 0),
        "A has skipped nothing"
    );
    let read = net.read(A);
    net.run();
    net.settle(&[x]);
    assert_eq!(net.outcome(A, read), Some(Outcome::ReadAt(Slot(5))));
}
