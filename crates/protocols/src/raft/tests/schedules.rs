//! Nasty schedules of terms and logs, one function each: as they are here they go well, and `mutants.rs` shows
//! what becomes of them when a rule is broken.

use super::net::{Net, seat};
use crate::raft::{Append, Config, Message, Raft, Timer};
use crate::registry::Protocol;
use quorate_core::{Class, Outcome, Refusal, Slot};
use quorate_testkit::Body;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// The rules as they are.
const SOUND: fn(&mut Config) = |_| {};

fn is_noop_append(message: &Message) -> bool {
    let Message::Append(append) = message else {
        return false;
    };
    append.entries.iter().any(|entry| entry.entry.is_none())
}

fn is_write_append(message: &Message) -> bool {
    matches!(message, Message::Append(append) if !append.entries.is_empty())
}

/// Figure 8 of the paper: x of term 1 comes to a majority in term 3, and 4 leads after all, with an entry of
/// term 2 in its place.
pub(super) fn an_old_entry_on_a_majority(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(5, &[("append_bytes", "1")], edit).led(A);
    let x = net.write(A);
    net.lose(|_, to, _| to != B);
    net.pass(A, B);
    net.lose_all();
    net.crash(A);
    net.hint(A, false);
    // 4 leads term 2 by the votes of 2 and 3, and nobody hears of it.
    net.write(4);
    net.stand(4, &[C, 3]);
    assert!(net.leads(4));
    net.lose_all();
    net.crash(4);
    net.restart(A);
    net.doubt(&[C]);
    // A leads term 3: x comes to C, too, and the entry of the own term does not.
    net.stand(A, &[B, C]);
    assert!(net.leads(A));
    net.lose_all();
    for _ in 0..2 {
        net.fire(A, Timer::Retransmit);
    }
    net.lose(|_, _, message| is_noop_append(message));
    for member in [B, C] {
        net.pass(A, member);
        net.lose(|_, _, message| matches!(message, Message::Behind(_)));
    }
    net.fire(A, Timer::Retransmit);
    net.lose(|_, _, message| is_noop_append(message));
    for member in [B, C] {
        net.pass(A, member);
        net.pass(member, A);
    }
    assert!(net.terms(B).contains(&(Slot(2), 1)) && net.terms(C).contains(&(Slot(2), 1)));
    net.crash(A);
    net.lose_all();
    net.restart(4);
    net.hint(A, false);
    net.doubt(&[C]);
    net.elect(4);
    assert!(net.leads(4), "its last term is later than that of x");
    assert_eq!(net.times(C, x), 0, "x was not committed");
    net
}

#[test]
fn an_entry_of_an_earlier_term_is_not_committed_by_being_on_a_majority() {
    an_old_entry_on_a_majority(SOUND);
}

/// A message comes again, after a later one: what that one brought stays.
pub(super) fn a_message_comes_again(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[("outstanding", "3")], edit).led(A);
    net.isolate(C);
    let requests = [net.write(A), net.write(A), net.write(A)];
    let to_b = |packet: &quorate_testkit::Packet<_>| packet.to == B;
    let late = net
        .wire
        .iter()
        .filter(|packet| to_b(packet))
        .nth(1)
        .cloned();
    net.pass(A, B);
    net.pass(B, A);
    assert_eq!(net.times(A, requests[2]), 1, "committed by A and B");
    net.lose_all();
    net.receive(late.expect("the second of three"));
    net.crash(A);
    net.lose_all();
    net.cut.clear();
    net.hint(A, false);
    net.elect(B);
    for request in requests {
        assert_eq!((net.times(B, request), net.times(C, request)), (1, 1));
    }
    net
}

#[test]
fn a_message_that_comes_again_cuts_nothing_off() {
    a_message_comes_again(SOUND);
}

