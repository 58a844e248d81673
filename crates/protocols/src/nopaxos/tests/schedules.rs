//! Nasty schedules of views and gaps, one function each: as they are here they go well, and `mutants.rs` shows what
//! becomes of them when a rule is broken. The names N-S1 and so on are in the README.
//!
//! In the first view A leads and B is the sequencer.

use super::net::{Net, kind_of};
use crate::nopaxos::{Config, Message, Record, Reply, Timer, View};
use quorate_core::{Input, Lsn, Outcome, RequestId, Slot};

pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const C: usize = 2;

/// The rules as they are.
pub(super) const SOUND: fn(&mut Config) = |_| {};

/// A has not got what was stamped for a slot, and B and C have; something is stamped behind it. What A says of the
/// gap is on its way.
fn with_a_gap_on_its_way(net: &mut Net) -> RequestId {
    let e = net.write(B);
    net.hold("marked", A);
    net.run();
    assert!(!net.is_committed(B, e));
    e
}

/// N-S1: the log with which a view starts comes to C once more, when C has replied to something in the view.
pub(super) fn a_start_that_comes_twice(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    let w = net.write(C);
    net.run();
    net.crash(A);
    net.suspect(C);
    net.pass(C, B);
    let start = net.hold("start view", C);
    net.release(start.clone());
    net.run();
    let x = net.write(C);
    net.run();
    assert!(net.is_committed(C, x), "by B, which leads, and C");
    net.release(start);
    net.run();
    net.crash(B);
    net.restart(A);
    let y = net.write(A);
    net.settle(&[w, x, y]);
    net
}

#[test]
fn the_beginning_of_a_view_is_adopted_once() {
    a_start_that_comes_twice(SOUND);
}

/// N-S2: A gives up what it has not got, with B alone, commits what is behind that, and dies.
pub(super) fn a_gap_at_one_follower(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    let e = with_a_gap_on_its_way(&mut net);
    let f = net.write(B);
    net.pass(B, A);
    // C hears of nothing but stamps, and B not that the gap is decided.
    net.run_losing(|packet| {
        let is = |kind| {
            packet
                .message()
                .is_some_and(|message| kind_of(message) == kind)
        };
        packet.to == C && !is("marked") || is("sync commit")
    });
    assert!(net.is_committed(B, f), "by A and B");
    net.crash(A);
    net.wire.clear();
    let z = net.write(C);
    net.settle(&[e, f, z]);
    net
}

#[test]
fn a_gap_that_one_of_a_majority_knows_of_is_a_gap_in_the_next_view() {
    a_gap_at_one_follower(SOUND);
}

/// N-S3: B and C start a view, and what A has comes later.
pub(super) fn a_late_view_change(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    let e = with_a_gap_on_its_way(&mut net);
    let f = net.write(B);
    net.pass(B, A);
    // A has given it up, and nobody hears of that.
    net.lose(|from, _, message| from == A && kind_of(message) == "gap");
    net.run();
    net.suspect(C);
    net.pass(C, B);
    let late = net.hold("start view", A);
    net.pass(B, C);
    net.pass(C, B);
    assert!(net.is_committed(B, e), "by B, which leads, and C");
    // A has heard of the view and says what it has.
    net.pass(C, A);
    net.pass(A, B);
    net.pass(B, A);
    net.release(late);
    net.crash(B);
    net.wire.clear();
    let z = net.write(C);
    net.settle(&[e, f, z]);
    net
}

#[test]
fn the_log_of_a_view_is_made_once() {
    a_late_view_change(SOUND);
}

/// A gives up what it has not got, nobody hears of that, and A starts again.
#[test]
fn a_leader_that_starts_again_leaves_its_view() {
    let mut net = Net::new(3, &[]).begun();
    let e = with_a_gap_on_its_way(&mut net);
    let f = net.write(C);
    net.pass(C, B);
    net.pass(B, A);
    net.lose(|from, _, _| from == A);
    assert_eq!(net.branch("gap"), 1);
    net.crash(A);
    net.restart(A);
    assert!(!net.machine(A).is_leader());
    net.settle(&[e, f]);
    assert_eq!(net.branch("view started"), 1);
}

