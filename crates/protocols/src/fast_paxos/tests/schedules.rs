//! Nasty schedules of slots and votes. Each is played as it should go; `mutants.rs` plays some with a rule broken.

use super::net::{A, B, C, D, E, Net};
use crate::fast_paxos::{Config, Message, Record, Timer};
use quorate_core::{Input, RequestId};

/// What others than the leader know of what it decided is lost, and it dies.
fn die_with_what_was_decided(net: &mut Net) {
    net.hold_all("commit");
    net.crash(A);
}

/// A member stands, while those that may answer do, and everybody who lives comes to rest.
fn replace_leader(net: &mut Net, by: usize, requests: &[RequestId]) {
    net.stand(by);
    net.settle(requests);
}

/// F-S1: of five, the leader and three more voted for one entry, and two of those are dead.
pub(super) fn a_fast_choice_without_its_leader(edit: fn(&mut Config)) {
    let mut net = Net::edited(5, &[], edit).begun();
    let x = net.write(D);
    for to in [A, B, E] {
        net.pass_kind("propose", D, to);
    }
    net.lose_but("fast vote");
    let y = net.write(C);
    net.hold_all("propose");
    for from in [B, D, E] {
        net.pass_kind("fast vote", from, A);
    }
    assert_eq!(net.times(A, x), 1, "four of five voted for it");
    net.crash(B);
    die_with_what_was_decided(&mut net);
    net.lose_all();
    replace_leader(&mut net, D, &[x, y]);
}

#[test]
fn promises_show_a_fast_choice_twice() {
    a_fast_choice_without_its_leader(|_| {});
}

/// F-S1 of three, where a fast quorum is everybody: the leader and one more are not enough.
pub(super) fn a_fast_quorum_less_one(edit: fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit).begun();
    let x = net.write(C);
    net.pass_kind("propose", C, A);
    net.hold_all("propose");
    let y = net.write(B);
    net.hold_all("propose");
    net.pass_kind("fast vote", C, A);
    net.lose_all();
    die_with_what_was_decided(&mut net);
    net.stand(B);
    net.settle(&[x, y]);
}

#[test]
fn of_three_all_must_vote_for_a_fast_choice() {
    a_fast_quorum_less_one(|_| {});
}

/// F-S2: a leader asks for its own value, and then hears more votes for another one.
pub(super) fn a_leader_that_asked(edit: fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit).begun();
    let x = net.write(A);
    net.pass_kind("propose", A, B);
    net.lose_but("fast vote");
    let y = net.write(C);
    net.pass_kind("propose", C, A);
    net.lose_but("fast vote");
    net.pass_kind("fast vote", B, A);
    net.fire(A, Timer::Collide);
    net.fire(A, Timer::Collide);
    net.pass_kind("accept", A, B);
    net.hold_all("accept");
    net.pass_kind("fast vote", C, A);
    net.pass_kind("accepted", B, A);
    assert!(
        net.nodes[A].log.len() > 1,
        "B has accepted what it was asked for"
    );
    net.lose_all();
    die_with_what_was_decided(&mut net);
    replace_leader(&mut net, B, &[x, y]);
}

#[test]
fn a_leader_asks_for_its_own_vote_alone() {
    a_leader_that_asked(|_| {});
}

/// F-S3: of five, all but the leader vote for one entry, and the leader for another.
pub(super) fn a_fast_quorum_without_its_leader(edit: fn(&mut Config)) {
    let mut net = Net::edited(5, &[], edit).begun();
    let x = net.write(B);
    let to_leader = net.hold("propose", B, A);
    for to in [C, D, E] {
        net.pass_kind("propose", B, to);
    }
    let y = net.write(A);
    net.hold_all("propose");
    net.release(to_leader);
    for from in [B, C] {
        net.pass_kind("fast vote", from, A);
    }
    for to in [B, C] {
        net.pass_kind("accept", A, to);
    }
    for from in [D, E] {
        net.pass_kind("fast vote", from, A);
    }
    net.lose_all();
    die_with_what_was_decided(&mut net);
    net.crash(E);
    net.stand(B);
    net.run();
    net.restart(A);
    net.settle(&[x, y]);
}

#[test]
fn nothing_is_chosen_without_its_leader() {
    a_fast_quorum_without_its_leader(|_| {});
}

/// F-S4: an entry got votes in two slots, and a new leader finds it in both.
#[test]
fn an_entry_that_is_chosen_in_two_slots_takes_effect_once() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(A);
    net.lose_all();
    let y = net.write(B);
    net.pass_kind("propose", B, A);
    net.lose_all();
    net.fire(A, Timer::Collide);
    net.fire(A, Timer::Collide);
    // The leader has the entry in its second slot, and B in the first.
    let accepts = net.hold("accept", A, C);
    net.release(accepts.into_iter().skip(1).collect());
    net.lose_all();
    net.crash(A);
    replace_leader(&mut net, B, &[y]);
    assert!(net.branch("decided twice") > 0);
    net.restart(A);
    net.settle(&[y]);
    assert_eq!(
        net.times(A, x),
        0,
        "its gateway died, and nobody else had it"
    );
}

