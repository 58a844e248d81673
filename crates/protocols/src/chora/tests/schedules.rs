//! Nasty schedules, each with what the rule that forbids it prevents.

use super::lone::{Lone, entry, init, logged, pulse};
use super::net::Net;
use crate::chora::Fault;
use crate::chora::{Config, Message, Reason, Record, Timer, Value};
use crate::shared::faults::Faults;
use quorate_core::{Peers, Slot};

fn right(_: &mut Config) {}

fn view(view: u64) -> Record {
    Record::View { view, voted: None }
}

/// U1: a follower has `a0 b0`, the initiator of view 3 `a0 c1`. VIEW-INIT comes twice before slot 1.
fn stale_tail(edit: fn(&mut Config)) -> Lone {
    let append = |slot, name| Record::Append(logged(slot, 0, entry(name)));
    let mut lone = Lone::new(edit, vec![view(0), append(0, 1), append(1, 2)]);
    let view_init = logged(2, 3, Value::Init(init(3, 2, &[])));
    lone.hear(2, pulse(3, 3, 0, vec![view_init.clone()]));
    lone.hear(2, pulse(3, 3, 0, vec![view_init]));
    lone
}

#[test]
fn a_stale_tail_is_not_verified_by_a_slot_of_the_present_view() {
    let mut lone = stale_tail(right);
    assert_eq!(
        (lone.machine().verified, lone.machine().ack()),
        (Slot(0), Slot(0))
    );
    lone.hear(2, pulse(3, 3, 0, vec![logged(0, 0, entry(1))]));
    assert_eq!(lone.machine().verified, Slot(1));
    lone.hear(2, pulse(3, 3, 0, vec![logged(1, 1, entry(3))]));
    assert_eq!(
        (lone.machine().ack(), lone.eviews()),
        (Slot(3), vec![0, 1, 3])
    );
}

#[test]
fn the_paper_verifies_a_stale_tail() {
    let lone = stale_tail(|config| config.faults = Faults::only(Fault::VerifyOutOfOrder));
    assert_eq!(
        (lone.machine().ack(), lone.eviews()),
        (Slot(3), vec![0, 0, 3])
    );
}

/// U15: a tail older than the listed segments.
fn short_list(edit: fn(&mut Config)) -> Lone {
    let append = |slot| Record::Append(logged(slot, 0, entry(slot)));
    let records = [view(0)].into_iter().chain((0..4).map(append)).collect();
    let mut lone = Lone::new(edit, records);
    let view_init = Value::Init(init(3, 9, &[(2, 7)]));
    lone.hear(2, pulse(3, 10, 0, vec![logged(9, 3, view_init)]));
    lone
}

#[test]
fn a_tail_that_no_segment_tells_of_is_kept_and_verified_again() {
    let mut lone = short_list(right);
    assert_eq!(
        (lone.machine().verified, lone.eviews()),
        (Slot(0), vec![0; 4])
    );
    let again = (0..4).map(|slot| logged(slot, 0, entry(slot))).collect();
    lone.hear(2, pulse(3, 10, 0, again));
    assert_eq!(lone.machine().verified, Slot(4));
}

/// Copies of committed entries, maybe: the quorum that holds them needs this one.
#[test]
fn an_eager_cut_drops_a_tail_that_may_be_committed() {
    let lone = short_list(|config| config.faults = Faults::only(Fault::EagerCut));
    assert!(lone.eviews().is_empty());
}

/// U2: peers have acknowledged nine slots, this replica holds five; then the view changes.
fn acked_beyond(edit: fn(&mut Config)) -> Slot {
    let append = |slot| Record::Append(logged(slot, 0, entry(slot)));
    let records = [view(0)].into_iter().chain((0..5).map(append)).collect();
    let mut lone = Lone::new(edit, records);
    lone.hear(2, pulse(0, 0, 9, Vec::new()));
    lone.hear(3, pulse(0, 0, 9, Vec::new()));
    assert_eq!(lone.delivered(), 5);
    lone.hear(2, pulse(1, 20, 0, Vec::new()));
    lone.fire(Timer::Gap);
    lone.header().ack
}

#[test]
fn what_is_not_held_is_not_acknowledged_after_a_view_change() {
    assert_eq!(acked_beyond(right), Slot(5));
    assert_eq!(
        acked_beyond(|config| config.faults = Faults::only(Fault::UnclampedCommit)),
        Slot(9)
    );
}

/// U9: an entry of view 2 is acknowledged by a quorum in view 4, VIEW-INIT is not.
fn old_entry(edit: fn(&mut Config)) -> usize {
    let mut lone = Lone::new(edit, vec![view(4), Record::Append(logged(0, 2, entry(1)))]);
    let view_init = logged(1, 4, Value::Init(init(4, 1, &[(2, 0)])));
    lone.hear(2, pulse(4, 2, 1, vec![view_init]));
    lone.hear(3, pulse(4, 2, 1, Vec::new()));
    lone.delivered()
}

#[test]
fn nothing_of_an_older_view_is_committed_by_counting() {
    assert_eq!(old_entry(right), 0);
    assert_eq!(
        old_entry(|config| config.faults = Faults::only(Fault::CountOlderViews)),
        1
    );
}

