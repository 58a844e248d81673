//! Schedules that break what is nearly right.

use super::net::{A, B, C, D, E, Net};
use crate::epaxos::{Config, Fault, Record, Said, Timer};
use crate::shared::faults::Faults;
use quorate_core::{ClientId, EntryId, Input, Introspect, RequestId};
use std::collections::BTreeSet;

pub(super) fn with(fault: Fault) -> impl Fn(&mut Config) {
    move |config| config.faults = Faults::only(fault)
}

/// Two coordinators die whose entries conflict, and each is known to one more member: two others recover them at the
/// same time, and neither may take both for committed on the fast path.
pub(super) fn two_orphans(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(5, &[], edit);
    net.set_all(A);
    net.set_all(B);
    net.pass_kind("pre-accept", A, C);
    net.pass_kind("pre-accept", B, D);
    net.lose_all();
    net.die(A);
    net.die(B);
    net.suspect(C);
    net.suspect(D);
    net.settle(&[]);
    assert!(net.branch("instance made void") > 0);
    let last = net.set_all(E);
    net.settle(&[last]);
}

#[test]
fn es2_of_two_orphans_that_conflict_not_both_are_taken_for_committed() {
    two_orphans(|_| {});
}

/// One member accepts a value at a ballot, two others void at a higher one, and the first joins a still higher one:
/// what it accepted is no newer for that.
pub(super) fn joined_and_not_accepted(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit);
    net.set_all(A);
    net.pass_kind("pre-accept", A, B);
    net.lose_all();
    net.recover(B);
    net.pass_kind("recover", B, C);
    net.pass_kind("joined", C, B);
    net.pass_kind("validate", B, C);
    net.pass_kind("validated", C, B);
    net.lose_all();
    net.recover(C);
    net.pass_kind("recover", C, A);
    net.pass_kind("joined", A, C);
    net.pass_kind("accept", C, A);
    net.pass_kind("accepted", A, C);
    net.lose_all();
    // It is void, and C delivers that.
    net.fire(C, Timer::Mark);
    net.pass_kind("pre-accept", C, A);
    net.pass_kind("pre-accepted", A, C);
    assert_eq!(net.nodes[C].log.len(), 2);
    net.lose_all();
    net.die(C);
    for _ in 0..2 {
        net.recover(B);
        net.run();
    }
    let last = net.set_all(B);
    net.settle(&[last]);
}

/// An entry of which nobody else has heard is below one that others know: they make it void, and its coordinator, which
/// lives, forms another of its commands.
pub(super) fn void_entry_of_a_living_coordinator(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit);
    let first = net.set(A, 1);
    net.lose_all();
    let second = net.set(A, 1);
    net.pass_kind("pre-accept", A, B);
    net.lose_all();
    net.isolate(A);
    for _ in 0..3 {
        net.recover(B);
        net.run();
    }
    assert!(net.branch("instance made void") > 0);
    net.settle(&[first, second]);
}

#[test]
fn commands_of_a_void_entry_get_another() {
    void_entry_of_a_living_coordinator(|_| {});
}

#[test]
fn es1_to_join_a_ballot_is_not_to_accept_at_it() {
    joined_and_not_accepted(|_| {});
}

/// Two members deliver an entry of which the third knows nothing, and one of them forms another. What it knows to be
/// delivered it may have forgotten.
pub(super) fn one_that_has_heard_nothing(has_restarted: bool, edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit);
    net.set_all(A);
    net.pass_kind("pre-accept", A, B);
    net.pass_kind("pre-accepted", B, A);
    net.pass_kind("commit", A, B);
    net.lose_all();
    assert_eq!(net.nodes[B].log.len(), 1);
    if has_restarted {
        net.flush(B);
        net.die(B);
        net.restart(B);
    }
    net.lose_all();
    net.isolate(A);
    let second = net.set_all(B);
    net.run();
    net.settle(&[second]);
}

#[test]
fn what_is_delivered_goes_before_what_is_formed_later() {
    one_that_has_heard_nothing(false, |_| {});
    one_that_has_heard_nothing(true, |_| {});
}