/// B has two entries of A that nobody else has; C leads term 2 by A's vote, and commits others there.
fn a_stale_tail_at_b(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[("outstanding", "2")], edit).led(A);
    net.nodes[A].is_stuck = true;
    net.write(A);
    net.write(A);
    net.lose(|_, to, _| to == C);
    net.pass(A, B);
    assert_eq!(net.terms(B), [(Slot(2), 1), (Slot(3), 1)]);
    net.crash(A);
    net.lose_all();
    net.restart(A);
    net.isolate(B);
    net.hint(A, false);
    net.hint(A, true);
    net.write(C);
    net.elect(C);
    assert!(net.leads(C) && net.nodes[C].log.len() == 4);
    net.cut.clear();
    net
}

/// The paper's heartbeat of the new leader: it fits before B's tail, and says more to be committed.
pub(super) fn a_heartbeat_before_a_stale_tail(edit: fn(&mut Config)) -> Net {
    let mut net = a_stale_tail_at_b(edit);
    let heartbeat = Append {
        term: net.term(C),
        from: Slot(2),
        term_before: Some(1),
        entries: Vec::new(),
        commit: Slot(4),
    };
    net.put(C, B, Body::Message(Message::Append(heartbeat)));
    net.pass(C, B);
    assert_eq!(net.nodes[B].log.len(), 2, "the tail is not committed");
    net.fire(B, Timer::CatchUp);
    assert_eq!(net.nodes[B].log.len(), 4);
    net
}

#[test]
fn nothing_is_committed_to_the_own_end() {
    a_heartbeat_before_a_stale_tail(SOUND);
}

/// The new leader's next entry is behind B's tail, which is as long as what was committed.
pub(super) fn an_entry_behind_a_stale_tail(edit: fn(&mut Config)) -> Net {
    let mut net = a_stale_tail_at_b(edit);
    let request = net.write(C);
    net.run();
    assert_eq!((net.times(B, request), net.times(A, request)), (1, 1));
    net
}

#[test]
fn a_tail_of_another_term_is_replaced() {
    let net = an_entry_behind_a_stale_tail(SOUND);
    assert_eq!(net.nodes[B].log.len(), 5);
}

/// B commits x with A, and A dies. C, which has less, wants to lead.
pub(super) fn a_candidate_without_what_is_committed(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).led(A);
    net.isolate(C);
    let x = net.write(A);
    net.pass(A, B);
    net.pass(B, A);
    assert_eq!((net.times(A, x), net.times(B, x)), (1, 0));
    net.crash(A);
    net.lose_all();
    net.cut.clear();
    net.hint(A, false);
    net.write(C);
    net.elect(C);
    if net.timers_of(B) {
        net.elect(B);
    }
    assert_eq!((net.times(B, x), net.times(C, x)), (1, 1));
    net
}

impl Net {
    /// Lets the time pass in which replicas wait for whom they voted for.
    fn doubt(&mut self, replicas: &[usize]) {
        for me in replicas {
            (0..2).for_each(|_| self.fire(*me, Timer::Election));
        }
        self.lose_all();
    }

    /// Whether a replica waits for its time to stand.
    fn timers_of(&self, me: usize) -> bool {
        self.nodes[me].timers.contains_key(&Timer::Election)
    }
}

#[test]
fn a_candidate_with_an_older_log_gets_no_vote() {
    let net = a_candidate_without_what_is_committed(SOUND);
    assert!(net.leads(B), "who has more stands itself");
}

