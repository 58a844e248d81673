//! Leases: what reads cost under one, and what would make two of them overlap.

use super::net::{Net, seat};
use crate::multi_paxos::MultiPaxos;
use crate::registry::Protocol;
use crate::rs_paxos::{Config, Fault, Message};
use crate::shared::faults::Faults;
use quorate_core::{Class, MILLIS, Outcome, Slot};
use quorate_testkit::Packet;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

const LEASE_NS: u64 = 1000 * MILLIS;
/// Longer than any grant of a lease.
const HOLD_NS: u64 = 1010 * MILLIS;

fn three(edit: fn(&mut Config)) -> Net {
    let params = [("lease_ms", "1000"), ("drift_ppm", "1000")];
    let config = |me| MultiPaxos::config(&seat::<MultiPaxos>(3, me, &params)).unwrap();
    let mut configs: Vec<Config> = (0..3).map(config).collect();
    configs.iter_mut().for_each(edit);
    let mut net = Net::of(configs);
    net.now_ns += HOLD_NS;
    net.led(A)
}

fn is_granted(message: &Message) -> bool {
    matches!(message, Message::ReadA { answer, .. } if answer.is_granted)
}

/// A leads under a lease that it has just asked for.
fn leased(edit: fn(&mut Config)) -> Net {
    let mut net = three(edit);
    let read = net.read(A);
    net.run();
    assert_eq!(net.outcome(A, read), Some(Outcome::ReadAt(Slot(1))));
    net
}

/// B has a write that waits, and stands if it may. Says whether it leads.
fn b_stands(net: &mut Net) -> bool {
    net.write(B);
    net.elect(B);
    net.leads(B)
}

#[test]
fn a_grant_outlasts_the_lease_however_clocks_run() {
    let hold_ns = three(|_| {}).nodes[A].config.hold_ns;
    let slowest_ns = LEASE_NS as f64 / (1.0 - 0.001);
    let fastest_ns = hold_ns as f64 / (1.0 + 0.001);
    assert!(fastest_ns >= slowest_ns && hold_ns < HOLD_NS);
}

#[test]
fn reads_at_the_leader_ask_nobody() {
    let mut net = leased(|_| {});
    net.watch.sent.clear();
    let reads = [net.read(A), net.read(A)];
    let answered = reads.map(|read| net.outcome(A, read));
    assert_eq!(answered, [(); 2].map(|()| Some(Outcome::ReadAt(Slot(1)))));
    assert_eq!(net.count("read"), 0);
}

#[test]
fn a_leased_leader_is_believed_alone() {
    let mut net = leased(|_| {});
    let read = net.read(B);
    net.lose(|_, to, _| to == C);
    net.pass(B, A);
    net.pass(A, B);
    assert_eq!(net.outcome(B, read), Some(Outcome::ReadAt(Slot(1))));
}

#[test]
fn a_lease_that_is_used_is_renewed_and_no_other() {
    let mut net = leased(|_| {});
    net.now_ns += LEASE_NS * 3 / 4;
    net.watch.sent.clear();
    net.write(A);
    net.run();
    assert_eq!(net.count("read"), 0, "nobody reads");
    net.read(A);
    net.run();
    assert_eq!(net.count("read"), 4, "two questions, two answers");
    net.now_ns += LEASE_NS / 2;
    net.watch.sent.clear();
    let read = net.read(A);
    assert_eq!(net.outcome(A, read), Some(Outcome::ReadAt(Slot(2))));
}

#[test]
fn nobody_else_leads_while_a_lease_runs() {
    let mut net = leased(|_| {});
    net.isolate(A);
    net.hint(A, false);
    assert!(!b_stands(&mut net), "both have granted A a lease");
    net.now_ns += HOLD_NS;
    net.elect(B);
    assert!(net.leads(B));
    let stale = net.read(A);
    net.run();
    assert_eq!(net.outcome(A, stale), None, "its lease ended before");
}