/// A coordinator forgets an entry that another member keeps, and commits another on the fast path; when it is gone, the
/// forgotten one speaks against that.
pub(super) fn forgotten_entry(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit);
    let first = net.set_all(A);
    net.settle(&[first]);
    net.flush(A);
    net.nodes[A].is_stuck = true;
    net.set_all(A);
    let early = net.hold("pre-accept", A, B);
    net.release(early);
    net.lose_all();
    net.die(A);
    net.restart(A);
    net.run();
    let request = net.set_all(A);
    net.pass_kind("pre-accept", A, C);
    net.pass_kind("pre-accepted", C, A);
    assert_eq!(net.times(A, request), 1);
    net.lose_all();
    net.die(A);
    net.recover(C);
    let last = net.set_all(B);
    net.settle(&[last]);
    assert_eq!(net.times(B, request), 1, "what was committed stays (E7)");
}

#[test]
fn an_entry_is_on_disk_before_others_hear_of_it() {
    forgotten_entry(|_| {});
}

/// A coordinator commits on the fast path, which it delivers, and power fails before anybody hears of that and before
/// the hint of it is written. The other member of its fast quorum fails, too.
pub(super) fn forgotten_commit(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit);
    let request = net.set_all(A);
    net.pass_kind("pre-accept", A, C);
    net.pass_kind("pre-accepted", C, A);
    assert_eq!(net.times(A, request), 1);
    net.lose_all();
    net.die(A);
    net.die(C);
    net.restart(A);
    net.suspect(A);
    net.run();
    net.suspect(B);
    let last = net.set_all(B);
    net.settle(&[last]);
    net.restart(C);
    net.settle(&[request, last]);
}

#[test]
fn es4_a_coordinator_knows_after_a_restart_what_it_had_committed() {
    forgotten_commit(|_| {});
}

/// A coordinator commits on the fast path with one more member, which restarts; the coordinator does not come back.
pub(super) fn kept_by_one_more(forget: Option<fn(&Record) -> bool>) {
    let mut net = Net::new(3, &[]);
    net.watch.forget = forget;
    let request = net.set_all(A);
    net.pass_kind("pre-accept", A, C);
    net.pass_kind("pre-accepted", C, A);
    assert_eq!(net.times(A, request), 1);
    net.lose_all();
    net.die(A);
    net.die(C);
    net.restart(C);
    let last = net.set_all(B);
    net.settle(&[last]);
    assert_eq!(net.times(B, request), 1, "what was committed stays (E7)");
}

#[test]
fn what_a_member_keeps_it_keeps_across_a_restart() {
    kept_by_one_more(None);
}

/// The disk of a coordinator is stuck when it has its answers, and power fails at both members of a fast quorum.
pub(super) fn power_fails_before_the_flush(is_hasty: bool) {
    let mut net = Net::new(3, &[]);
    let request = net.set_all(A);
    net.nodes[A].is_stuck = true;
    net.pass_kind("pre-accept", A, C);
    net.pass_kind("pre-accepted", C, A);
    if is_hasty {
        let written = net.nodes[A].out.persisted();
        net.step(A, Input::Durable(written));
    }
    assert_eq!(net.times(A, request), usize::from(is_hasty));
    net.lose_all();
    net.die(A);
    net.restart(A);
    net.die(C);
    net.recover(A);
    let last = net.set_all(B);
    net.settle(&[last]);
}

#[test]
fn a_fast_commit_is_durable_before_anybody_knows() {
    power_fails_before_the_flush(false);
}

/// An entry is committed behind one that is not, which a later entry of the same key may be committed before: the three
/// make a circle, in which names decide.
pub(super) fn circle(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(3, &[], edit);
    // C's entry is known to C alone.
    net.set(C, 1);
    let late = net.hold("pre-accept", C, B);
    net.lose_all();
    // That of A comes to C, and is committed behind it.
    let first = net.set(B, 1);
    let others = net.hold("pre-accept", B, A);
    net.run();
    drop(others);
    assert!(net.machine(B).explain().contains("committed"));
    // B has not heard of C's entry; A knows B's, and a client of A asks for another.
    let second = net.set(A, 1);
    net.lose_but_to(B);
    net.run();
    net.release(late);
    net.run();
    net.settle(&[first, second]);
}