/// C led term 2 alone, and has more slots of it than A and B have committed in term 3. B has restarted: the
/// terms of what it has delivered are not known to it.
pub(super) fn a_long_log_of_an_old_term(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[("outstanding", "4")], edit).led(A);
    net.isolate(A);
    net.hint(A, false);
    net.write(C);
    net.stand(C, &[B]);
    assert!(net.leads(C));
    net.lose_all();
    net.cut.clear();
    net.isolate(C);
    (0..3).for_each(|_| {
        net.write(C);
    });
    net.lose_all();
    let request = net.write(A);
    net.run();
    assert!(!net.leads(A), "B knows of term 2");
    net.doubt(&[B]);
    net.elect(A);
    assert!(net.leads(A) && net.times(B, request) == 1);
    net.crash(B);
    net.restart(B);
    net.crash(A);
    net.lose_all();
    net.hint(A, false);
    // B cannot give C its log yet.
    let end = net.terms(C).last().copied();
    assert!(end > Some((net.nodes[B].next(), 0)), "C's log is longer");
    net.fire(C, Timer::Election);
    assert!(!net.leads(C), "nobody answers it");
    net.cut.clear();
    net.fire(C, Timer::Election);
    for _ in 0..2 {
        let from_c = net.take_packets(|packet| packet.from == C && packet.to == B);
        net.cut.insert((B, C));
        for packet in from_c {
            net.receive(packet);
        }
        net.cut.clear();
        net.pass(B, C);
    }
    net.run();
    for _ in 0..4 {
        for me in [B, C] {
            if net.timers_of(me) && !net.leads(B) && !net.leads(C) {
                net.elect(me);
            }
        }
    }
    assert!(net.leads(B) || net.leads(C));
    assert_eq!((net.times(B, request), net.times(C, request)), (1, 1));
    net
}

#[test]
fn a_voter_that_does_not_know_its_last_term_goes_by_what_is_delivered() {
    let net = a_long_log_of_an_old_term(SOUND);
    assert!(net.branches.contains_key("candidate behind"));
}

/// B votes for A in term 1, and restarts.
pub(super) fn a_voter_that_restarts(mut net: Net) -> Net {
    net.isolate(C);
    net.write(A);
    net.stand(A, &[B]);
    assert!(net.leads(A) && net.term(A) == 1);
    net.lose_all();
    net.crash(B);
    net.restart(B);
    net.cut.clear();
    net.isolate(A);
    net.write(C);
    net.elect(C);
    assert!(net.leads(C));
    net
}

#[test]
fn a_vote_survives_a_restart() {
    let net = a_voter_that_restarts(Net::new(3, &[]));
    assert_eq!(net.term(C), 2);
}

/// A replica that was away asks before it stands: it raises nobody's term.
#[test]
fn who_was_cut_off_deposes_nobody() {
    let mut net = Net::led_by(A, 3, &[]);
    net.isolate(C);
    net.write(C);
    for _ in 0..40 {
        net.fire(C, Timer::Election);
        net.lose_all();
    }
    net.cut.clear();
    net.fire(C, Timer::Retransmit);
    net.run();
    assert!(net.leads(A) && (net.term(A), net.term(C)) == (1, 1));
}

/// An acknowledgement of an earlier term of the same leader says nothing of its present log.
#[test]
fn an_acknowledgement_of_an_earlier_term_does_not_count() {
    let mut net = Net::led_by(A, 3, &[]);
    net.isolate(A);
    net.write(A);
    for _ in 0..2 {
        net.fire(A, Timer::Election);
    }
    assert!(!net.leads(A), "nobody answers it");
    net.cut.clear();
    net.stand(A, &[B]);
    assert!(net.leads(A) && net.term(A) > 1);
    net.lose_all();
    let upto = net.machine(A).log.end();
    for member in [B, C] {
        let lives = Default::default();
        let late = Message::Appended {
            term: 1,
            upto,
            lives,
        };
        net.put(member, A, Body::Message(late));
        net.pass(member, A);
    }
    assert_eq!(net.nodes[A].log.len(), 2, "nothing is committed");
}

/// A leader that restarts goes on as a follower: what it had said and not written is another term's.
#[test]
fn a_leader_that_restarts_leads_no_more() {
    let mut net = Net::led_by(A, 3, &[]);
    net.nodes[A].is_stuck = true;
    net.write(A);
    net.pass(A, C);
    net.crash(A);
    net.lose_all();
    net.restart(A);
    assert!(!net.leads(A));
    net.hint(A, false);
    net.write(A);
    net.run();
    for me in [A, C] {
        if net.timers_of(me) && !net.leads(C) {
            net.elect(me);
        }
    }
    assert!(net.leads(C) && net.term(C) > 1, "C has what A lost");
    assert_eq!(net.nodes[B].log.len(), net.nodes[C].log.len());
}

