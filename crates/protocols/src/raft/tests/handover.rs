//! A leader makes room for the member that the group prefers.

use super::net::Net;
use crate::raft::Timer;
use quorate_core::{Input, Introspect};
use quorate_testkit::id;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// All replicas hear that the group prefers one of them.
fn prefer(net: &mut Net, member: usize) {
    for me in 0..net.nodes.len() {
        net.step(me, Input::Prefer(id(member)));
    }
}

#[test]
fn the_preferred_member_takes_the_leaders_place_at_once() {
    for n in [3, 5] {
        let mut net = Net::led_by(A, n, &[]);
        let before = net.term(A);
        prefer(&mut net, B);
        assert_eq!(net.machine(A).hands_over(), Some(true));
        let waiting = net.write(A);
        net.run();
        assert!(net.leads(B) && !net.leads(A));
        assert_eq!(net.term(A), before + 1);
        assert_eq!(net.machine(B).hands_over(), Some(false));
        assert!((0..n).all(|me| net.times(me, waiting) == 1));
        assert!((0..n).all(|me| net.machine(me).leadership.preferred.is_none()));
    }
}

/// Entries that were under way when the leader began to make room reach the preferred member while it asks for votes.
#[test]
fn what_the_leader_still_says_does_not_keep_the_preferred_member_from_it() {
    let mut net = Net::led_by(A, 3, &[]);
    let under_way = net.write(A);
    net.step(A, Input::Prefer(id(B)));
    net.step(B, Input::Prefer(id(B)));
    net.step(C, Input::Prefer(id(B)));
    net.pass(A, B);
    net.run();
    // Asked for a vote by a log that lacks the entry, C refused: it is asked again.
    if !net.leads(B) {
        net.fire(B, Timer::Retransmit);
        net.run();
    }
    assert!(net.leads(B) && !net.leads(A));
    assert!([A, B, C].iter().all(|me| net.times(*me, under_way) == 1));
}

/// The preferred member is out of reach: the leader orders nothing for one timeout, and goes on.
#[test]
fn a_leader_goes_on_if_nobody_takes_its_place() {
    let mut net = Net::led_by(A, 3, &[]);
    net.isolate(B);
    net.step(A, Input::Prefer(id(B)));
    net.step(C, Input::Prefer(id(B)));
    let waiting = net.write(A);
    net.run();
    assert_eq!(net.times(A, waiting), 0);
    net.fire(A, Timer::Election);
    net.run();
    assert!(net.leads(A));
    assert_eq!((net.times(A, waiting), net.times(C, waiting)), (1, 1));
}

#[test]
fn who_is_no_member_or_leads_already_changes_nothing() {
    let mut net = Net::led_by(A, 3, &[]);
    prefer(&mut net, 8);
    prefer(&mut net, A);
    net.run();
    assert!(net.leads(A));
    assert_eq!(net.machine(A).hands_over(), Some(false));
}