#[test]
fn es6_an_entry_is_answered_when_all_below_it_is_decided() {
    circle(|_| {});
}

/// Entries that wait for each other, while members start again.
#[test]
fn es3_two_recoveries_that_wait_for_each_other_end() {
    let mut net = Net::new(3, &[]);
    let first = net.set_all(A);
    let second = net.set_all(B);
    net.pass_kind("pre-accept", A, C);
    net.lose_all();
    for me in [A, B] {
        net.die(me);
        net.restart(me);
    }
    for me in [A, B, C] {
        net.suspect(me);
    }
    let third = net.set_all(C);
    net.settle(&[third]);
    for request in [first, second] {
        let times = [A, B, C].map(|me| net.times(me, request));
        assert!(times.iter().all(|it| *it == times[0] && *it <= 1));
    }
}

/// Only a later entry of the same key is known to who recovers an earlier one.
#[test]
fn es7_an_entry_of_which_only_a_later_one_tells_is_made_void_or_found() {
    let mut net = Net::new(5, &[]);
    let first = net.set(A, 1);
    net.lose_all();
    let second = net.set(A, 1);
    net.pass_kind("pre-accept", A, B);
    net.lose_all();
    net.die(A);
    net.suspect(B);
    let third = net.set(C, 1);
    net.settle(&[third]);
    for me in [B, C, D, E] {
        assert_eq!(net.times(me, first), 0, "nobody knows of it");
        assert_eq!(net.times(me, second), net.times(B, second));
    }
}

/// New entries of one key at all members without end: what was asked for is delivered all the same.
#[test]
fn es8_a_chain_of_conflicting_entries_holds_nobody_up() {
    let mut net = Net::new(3, &[]);
    let first = net.set(A, 1);
    for round in 0..40 {
        for me in [A, B, C] {
            net.set(me, 1);
            let now = net.take_packets(|_| true);
            net.release(now);
        }
        if round % 5 == 4 {
            for me in [A, B, C] {
                net.try_fire(me, Timer::Mark);
            }
        }
    }
    assert!([A, B, C].iter().all(|me| net.times(*me, first) == 1));
}

/// A member is given a log that ends within a circle of entries, and starts again there.
#[test]
fn es9_a_member_goes_on_in_the_middle_of_what_others_delivered_at_once() {
    for cut in 1..4 {
        let mut net = Net::new(3, &[]);
        let requests: Vec<RequestId> = (0..3)
            .flat_map(|me| [net.set(me, 1), net.set(me, 1)])
            .collect();
        let held = net.take_packets(|packet| packet.to == C);
        net.run();
        net.lose_all();
        for me in [A, B] {
            net.try_fire(me, Timer::Mark);
        }
        let more = net.take_packets(|packet| packet.to == C);
        net.run();
        net.lose_all();
        if net.nodes[A].log.len() > cut {
            net.give_slots(A, C, cut);
            net.die(C);
            net.restart(C);
        }
        net.release(held);
        net.release(more);
        let mine: Vec<RequestId> = requests[..4].to_vec();
        net.settle(&mine);
    }
}

/// While a member is down the others deliver; it comes back, and forms an entry.
#[test]
fn es10_who_was_away_keeps_and_forms_nothing_before_it_knows_what_was_delivered() {
    let mut net = Net::new(3, &[]);
    let first = net.set_all(A);
    net.settle(&[first]);
    net.die(C);
    let more: Vec<RequestId> = (0..5).map(|_| net.set_all(A)).collect();
    net.settle(&more);
    net.restart(C);
    let last = net.set_all(C);
    net.settle(&more);
    net.settle(&[last]);
}