/// An entry that two leaders were offered takes effect once.
#[test]
fn an_entry_offered_to_two_leaders_takes_effect_once() {
    let mut net = Net::led_by(A, 3, &[]);
    net.write(A);
    let request = net.write(C);
    net.pass(C, A);
    net.lose(|from, _, _| from == A);
    net.isolate(A);
    net.hint(A, false);
    net.write(C);
    net.elect(C);
    assert!(net.leads(C) && net.times(C, request) == 1);
    net.cut.clear();
    net.isolate(C);
    net.hint(C, false);
    net.write(B);
    net.elect(B);
    // A takes itself for the leader until it is told.
    net.fire(B, Timer::Retransmit);
    net.run();
    assert!(net.leads(B));
    assert_eq!((net.times(A, request), net.times(B, request)), (1, 1));
}

/// C has x and does not know that it is committed; it leads, and reads before anything of its own is.
pub(super) fn a_read_at_a_new_leader(edit: fn(&mut Config)) -> Option<Outcome> {
    let mut net = Net::edited(3, &[], edit).led(A);
    let x = net.write(A);
    [B, C].into_iter().for_each(|member| net.pass(A, member));
    net.pass(B, A);
    assert_eq!((net.times(A, x), net.times(C, x)), (1, 0));
    net.crash(A);
    net.lose_all();
    net.hint(A, false);
    net.stand(C, &[B]);
    assert!(net.leads(C));
    let read = net.read(C);
    net.run_losing(|_, _, message| is_write_append(message));
    net.outcome(C, read)
}

#[test]
fn a_new_leader_reads_behind_its_own_first_entry() {
    let behind_the_noop = Some(Outcome::ReadAt(Slot(4)));
    assert_eq!(a_read_at_a_new_leader(SOUND), behind_the_noop);
}

/// An order is in the leader's log, and nobody has acknowledged it.
pub(super) fn a_read_beside_an_order(edit: fn(&mut Config)) -> Option<Outcome> {
    let mut net = Net::edited(3, &[], edit).led(A);
    net.submit(A, Class::Order, bytes::Bytes::new(), Vec::new());
    net.lose_all();
    let read = net.read(A);
    net.run_losing(|_, _, message| is_write_append(message));
    net.outcome(A, read)
}

#[test]
fn reads_wait_for_orders() {
    let behind_the_order = Some(Outcome::ReadAt(Slot(3)));
    assert_eq!(a_read_beside_an_order(SOUND), behind_the_order);
}

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
    assert_eq!(net.outcome(A, stale), Some(Outcome::ReadAt(Slot(4))));
}

#[test]
fn a_replica_that_hears_of_a_leader_refuses_its_vote_and_passes_entries_on() {
    let mut net = Net::led_by(A, 3, &[]);
    net.cut.extend([(A, C), (C, A)]);
    let request = net.write(C);
    net.run();
    for _ in 0..2 {
        net.fire(C, Timer::Election);
    }
    net.run();
    assert!(net.leads(A) && !net.leads(C), "refused by A's follower");
    for _ in 0..2 {
        net.fire(C, Timer::Retransmit);
        net.run();
    }
    assert_eq!(net.times(B, request), 1, "it got to the leader through B");
}

#[test]
fn without_a_leader_requests_are_refused_in_the_end() {
    let mut net = Net::new(3, &[("outstanding", "1")]);
    net.isolate(A);
    let (formed, waiting) = (net.write(A), net.write(A));
    let read = net.read(A);
    net.fire(A, Timer::Patience);
    let refused = Some(Outcome::Refused(Refusal::NotServing));
    assert_eq!(net.outcome(A, waiting), refused);
    assert_eq!(net.outcome(A, read), refused);
    assert_eq!(net.outcome(A, formed), None, "it stays under way");
}

#[test]
fn what_means_nothing_is_refused() {
    let error = |params: &[(&str, &str)]| Raft::config(&seat(3, 0, params)).unwrap_err();
    assert!(
        error(&[("windw", "4")]).starts_with("unknown parameter windw: raft knows append_bytes")
    );
    assert!(error(&[("window", "0")]).contains("window = 0: must be a number from 1 to 1024"));
}