/// N-S5: what A gives up it forgets, if that is not written before it is said.
pub(super) fn no_ops_and_a_loss_of_power(forget: Option<fn(&Record) -> bool>) -> Net {
    let mut net = Net::new(3, &[]).begun();
    net.watch.forget = forget;
    let e = with_a_gap_on_its_way(&mut net);
    let f = net.write(B);
    net.pass(B, A);
    net.lose(|_, to, message| to == C && kind_of(message) == "gap");
    net.run_losing(|packet| {
        packet.to == C && packet.message().is_some_and(|m| kind_of(m) == "sync")
    });
    assert!(net.is_committed(B, f), "by A and B, behind a no-op");
    for me in [A, B] {
        net.crash(me);
    }
    for me in [A, B] {
        net.restart(me);
    }
    let z = net.write(C);
    net.settle(&[f, z]);
    assert_eq!(net.times(C, e), 0, "its gateway is gone");
    net
}

#[test]
fn no_ops_are_durable_before_anybody_hears_of_them() {
    no_ops_and_a_loss_of_power(None);
}

/// The leader misses what both followers have, and they alone reply.
pub(super) fn replies_without_the_leaders(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    let e = net.write(B);
    net.hold("marked", A);
    net.run();
    let f = net.write(B);
    net.settle(&[e, f]);
    net
}

#[test]
fn replies_do_not_commit_without_the_leaders() {
    replies_without_the_leaders(SOUND);
}

/// Nobody has heard of the gap but A.
#[test]
fn nothing_is_committed_behind_a_gap_that_no_majority_has() {
    let mut net = Net::new(3, &[]).begun();
    let e = with_a_gap_on_its_way(&mut net);
    let f = net.write(B);
    net.pass(B, A);
    net.lose(|from, _, message| from == A && kind_of(message) == "gap");
    net.run();
    assert_eq!(net.machine(A).log.len(), 1, "it places nothing");
    assert!(!net.is_committed(B, f));
    net.crash(A);
    let z = net.write(C);
    net.settle(&[e, f, z]);
    assert_eq!(net.branch("entry given up"), 0, "the gap is forgotten");
}

/// A has what B stamped, and B forgets it with a loss of power before it was written.
pub(super) fn an_entry_at_the_leader_alone(edit: fn(&mut Config), is_compared: bool) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    net.nodes[B].is_stuck = true;
    let x = net.write(A);
    net.pass(A, B);
    net.lose(|_, to, _| to == C);
    net.pass(B, A);
    if is_compared {
        net.fire(A, Timer::Sync);
    }
    net.lose(|_, to, _| to == C);
    net.run();
    // Neither answers nor deliveries are A's alone to give.
    net.crash(A);
    net.crash(B);
    net.wire.clear();
    net.restart(B);
    let y = net.write(C);
    net.settle(&[y]);
    net.restart(A);
    net.settle(&[y]);
    assert_eq!(net.times(C, x), 0, "its gateway is gone");
    net
}

#[test]
fn the_leader_alone_neither_commits_nor_decides() {
    an_entry_at_the_leader_alone(SOUND, false);
    an_entry_at_the_leader_alone(SOUND, true);
}

/// A counts its own reply (too early, if it says so) and loses power.
pub(super) fn a_leader_that_loses_power(counts_early: bool) -> Net {
    let mut net = Net::new(3, &[]).begun();
    net.nodes[A].is_stuck = true;
    net.isolate(C);
    let x = net.write(A);
    if counts_early {
        net.pass(A, B);
        net.pass(B, A);
        net.step(A, Input::Durable(Lsn(u64::MAX)));
    }
    net.run();
    assert_eq!(net.is_committed(A, x), counts_early);
    net.crash(A);
    net.wire.clear();
    net.cut.clear();
    net.isolate(B);
    net.restart(A);
    let y = net.write(C);
    for _ in 0..6 {
        net.run();
        for me in [A, C] {
            for timer in [Timer::Leader, Timer::Sequencer, Timer::Retry, Timer::Sync] {
                net.may_fire(me, timer);
                net.run();
            }
        }
    }
    net.settle(&[y]);
    net
}

#[test]
fn the_own_reply_counts_when_it_is_durable() {
    a_leader_that_loses_power(false);
}

/// C leaves the view on its own, and starts another if it may.
pub(super) fn a_view_of_one(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    let w = net.write(B);
    net.run();
    net.isolate(C);
    for _ in 0..2 {
        net.suspect(C);
    }
    let x = net.write(B);
    net.run();
    assert!(net.is_committed(B, x), "by A and B");
    net.wire.clear();
    net.cut.clear();
    net.crash(A);
    net.settle(&[w, x]);
    net.restart(A);
    net.settle(&[w, x]);
    net
}