/// F-S5: the leader's value overtakes the proposal.
#[test]
fn a_leaders_value_overtakes_the_proposal() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(B);
    let late = net.hold("propose", B, C);
    net.run();
    net.fire(A, Timer::Collide);
    net.fire(A, Timer::Collide);
    let votes = net.count("fast vote");
    net.pass_kind("accept", A, C);
    net.release(late.clone());
    net.run();
    assert_eq!([A, B, C].map(|me| net.times(me, x)), [1; 3]);
    net.release(late);
    net.run();
    assert_eq!(net.count("fast vote"), votes, "C has voted in its slot");
    net.quiet();
    assert!(net.machine(C).heard.is_empty());
}

/// F-S6: the leader's own vote is not durable when the others' votes come.
pub(super) fn a_leader_that_loses_power(counts_early: bool) {
    let mut net = Net::new(5, &[]).begun();
    net.nodes[A].is_stuck = true;
    let x = net.write(A);
    for to in [B, C, D] {
        net.pass_kind("propose", A, to);
    }
    net.lose_but("fast vote");
    let y = net.write(E);
    net.lose_but("fast vote");
    if counts_early {
        let written = net.nodes[A].out.persisted();
        net.step(A, Input::Durable(written));
    }
    for from in [B, C, D] {
        net.pass_kind("fast vote", from, A);
    }
    assert_eq!(net.times(A, x), usize::from(counts_early));
    net.lose_all();
    net.crash(A);
    net.crash(B);
    net.crash(D);
    net.restart(A);
    net.stand(E);
    net.settle(&[y]);
    [B, D].into_iter().for_each(|me| net.restart(me));
    net.settle(&[y]);
}

#[test]
fn a_leaders_own_vote_counts_when_it_is_durable() {
    a_leader_that_loses_power(false);
}

/// F-S6: whoever voted starts again, and the leader that counted does not.
pub(super) fn voters_that_restart(forget: Option<fn(&Record) -> bool>) {
    let mut net = Net::new(3, &[]).begun();
    net.watch.forget = forget;
    let x = net.write(A);
    for to in [B, C] {
        net.pass_kind("propose", A, to);
        net.pass_kind("fast vote", to, A);
    }
    assert_eq!(net.times(A, x), 1);
    die_with_what_was_decided(&mut net);
    for me in [B, C] {
        net.crash(me);
        net.restart(me);
    }
    net.lose_all();
    let y = net.write(C);
    net.stand(C);
    net.settle(&[x, y]);
}

#[test]
fn votes_survive_crashes() {
    voters_that_restart(None);
}

/// F-S8: two gateways write at a high rate, and every slot collides.
#[test]
fn collisions_lose_nothing_and_are_over_when_the_load_is() {
    let params = [("outstanding", "4"), ("batch_commands", "1")];
    let mut net = Net::new(3, &params).begun();
    let requests: Vec<_> = (0..20).map(|at| net.write(1 + at % 2)).collect();
    net.settle(&requests);
    assert!(net.branch("collision") > 0);
    net.quiet();
    net.watch.sent.clear();
    let last = net.write(B);
    net.run();
    assert_eq!(
        (net.times(B, last), net.count("accept")),
        (1, 0),
        "it is fast again"
    );
}

/// F-S9: a slot has its fast quorum, and the one before it has not.
pub(super) fn a_fast_quorum_behind_a_gap(edit: fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit).begun();
    let x = net.write(A);
    net.pass_kind("propose", A, B);
    net.hold_all("propose");
    let y = net.write(C);
    net.hold_all("propose");
    let (first, other) = (net.hold("fast vote", B, A), net.hold("fast vote", C, A));
    let z = net.write(A);
    for to in [B, C] {
        net.pass_kind("propose", A, to);
        net.pass_kind("fast vote", to, A);
    }
    net.release(first);
    drop(other);
    assert!(
        net.branch("collision") == 0,
        "the leader knows of equal votes alone"
    );
    net.lose_all();
    die_with_what_was_decided(&mut net);
    net.stand(B);
    net.run();
    net.restart(A);
    net.settle(&[y, z]);
    assert!(net.times(A, x) <= 1, "its gateway died");
}

#[test]
fn a_fast_quorum_decides_its_own_slot_alone() {
    a_fast_quorum_behind_a_gap(|_| {});
}