#[test]
fn a_grant_keeps_candidates_off_whoever_they_are() {
    // C grants nothing, and would vote for anybody; B has granted A a lease.
    let mut net = three(|_| {});
    net.read(A);
    net.lose(|_, to, _| to == C);
    net.run();
    net.isolate(A);
    net.hint(A, false);
    net.write(C);
    net.elect(C);
    assert!(!net.leads(C));
    net.now_ns += HOLD_NS;
    net.elect(C);
    assert!(net.leads(C));
}

/// B and C have granted A a lease, have started again, and stand.
fn restarted(edit: fn(&mut Config)) -> (Net, bool) {
    let mut net = leased(edit);
    net.isolate(A);
    for me in [B, C] {
        net.crash(me);
        net.restart(me);
    }
    net.hint(A, false);
    let leads = b_stands(&mut net);
    (net, leads)
}

#[test]
fn a_restart_helps_nobody_until_what_was_granted_is_over() {
    let (mut net, leads) = restarted(|_| {});
    assert!(!leads);
    net.now_ns += HOLD_NS;
    net.elect(B);
    assert!(net.leads(B));
}

#[test]
fn grants_forgotten_at_a_restart_let_a_leader_read_stale() {
    let (mut net, leads) = restarted(|config| config.faults = Faults::only(Fault::ForgetGrants));
    assert!(
        leads && net.nodes[B].log.len() == 2,
        "B's write is complete"
    );
    let stale = net.read(A);
    assert_eq!(net.outcome(A, stale), Some(Outcome::ReadAt(Slot(1))));
}

/// The slot that a leased leader's read waits for, while the leader has an order under way.
fn beside_an_order(edit: fn(&mut Config)) -> Option<Outcome> {
    let mut net = leased(edit);
    net.write(A);
    net.run();
    net.submit(A, Class::Order, Vec::new());
    net.write(A);
    assert!(!net.wire.is_empty() && net.nodes[A].log.len() == 2);
    let read = net.read(A);
    net.outcome(A, read)
}

#[test]
fn reads_wait_for_orders_even_under_a_lease() {
    let behind_the_order = Some(Outcome::ReadAt(Slot(3)));
    assert_eq!(beside_an_order(|_| {}), behind_the_order);
    let hasty = beside_an_order(|config| config.faults = Faults::only(Fault::ReadPastOrders));
    assert_eq!(hasty, Some(Outcome::ReadAt(Slot(2))));
}

#[test]
fn an_order_is_alone_in_its_entry() {
    let mut net = three(|config| config.batches.outstanding = 1);
    net.write(A);
    net.submit(A, Class::Order, Vec::new());
    net.write(A);
    let before = net.nodes[A].log.len();
    net.run();
    let log = net.nodes[A].log[before..].iter().flatten();
    let orders: Vec<bool> = log.map(quorate_core::Entry::is_order).collect();
    assert_eq!(orders, [false, true, false]);
}

/// The answers to A's question take longer than the grants run; meanwhile B leads.
fn late_answers(edit: fn(&mut Config)) -> Option<Outcome> {
    let mut net = three(edit);
    net.read(A);
    [B, C].into_iter().for_each(|to| net.pass(A, to));
    let late: Vec<_> = net.wire.drain(..).collect();
    assert!(late.iter().filter_map(Packet::message).all(is_granted));
    net.isolate(A);
    net.hint(A, false);
    net.now_ns += HOLD_NS;
    assert!(b_stands(&mut net));
    net.cut.clear();
    let answer = late.into_iter().next().expect("B has answered");
    net.receive(answer);
    let stale = net.read(A);
    net.outcome(A, stale)
}

#[test]
fn a_lease_runs_from_when_it_was_asked_for() {
    assert_eq!(late_answers(|_| {}), None);
    let stale = late_answers(|config| config.faults = Faults::only(Fault::CountFromGrant));
    assert_eq!(stale, Some(Outcome::ReadAt(Slot(1))));
}