#[test]
fn a_view_starts_with_a_majority() {
    a_view_of_one(SOUND);
}

/// A leads no more and has not heard of that; a client reads there.
pub(super) fn a_read_at_a_former_leader(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    net.isolate(A);
    let x = net.write(C);
    net.run();
    net.suspect(C);
    net.run();
    assert!(net.is_committed(C, x), "by B, which leads, and C");
    let read = net.read(A);
    net.run();
    net.settle(&[x]);
    assert!(matches!(net.outcome(A, read), Some(Outcome::ReadAt(_))));
    net
}

#[test]
fn a_read_hears_from_a_majority_in_one_view() {
    a_read_at_a_former_leader(SOUND);
}

/// N-S8: replies of two views are not added up, and those of the earlier one do not count any more.
#[test]
fn replies_of_two_views_do_not_commit_together() {
    let mut net = Net::new(5, &[]);
    let x = net.write(C);
    net.wire.clear();
    let ids: Vec<_> = net.machine(C).gateway.unanswered.keys().copied().collect();
    let id = ids[0];
    let next = View {
        lead: 1,
        ..View::FIRST
    };
    let reply = |view, results| {
        let slot = Slot(0);
        Message::Reply(Reply {
            view,
            slot,
            id,
            results,
        })
    };
    let result = || Some(vec![Default::default()]);
    net.hear(B, C, &reply(View::FIRST, None));
    net.hear(3, C, &reply(View::FIRST, None));
    net.hear(B, C, &reply(next, result()));
    net.hear(A, C, &reply(View::FIRST, result()));
    net.hear(3, C, &reply(next, None));
    assert!(
        !net.is_committed(C, x),
        "two of five have replied in the second view"
    );
    net.hear(4, C, &reply(next, None));
    assert!(net.is_committed(C, x));
}

/// N-S6: a follower that has what the leader gave up answers nobody.
#[test]
fn a_follower_answers_no_lookup() {
    let mut net = Net::new(3, &[]).begun();
    let e = with_a_gap_on_its_way(&mut net);
    let view = net.machine(A).view;
    let (from, until) = (net.machine(A).log.end(), net.machine(B).log.end());
    let question = Message::Lookup { view, from, until };
    net.hear(A, B, &question);
    assert!(net.messages().all(|(_, to, _)| to != A));
    net.settle(&[e]);
}

/// C misses the last entry there is, and hears that the leader has it.
#[test]
fn a_follower_that_missed_the_last_entry_asks_for_it() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(B);
    net.hold("marked", C);
    net.run();
    net.fire(A, Timer::Sync);
    net.run_losing(|packet| {
        let message = packet.message();
        packet.to == C && message.is_some_and(|message| kind_of(message) == "sync commit")
    });
    assert_eq!(net.machine(C).log.len(), 0);
    net.fire(C, Timer::Retry);
    net.run();
    assert_eq!(net.times(C, x), 1);
}

/// N-S9: what was stamped is lost at all others, and nothing follows.
#[test]
fn what_all_others_lost_is_stamped_again_when_its_gateway_asks() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(C);
    net.pass(C, B);
    net.wire.clear();
    for _ in 0..2 {
        net.fire(C, Timer::Retry);
        net.run();
    }
    assert!(net.is_committed(C, x));
    net.settle(&[x]);
}

/// An entry that has two numbers comes to something once, also where its first slot was given up.
#[test]
fn an_entry_with_two_slots_takes_effect_once() {
    for is_given_up in [false, true] {
        let mut net = Net::new(3, &[]).begun();
        let x = net.write(B);
        let first = net.take_packets(|packet| packet.to == A);
        net.run();
        let entry = net
            .machine(B)
            .log
            .iter()
            .find_map(|(_, value)| value.clone());
        let entry = entry.expect("it is placed");
        let (session, number) = (1, net.machine(B).log.number(net.machine(B).log.end()));
        if !is_given_up {
            net.release(first);
        }
        let again = Message::Marked {
            session,
            number,
            entry,
        };
        for me in [A, C] {
            net.hear(B, me, &again);
        }
        net.run();
        // The sequencer does not know of the second number: it is a copy's.
        for me in [B, C] {
            net.crash(me);
            net.restart(me);
        }
        net.settle(&[x]);
        let y = net.write(C);
        net.settle(&[x, y]);
    }
}
