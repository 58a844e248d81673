//! Nasty schedules of lanes that are taken over and back, one function each: as they are here they go well, and
//! `mutants.rs` shows what becomes of them when a rule is broken.

use super::net::Net;
use super::schedules::{A, B, C, SOUND, is_learn};
use crate::mencius::{Config, Message, Record, Timer};
use quorate_core::Slot;

/// M-S4: A's entry is at A and B; C takes the lane over and decides a no-op with D and E; then B takes it over, and
/// its quorum shows both.
pub(super) fn two_takers(edit: fn(&mut Config)) -> Net {
    const D: usize = 3;
    const E: usize = 4;
    let mut net = Net::edited(5, &[], edit);
    let v = net.write(A);
    net.pass(A, B);
    net.lose_all();
    net.isolate(A);
    net.cut.extend([(B, C), (C, B)]);
    let w = net.write(C);
    for member in [D, E] {
        net.pass(C, member);
        net.pass(member, C);
    }
    net.lose_all();
    net.suspect_twice(C);
    for _ in 0..2 {
        for member in [D, E] {
            net.pass(C, member);
            net.pass(member, C);
        }
    }
    assert_eq!(
        net.nodes[C].log.first(),
        Some(&None),
        "C has delivered a no-op"
    );
    net.lose_all();
    net.isolate(C);
    // B's first ballot is lower than C's.
    for _ in 0..2 {
        net.suspect(B);
        net.run();
    }
    assert_eq!(net.nodes[B].log.first(), Some(&None));
    net.settle(&[v, w]);
    net
}

#[test]
fn of_two_values_that_promises_show_that_of_the_higher_ballot_counts() {
    two_takers(SOUND);
}

/// M-S5: the owner is back while C proposes no-ops that one member has accepted.
#[test]
fn an_owner_that_returns_during_a_takeover_finds_what_it_brought() {
    let mut net = Net::new(3, &[]).begun();
    net.isolate(A);
    let v = net.write(A);
    let w = net.write(C);
    net.run();
    net.suspect_twice(C);
    net.pass(C, B);
    net.pass(B, C);
    net.pass(C, B);
    // B has accepted the no-ops, and C does not know.
    net.lose_all();
    net.cut.clear();
    net.fire(A, Timer::Retransmit);
    net.fire(A, Timer::Retransmit);
    net.run();
    net.settle(&[v, w]);
    assert!(net.branch("own lane taken back") > 0 && net.branch("own slot lost") > 0);
}

/// M-S6: the owner is falsely suspected; its entry is decided in its first slot by who took the lane over.
pub(super) fn a_false_suspicion(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    let v = net.write(A);
    net.pass(A, B);
    net.lose_all();
    let w = net.write(C);
    net.suspect_twice(C);
    net.pass(C, B);
    net.pass(B, C);
    net.pass(C, B);
    net.pass(B, C);
    net.lose(|_, _, message| is_learn(message));
    net.pass(C, B);
    net.pass(C, A);
    net.settle(&[v, w]);
    net
}

#[test]
fn an_entry_takes_effect_once_whoever_decides_it() {
    a_false_suspicion(SOUND);
}

/// M-S8: one owner is dead. One phase 1 is enough for all slots to come.
#[test]
fn a_lane_is_taken_over_once_for_all_slots_to_come() {
    let mut net = Net::new(3, &[("window", "64"), ("ahead", "32")]).begun();
    net.crash(A);
    let first = net.write(B);
    net.run();
    net.suspect_twice(B);
    net.run();
    assert_eq!(net.times(B, first), 1);
    net.watch.sent.clear();
    let (before, writes) = (net.nodes[B].log.len(), 500);
    for turn in 0..writes {
        let me = [B, C][turn % 2];
        let request = net.write(me);
        net.run();
        assert_eq!(
            net.times(me, request),
            1,
            "{turn}: nothing has to be waited for"
        );
    }
    assert_eq!((net.count("prepare"), net.count("promise")), (0, 0));
    let slots = net.nodes[B].log.len() - before;
    assert!(
        slots >= 700 && net.count("no-ops") <= 2 * 3 * slots / 32,
        "{:?}",
        net.watch.sent
    );
}

