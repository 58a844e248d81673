//! Replicas that lose what was not flushed, or all their promises, and come back.

use super::net::Net;
use crate::raft::Timer;
use crate::raft::messages::Message;
use crate::shared::lives::Life;
use quorate_core::{Base, Boot, Input, Lsn, MemberIndex, Slot};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// A's disk is slow: B alone has x when A loses power. C leads by A's vote, and does not reach B.
pub(super) fn a_leader_that_loses_power(counts_early: bool) -> Net {
    let mut net = Net::led_by(A, 3, &[]);
    net.nodes[A].is_stuck = true;
    net.isolate(C);
    let x = net.write(A);
    net.pass(A, B);
    if counts_early {
        net.step(A, Input::Durable(Lsn(u64::MAX)));
    }
    net.pass(B, A);
    assert_eq!(net.times(A, x), usize::from(counts_early));
    net.crash(A);
    net.lose_all();
    // What was decided last was not flushed either.
    let node = &mut net.nodes[A];
    node.log.truncate(2);
    node.base = Default::default();
    for (slot, entry) in (0..).map(Slot).zip(&node.log) {
        node.base.advance(slot, entry.as_ref());
    }
    net.restart(A);
    net.cut.clear();
    net.isolate(B);
    net.hint(A, false);
    net.hint(A, true);
    net.write(C);
    net.elect(C);
    assert!(net.leads(C) && net.times(A, x) == 0);
    net
}

#[test]
fn the_own_entry_counts_when_it_is_durable() {
    a_leader_that_loses_power(false);
}

/// A replica that lost its promises appends nothing and votes for nobody, but learns, and its clients are
/// served; when enough others know of its new life, it votes.
#[test]
fn a_replica_that_lost_its_promises_votes_in_a_new_life() {
    let mut net = Net::led_by(A, 3, &[]);
    net.crash(C);
    net.cut.extend([(B, C), (C, B)]);
    net.lose_promises(C);
    let request = net.write(C);
    net.run();
    for _ in 0..3 {
        net.fire(C, Timer::Retransmit);
        net.run();
    }
    assert_eq!(net.times(A, request), 1);
    let read = net.read(C);
    net.run();
    assert_eq!(net.outcome(C, read), None, "A alone confirms nothing");
    assert!(!net.votes(C));
    net.crash(C);
    net.restart(C);
    net.run();
    assert!(!net.votes(C), "it knows after a restart, too");
    net.cut.clear();
    net.hint(C, true);
    net.run();
    assert!(net.votes(C) && net.branches.contains_key("rejoined"));
    net.crash(B);
    let request = net.write(A);
    net.run();
    assert_eq!(net.times(A, request), 1, "committed by A and C");
    net.crash(C);
    net.restart(C);
    assert!(net.votes(C), "it knows that, too");
}

/// B stands, and C votes for it; before B hears so, C loses everything and comes back with the help of A
/// and B. The vote is one of a life that is over.
#[test]
fn a_vote_of_a_former_life_is_not_counted() {
    let mut net = Net::led_by(A, 3, &[]);
    net.hint(A, false);
    net.cut.extend([(A, B), (B, A)]);
    net.write(B);
    net.fire(B, Timer::Election);
    net.pass(B, C);
    net.pass(C, B);
    net.pass(B, C);
    let late = net.take_packets(|packet| packet.from == C);
    assert_eq!(late.len(), 1);
    net.crash(C);
    net.lose_promises(C);
    net.pass(C, B);
    net.pass(C, A);
    net.wire.extend(late);
    net.run();
    assert!(net.branches.contains_key("vote of a former life"));
    assert!(!net.leads(B));
}

/// The floor's term counts as voted in: who got the vote of the former life is not known.
#[test]
fn the_new_life_has_voted_in_the_floors_term() {
    let mut net = Net::led_by(A, 3, &[]);
    net.crash(C);
    net.lose_promises(C);
    net.run();
    for _ in 0..3 {
        if net.nodes[C].timers.contains_key(&Timer::Retransmit) {
            net.fire(C, Timer::Retransmit);
        }
        net.run();
    }
    assert!(net.votes(C));
    let machine = net.machine(C);
    assert_eq!(machine.term, 1);
    assert_eq!(machine.voted_for, Some(machine.config.seating.me));
}

/// Others know of a life of C that ended before it began, and C goes on in the one before: what it says counts nowhere.
/// It is told, and begins a later one.
#[test]
fn a_replica_whose_life_is_over_is_told_and_begins_another() {
    let mut net = Net::led_by(A, 3, &[]);
    let (number, boot) = (1, Boot(7));
    let life = Life { number, boot };
    for other in [A, B] {
        let next = Slot(0);
        net.hear(C, other, &Message::Rejoin { life, next });
    }
    net.lose_all();
    assert!(net.votes(C));
    net.write(A);
    net.run();
    while !net.votes(C) {
        net.fire(C, Timer::Retransmit);
        net.run();
    }
    assert_eq!(
        ["life outnumbered", "rejoined"].map(|name| net.branch(name)),
        [1; 2]
    );
    assert!(net.votes(C));
    let lives = net.machine(C).voter.lives();
    assert_eq!(lives.of(MemberIndex::new(C)).number, 2);
}
