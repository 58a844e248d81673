//! Reads while leaders change.

use super::net::Net;
use crate::rs_paxos::{Message, Timer};
use quorate_core::{Outcome, Slot};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

#[test]
fn a_deposed_leader_answers_no_read() {
    let mut net = Net::led_by(A, 3, &[]);
    net.isolate(A);
    let stale = net.read(A);
    net.run();
    net.hint(A, false);
    let request = net.write(B);
    net.elect(B);
    assert_eq!(net.times(B, request), 1);
    net.fire(A, Timer::Retransmit);
    net.run();
    assert_eq!(net.outcome(A, stale), None, "nobody confirms it");
    net.cut.clear();
    net.fire(A, Timer::Retransmit);
    net.run();
    assert_eq!(net.outcome(A, stale), Some(Outcome::ReadAt(Slot(2))));
}

/// C has promised B's ballot and accepted its write, but not heard that it is chosen; of the others it
/// reaches the deposed leader alone. Its own promise does not confirm what that one says.
#[test]
fn a_deposed_leader_is_not_confirmed_by_who_follows_another() {
    let mut net = Net::led_by(A, 3, &[]);
    net.isolate(A);
    net.hint(A, false);
    let request = net.write(B);
    net.fire(B, Timer::Election);
    net.run_losing(|_, to, message| to == C && matches!(message, Message::Commit { .. }));
    assert_eq!((net.times(B, request), net.times(C, request)), (1, 0));
    net.cut.clear();
    net.isolate(B);
    let read = net.read(C);
    net.run();
    assert!(net.leads(A), "it does not know of B");
    assert_eq!(net.outcome(C, read), None, "nobody else follows A");
    net.cut.clear();
    for _ in 0..2 {
        net.fire(C, Timer::Retransmit);
        net.run();
    }
    assert_eq!(net.outcome(C, read), Some(Outcome::ReadAt(Slot(2))));
}