/// M-S9: the owner is back in its lane, whose next slots hold no-ops at two others.
pub(super) fn an_owner_behind_noops(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    net.isolate(A);
    let x = net.write(B);
    net.run();
    net.suspect_twice(B);
    net.run();
    assert_eq!(net.times(C, x), 1, "B leads A's lane");
    net.cut.clear();
    let v = net.write(A);
    net.run();
    net.settle(&[x, v]);
    // What A suggests in its next slots is delivered when those before are used.
    let mut more = vec![net.write(B), net.write(C)];
    net.settle(&more);
    more.push(net.write(A));
    net.settle(&more);
    net
}

#[test]
fn an_owner_that_is_back_uses_slots_that_no_promise_shows_anything_of() {
    an_owner_behind_noops(SOUND);
}

/// B takes A's lane over, of which C's promise speaks; A goes on, and has not heard.
pub(super) fn an_owner_that_goes_on(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    let u = net.write(A);
    net.pass(A, B);
    net.pass(B, A);
    assert_eq!(net.times(A, u), 1);
    net.lose_all();
    net.suspect_twice(B);
    net.lose(|_, to, _| to == A);
    net.pass(B, C);
    net.pass(C, B);
    let late = net.hold(B, C);
    let v = net.write(A);
    net.pass(A, B);
    net.lose(|from, _, message| from == B && !matches!(message, Message::Skip { .. }));
    net.pass(A, C);
    net.lose(|_, to, message| to == A && matches!(message, Message::Nack { .. }));
    net.pass(C, A);
    net.fire(B, Timer::Skip);
    net.pass(B, A);
    net.lose_all();
    net.release(late);
    net.pass(C, B);
    net.settle(&[u, v]);
    net
}

#[test]
fn a_promise_covers_slots_that_nobody_has_used_yet() {
    an_owner_that_goes_on(SOUND);
}

/// B promises, and starts again before A's suggestion comes.
pub(super) fn a_member_that_promised_and_restarts(forget: Option<fn(&Record) -> bool>) -> Net {
    let mut net = Net::new(3, &[]).begun();
    net.watch.forget = forget;
    let v = net.write(A);
    let late = net.hold(A, B);
    net.lose_all();
    let w = net.write(C);
    net.suspect_twice(C);
    net.lose(|_, to, _| to == A);
    net.pass(C, B);
    net.pass(B, C);
    let noops = net.hold(C, B);
    net.crash(B);
    net.restart(B);
    net.release(late);
    net.pass(B, A);
    net.lose_all();
    net.release(noops);
    net.pass(B, C);
    net.settle(&[v, w]);
    net
}

#[test]
fn a_promise_outlives_a_restart() {
    a_member_that_promised_and_restarts(None);
}

/// A replica that starts again asks what became of its own slots, and goes on behind what it had reserved.
#[test]
fn an_owner_that_restarts_takes_its_lane_back() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(A);
    net.lose(|_, to, _| to == C);
    net.pass(A, B);
    net.crash(A);
    net.lose_all();
    net.restart(A);
    let y = net.write(A);
    net.run();
    assert!(net.branch("own lane taken back") > 0);
    net.settle(&[x, y]);
    let slots: Vec<Slot> = net.nodes[A].slots_of(y).collect();
    assert!(slots[0] >= Slot(96), "{slots:?}");
}

/// What was suggested and not written is found by the phase 1 of the next start.
#[test]
fn an_owner_that_forgot_a_suggestion_finds_it() {
    let mut net = Net::new(3, &[]).begun();
    net.nodes[A].is_stuck = true;
    let x = net.write(A);
    net.pass(A, B);
    net.pass(A, C);
    net.crash(A);
    net.lose_all();
    net.restart(A);
    let y = net.write(A);
    net.run();
    net.settle(&[x, y]);
}

/// A's lane is B's; B dies, and C takes it over in turn.
#[test]
fn a_lane_whose_taker_dies_is_taken_over_again() {
    let mut net = Net::new(5, &[]).begun();
    net.crash(A);
    let x = net.write(B);
    net.run();
    net.suspect_twice(B);
    net.run();
    assert_eq!(net.times(B, x), 1);
    net.crash(B);
    let y = net.write(C);
    net.run();
    net.lose(|_, _, message| is_learn(message));
    for _ in 0..4 {
        quorate_testkit::Cluster::fire(&mut *net, C, Timer::Suspect);
        net.run();
    }
    net.settle(&[x, y]);
}