/// What a leader asked for is chosen, and promises show another vote of the same ballot beside it.
pub(super) fn a_leaders_value_beside_a_fast_vote(edit: fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit).begun();
    let x = net.write(A);
    net.pass_kind("propose", A, B);
    net.lose_but("fast vote");
    let y = net.write(C);
    net.hold_all("propose");
    net.pass_kind("fast vote", C, A);
    net.pass_kind("accept", A, B);
    net.pass_kind("accepted", B, A);
    assert_eq!(net.times(A, x), 1);
    net.lose_all();
    die_with_what_was_decided(&mut net);
    net.stand(C);
    net.settle(&[x, y]);
}

#[test]
fn what_a_leader_asked_for_goes_before_votes_of_its_fast_round() {
    a_leaders_value_beside_a_fast_vote(|_| {});
}

/// Whoever accepted what its leader asked for starts again, and the leader that counted does not.
pub(super) fn members_that_accepted_and_restart(forget: Option<fn(&Record) -> bool>) {
    let mut net = Net::new(3, &[]).begun();
    net.watch.forget = forget;
    let x = net.write(A);
    net.lose_all();
    let y = net.write(C);
    net.pass_kind("fast vote", C, A);
    net.hold_all("propose");
    net.pass_kind("accept", A, B);
    net.pass_kind("accepted", B, A);
    assert_eq!(net.times(A, x), 1);
    net.lose_all();
    die_with_what_was_decided(&mut net);
    net.crash(B);
    net.restart(B);
    net.stand(C);
    net.settle(&[y]);
    net.restart(A);
    net.settle(&[x, y]);
}

#[test]
fn what_was_accepted_survives_crashes() {
    members_that_accepted_and_restart(None);
}

/// A member misses an entry. What it voted for meanwhile gets the next slot, as at the leader. Whether no more than the
/// missed one needed the leader to ask.
pub(super) fn a_missed_entry(edit: fn(&mut Config)) -> bool {
    let mut net = Net::edited(3, &[], edit).begun();
    let x = net.write(A);
    net.hold("propose", A, B);
    net.run();
    let y = net.write(C);
    net.run();
    let is_fast = net.times(A, y) == 1 && net.count("accept") == 2;
    net.settle(&[x, y]);
    is_fast
}

#[test]
fn an_entry_that_lost_its_slot_gets_the_next_one() {
    assert!(a_missed_entry(|_| {}));
}

/// Members vote in two orders. The slots that one of them used beyond the leader's are skipped.
#[test]
fn slots_meet_again_after_a_collision() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(B);
    net.pass_kind("propose", B, A);
    net.pass_kind("fast vote", B, A);
    let late = net.hold("propose", B, C);
    let y = net.write(C);
    let early = net.hold("propose", C, B);
    net.pass_kind("propose", C, A);
    net.release(early);
    net.release(late);
    net.settle(&[x, y]);
    net.quiet();
    net.watch.sent.clear();
    for me in [A, B, C] {
        let z = net.write(me);
        net.run();
        assert_eq!((net.times(me, z), net.count("accept")), (1, 0));
    }
}

/// A member hears that an entry is decided before it hears of the entry.
#[test]
fn what_is_decided_overtakes_the_proposal() {
    let mut net = Net::new(5, &[]).begun();
    let x = net.write(B);
    let late = net.hold("propose", B, E);
    net.run();
    assert_eq!((net.times(D, x), net.times(E, x)), (1, 0));
    net.release(late);
    assert_eq!(net.times(E, x), 1);
}

/// An entry came to one member alone, and its gateway died.
#[test]
fn an_entry_whose_gateway_died_is_decided() {
    let mut net = Net::new(5, &[]).begun();
    let x = net.write(E);
    net.pass_kind("propose", E, C);
    net.lose_all();
    net.crash(E);
    net.settle(&[x]);
    assert_eq!(net.times(D, x), 1);
}

#[test]
fn a_vote_that_was_lost_is_said_again() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(B);
    net.pass_kind("propose", B, A);
    net.pass_kind("propose", B, C);
    net.lose_all();
    net.fire(B, Timer::Retransmit);
    net.fire(C, Timer::Retransmit);
    net.run();
    assert_eq!((net.times(B, x), net.count("accept")), (1, 0));
}

#[test]
fn whoever_missed_what_was_decided_asks() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(B);
    net.pass_kind("propose", B, A);
    net.pass_kind("propose", B, C);
    net.pass_kind("fast vote", B, A);
    net.pass_kind("fast vote", C, A);
    net.lose_all();
    net.fire(B, Timer::Retransmit);
    let asked: Vec<_> = net
        .messages()
        .map(|(_, to, message)| (to, message.clone()))
        .collect();
    assert!(
        asked
            .iter()
            .any(|(to, one)| *to == A && matches!(one, Message::Ask(_)))
    );
    net.run();
    assert_eq!((net.times(B, x), net.times(C, x)), (1, 0));
    net.settle(&[x]);
}