/// State that comes through the host was decided, and maybe not in this view: others hold its commit
/// index against what they have of this view.
fn claimed_after_state(edit: fn(&mut Config), decided_in: u64) -> (u64, Slot) {
    let mut lone = Lone::new(edit, vec![view(2)]);
    lone.hear(2, pulse(2, 9, 0, Vec::new()));
    lone.install(5, decided_in);
    lone.fire(Timer::Gap);
    (lone.header().view, lone.header().commit)
}

#[test]
fn a_commit_index_that_came_with_state_is_claimed_only_in_its_own_view() {
    assert_eq!(claimed_after_state(right, 0), (2, Slot(0)));
    assert_eq!(claimed_after_state(right, 2), (2, Slot(5)));
    assert_eq!(claimed_after_state(right, 3), (3, Slot(5)));
    let careless: fn(&mut Config) = |config| config.faults = Faults::only(Fault::BorrowedClaim);
    assert_eq!(claimed_after_state(careless, 0), (2, Slot(5)));
}

/// U3: a peer in the same view, not yet caught up, is asked for an old slot.
fn recovered_by_the_unverified(edit: fn(&mut Config)) -> usize {
    let stale = Record::Append(logged(0, 0, entry(1)));
    let mut lone = Lone::new(edit, vec![view(0), stale]);
    let mut ask = pulse(3, 5, 0, Vec::new());
    if let Message::Pulse(pulse) = &mut ask {
        pulse.nack = vec![Slot(0)..Slot(5)];
    }
    lone.hear(2, ask);
    let answers = lone.said().iter().filter_map(|(_, message)| match message {
        Message::Pulse(pulse) => Some(pulse.recover.len()),
        _ => None,
    });
    answers.sum()
}

#[test]
fn nobody_recovers_what_it_has_not_verified() {
    assert_eq!(recovered_by_the_unverified(right), 0);
    let careless: fn(&mut Config) = |config| config.faults = Faults::only(Fault::RecoverUnverified);
    assert_eq!(recovered_by_the_unverified(careless), 1);
}

/// U4: who has proposed in a view and starts again says nothing in its slots, and asks for a view.
#[test]
fn a_proposer_that_starts_again_is_silent_and_asks_for_a_view() {
    let mut lone = Lone::new(right, vec![view(0)]);
    lone.hear(2, pulse(0, 0, 0, vec![logged(1, 0, entry(1))]));
    lone.fire(Timer::Stall);
    let proposals = lone.said().iter().filter(|(_, message)| match message {
        Message::Pulse(pulse) => pulse.proposal.is_some(),
        _ => false,
    });
    assert_eq!(proposals.count(), 0);
    let asks = |(to, message): &(Peers, Message)| {
        let reason = Reason::Restarted;
        let is_it = matches!(message, Message::PreVc(question) if question.reason == reason);
        *to == Peers::All && is_it
    };
    assert!(lone.said().iter().any(asks));
}

/// U6: VIEW-INIT is lost, and nobody says anything else; who hears of the view asks for it.
#[test]
fn a_view_init_that_was_lost_is_asked_for() {
    let mut net = Net::new(3, &[("mode", "responsive")]);
    net.write(0);
    net.run();
    net.isolate(2);
    net.crash(1);
    net.restart(1);
    net.write(0);
    net.settle_but(2);
    assert!(net.machine(0).view > 0);
    net.cut.clear();
    net.write(0);
    net.settle();
    let views: Vec<u64> = (0..3).map(|me| net.machine(me).view).collect();
    assert!(views.iter().all(|view| *view == views[0]), "{views:?}");
    assert_eq!(net.nodes[2].log.len(), net.nodes[0].log.len());
}

/// U8: each lacks what the other has.
#[test]
fn mutual_losses_are_made_up_for() {
    let mut net = Net::new(3, &[("mode", "responsive")]);
    for me in 0..3 {
        net.write(me);
    }
    net.run_losing(|from, to, _| (from, to) == (1, 0) || (from, to) == (0, 1));
    net.settle();
    let logs: Vec<usize> = (0..3).map(|me| net.nodes[me].log.len()).collect();
    assert_eq!(logs, [3, 3, 3]);
    assert_eq!(net.machine(0).view, 0, "no view change for that");
}

/// Figure 10 of the paper, in small: a crash, a new view without the dead, and the way back.
#[test]
fn a_dead_proposer_is_left_out_and_taken_back() {
    let mut net = Net::new(3, &[("mode", "responsive")]);
    net.write(0);
    net.settle();
    net.crash(2);
    // It may have given up its next slot, but not the one after.
    let writes = [net.write(0), net.write(0)];
    let read = net.read(1);
    net.settle();
    assert_eq!(writes.map(|write| net.times(0, write)), [1, 1]);
    assert!(net.nodes[1].replies.iter().any(|(id, _)| *id == read));
    assert_eq!(net.pattern(0), Some(vec![0, 1]));
    net.restart(2);
    net.write(2);
    net.settle();
    net.write(0);
    net.settle();
    assert_eq!(net.pattern(0), Some(vec![0, 1, 2]));
}

/// Nothing moves where nobody waits: the last timers run out.
#[test]
fn an_idle_cluster_is_silent() {
    for params in [
        [("mode", "responsive")],
        [("mode", "pulsing")],
        [("proposers", "1")],
    ] {
        let mut net = Net::new(5, &params);
        for me in 0..5 {
            net.write(me);
        }
        net.settle();
        let timers: usize = net.nodes.iter().map(|node| node.timers.len()).sum();
        assert_eq!(
            (timers, net.wire.len()),
            (5, 0),
            "only patience is left: {params:?}"
        );
    }
}
