//! Nasty schedules of leaders that come and go.

use super::net::{A, B, C, D, E, Net};
use crate::fast_paxos::{Config, Record, Timer};
use quorate_core::{Outcome, Slot};

/// F-S7: the fast round of an old ballot opens after another was promised.
#[test]
fn a_fast_round_of_an_old_ballot_stays_closed() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(A);
    for to in [B, C] {
        net.pass_kind("propose", A, to);
        net.pass_kind("fast vote", to, A);
    }
    let late = net.hold("commit", A, C);
    net.lose_all();
    net.stand(B);
    net.pass_kind("prepare", B, C);
    net.release(late);
    assert_eq!(net.times(C, x), 1, "what is decided is so");
    assert!(net.machine(C).any.is_none() && net.count("nack") > 0);
    let (y, votes) = (net.write(C), net.count("fast vote"));
    net.pass_kind("nack", C, A);
    assert!(!net.leads(A), "it heard of a later ballot");
    assert_eq!(net.count("fast vote"), votes, "C votes for nothing yet");
    net.settle(&[x, y]);
}

/// A member promises a ballot and starts again, and the leader of the one before still asks.
pub(super) fn a_member_that_promised_and_restarts(forget: Option<fn(&Record) -> bool>) {
    let mut net = Net::new(3, &[]).begun();
    net.watch.forget = forget;
    let x = net.write(A);
    net.lose_all();
    let y = net.write(B);
    net.lose_all();
    net.stand(B);
    net.hold("prepare", B, A);
    net.pass_kind("prepare", B, C);
    net.pass_kind("promise", C, B);
    // It found its own vote, and asks for it.
    let asked = net.hold("accept", B, C);
    net.lose_all();
    net.crash(C);
    net.restart(C);
    net.fire(A, Timer::Collide);
    net.fire(A, Timer::Collide);
    net.pass_kind("accept", A, C);
    let accepted = net.hold("accepted", C, A);
    assert_eq!(accepted.is_empty(), forget.is_none());
    net.release(accepted);
    net.lose_all();
    net.release(asked);
    net.run();
    net.settle(&[x, y]);
}

#[test]
fn promises_survive_crashes() {
    a_member_that_promised_and_restarts(None);
}

/// A candidate has delivered less than those that promise: it learns that first.
#[test]
fn a_candidate_that_is_behind_learns_first() {
    let mut net = Net::new(3, &[]).begun();
    net.isolate(C);
    let x = net.write(B);
    net.run();
    net.fire(A, Timer::Collide);
    net.fire(A, Timer::Collide);
    net.run();
    assert_eq!(net.times(B, x), 1);
    net.cut.clear();
    net.crash(A);
    let y = net.write(C);
    net.stand(C);
    net.run();
    assert!(net.leads(C) && net.branch("candidate behind") + net.branch("installed") > 0);
    net.restart(A);
    net.settle(&[x, y]);
}

#[test]
fn a_leader_that_starts_again_leads_by_another_ballot() {
    let mut net = Net::new(3, &[]).begun();
    let before = net.machine(A).promised;
    let x = net.write(B);
    net.run();
    net.crash(A);
    net.restart(A);
    assert!(!net.leads(A));
    let y = net.write(C);
    net.settle(&[x, y]);
    let leads = |me: &usize| net.leads(*me);
    let leader = [A, B, C].into_iter().find(leads).expect("somebody leads");
    assert!(net.machine(leader).promised > before);
}

/// Two stand at once: the higher ballot wins, and the other does not go on.
#[test]
fn of_two_candidates_one_leads() {
    let mut net = Net::new(5, &[]);
    let requests = [net.write(B), net.write(D)];
    net.fire(B, Timer::Election);
    net.fire(D, Timer::Election);
    net.run();
    let leaders: Vec<usize> = (A..=E).filter(|me| net.leads(*me)).collect();
    assert_eq!(leaders, [D]);
    net.settle(&requests);
}

#[test]
fn a_preferred_member_leads() {
    let mut net = Net::new(3, &[]).begun();
    let id = quorate_testkit::id(C);
    for me in [A, B, C] {
        net.step(me, quorate_core::Input::Prefer(id));
    }
    net.run();
    assert!(net.leads(C) && !net.leads(A));
    let x = net.write(B);
    net.settle(&[x]);
}

/// A link breaks: whoever waits for the leader behind it does so no longer.
#[test]
fn a_broken_link_hurries() {
    let mut net = Net::new(3, &[]).begun();
    net.crash(A);
    net.hint(A, false);
    let x = net.write(B);
    net.run();
    let due_ns = net.nodes[B].timers[&Timer::Election] - net.now_ns;
    assert!(due_ns <= net.machine(B).config.delays.election_ns / 8);
    net.fire(B, Timer::Election);
    net.run();
    assert!(net.leads(B));
    net.settle(&[x]);
}

/// A leader that is cut off does not know that another one decides. Gives what a read there was answered with.
pub(super) fn a_read_at_a_leader_that_is_cut_off(edit: fn(&mut Config)) -> Option<Outcome> {
    let mut net = Net::edited(3, &[], edit).begun();
    net.isolate(A);
    let x = net.write(B);
    net.run();
    net.stand(B);
    net.run();
    assert_eq!((net.times(B, x), net.times(A, x)), (1, 0));
    let read = net.read(A);
    net.run();
    let early = net.outcome(A, read);
    if early.is_some() {
        return early;
    }
    let end = Slot(net.nodes[B].log.len() as u64);
    net.settle(&[x]);
    net.quiet();
    let answered = net.outcome(A, read);
    let is_current = matches!(answered, Some(Outcome::ReadAt(at)) if at >= end);
    assert!(is_current, "{answered:?}");
    None
}

#[test]
fn a_read_sees_what_was_decided_in_a_later_ballot() {
    assert_eq!(a_read_at_a_leader_that_is_cut_off(|_| {}), None);
}

/// A restarted follower whose votes are undecided waits for the leader, and does not replace it.
#[test]
fn a_follower_that_starts_again_asks_the_leader() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(B);
    net.pass_kind("propose", B, C);
    net.crash(C);
    net.restart(C);
    let timeout_ns = net.machine(C).config.delays.election_ns;
    let due_ns = net.nodes[C].timers[&Timer::Election] - net.now_ns;
    assert!(due_ns >= timeout_ns, "there may be a leader");
    net.fire(C, Timer::Retransmit);
    net.run();
    assert_eq!(net.machine(C).trust.leader.map(|of| of.position()), Some(A));
    net.settle(&[x]);
    assert!(net.leads(A));
}