/// A mark names an entry that is made void.
#[test]
fn es11_a_mark_behind_an_entry_that_is_made_void_is_delivered() {
    let mut net = Net::new(3, &[]);
    // Known to A alone, and behind it an entry that others know.
    net.set(A, 1);
    net.lose_all();
    let second = net.set(A, 1);
    net.run();
    assert_eq!(net.times(B, second), 0);
    net.die(A);
    net.suspect(B);
    net.run();
    net.settle(&[second]);
    assert!(net.branch("instance made void") > 0);
}

/// An entry arrives again when it is delivered long since.
#[test]
fn es12_an_entry_that_comes_again_when_it_is_delivered_is_not_ordered_again() {
    let mut net = Net::new(3, &[]);
    let first = net.set_all(A);
    let again = net.hold("pre-accept", A, C);
    let copy: Vec<_> = again.to_vec();
    net.release(again);
    net.settle(&[first]);
    net.release(copy);
    let last = net.set_all(B);
    net.settle(&[last]);
    assert!([A, B, C].iter().all(|me| net.times(*me, first) == 1));
}

/// A client has its answer, and asks at another member for something else, saying that it has it.
#[test]
fn what_one_client_asks_for_at_two_members_is_in_order() {
    let mut net = Net::new(3, &[]);
    let client = ClientId(9);
    let first = net.ask_by(client, A, vec![1].into());
    net.pass_kind("pre-accept", A, C);
    net.pass_kind("pre-accepted", C, A);
    assert!(net.is_answered(A, first));
    net.lose_all();
    let second = net.ask_by(client, B, vec![2].into());
    net.settle(&[first, second]);
    let place = |request| net.nodes[C].slots_of(request).next();
    assert!(place(first) < place(second));
}

/// Words take three times as long as the silence after which two members recover an entry, whose coordinator is gone.
#[test]
fn es13_two_who_recover_one_entry_give_each_other_time_to_end() {
    let mut net = Net::new(3, &[]);
    let orphan = net.set_all(A);
    net.pass_kind("pre-accept", A, B);
    net.pass_kind("pre-accept", A, C);
    net.lose_all();
    net.die(A);
    for _ in 0..40 {
        for me in [B, C].into_iter().cycle().take(6) {
            net.try_fire(me, Timer::Recover);
        }
        net.delay();
    }
    assert_eq!([B, C].map(|me| net.times(me, orphan)), [1; 2]);
}

#[test]
fn es14_where_much_is_under_way_little_of_it_is_said_again_at_once() {
    let mut net = Net::new(3, &[("outstanding", "20"), ("batch_commands", "1")]);
    let requests: Vec<RequestId> = (0..20).map(|_| net.set_all(A)).collect();
    net.pass_kind("pre-accept", A, B);
    net.lose_all();
    let mut repeated = BTreeSet::new();
    for _ in 0..4 {
        net.fire(A, Timer::Retransmit);
        let to_c = net
            .messages()
            .filter(|(from, to, _)| (*from, *to) == (A, C));
        let said = to_c.filter_map(|(_, _, message)| match &message.said {
            Said::PreAccept(it) => Some(it.entry.id),
            _ => None,
        });
        let said: Vec<EntryId> = said.collect();
        assert!((1..=8).contains(&said.len()), "{} at once", said.len());
        repeated.extend(said);
        net.lose_all();
    }
    assert_eq!(repeated.len(), 20, "each has its turn");

    net.die(A);
    let mut most = 0;
    for _ in 0..200 {
        for me in [B, C] {
            net.try_fire(me, Timer::Recover);
        }
        let of_b = net.messages().filter(|(from, to, message)| {
            (*from, *to) == (B, C) && matches!(message.said, Said::Recover(..))
        });
        most = most.max(of_b.count());
        net.run();
    }
    assert!((1..=8).contains(&most), "{most} recovered at once");
    assert!(
        requests
            .iter()
            .all(|request| net.times(B, *request) == net.times(C, *request))
    );
    assert!(net.machine(B).instances.is_empty(), "all are delivered");
}
