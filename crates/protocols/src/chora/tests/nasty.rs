//! More nasty schedules, of clusters: [`Net`] watches that they agree.

use super::lone::{Lone, entry, logged, pulse};
use super::net::Net;
use crate::chora::rounds::Rounds;
use crate::chora::{Message, Reason, Record, Timer};
use quorate_core::{MemberIndex, Peers, Slot};

const RESPONSIVE: &[(&str, &str)] = &[("mode", "responsive")];

fn lens(net: &Net) -> Vec<usize> {
    net.nodes.iter().map(|node| node.log.len()).collect()
}

fn all_have(net: &Net, write: quorate_core::RequestId) -> bool {
    (0..net.nodes.len()).all(|me| net.times(me, write) == 1)
}

/// U5: a vote, a restart, and another candidate in the same view.
#[test]
fn a_vote_is_given_once_whatever_starts_in_between() {
    let voted = Record::View {
        view: 5,
        voted: Some(MemberIndex::new(1)),
    };
    let mut lone = Lone::new(|_| {}, vec![voted]);
    let position = lone.machine().log.position();
    for from in [3, 2] {
        lone.forget_said();
        lone.hear(
            from,
            Message::Vcr {
                view: 5,
                position,
                only: None,
            },
        );
        let is_vote = |(_, message): &(Peers, Message)| matches!(message, Message::Vote { .. });
        let votes = lone.said().iter().filter(|said| is_vote(said)).count();
        assert_eq!(votes, usize::from(from == 2), "replica {from}");
    }
}

/// U5: what was acknowledged in view 5 is not acknowledged in view 4 after a restart.
#[test]
fn who_has_spoken_in_a_view_speaks_in_no_earlier_one() {
    let spoken = Record::View {
        view: 5,
        voted: None,
    };
    let mut lone = Lone::new(|_| {}, vec![spoken]);
    lone.hear(2, pulse(4, 1, 0, vec![logged(0, 4, entry(1))]));
    assert_eq!(
        (lone.machine().view, lone.machine().log.end()),
        (5, Slot(0))
    );
}

/// U6: an initiator dies when one follower has its VIEW-INIT.
#[test]
fn an_initiator_dies_early() {
    let mut net = Net::new(3, RESPONSIVE);
    net.write(0);
    net.run();
    net.stand(0);
    net.run_losing(|from, to, message| {
        matches!(message, Message::Pulse(_)) && (from == 0 && to == 2 || from == 1)
    });
    net.crash(0);
    assert_eq!(net.machine(1).log.position().eview, 1, "it has VIEW-INIT");
    let write = net.write(2);
    net.settle();
    assert_eq!((net.times(1, write), net.times(2, write)), (1, 1));
    net.restart(0);
    net.settle();
    assert!(all_have(&net, write), "{:?}", lens(&net));
}

/// U6: acknowledgements of VIEW-INIT are lost, and nobody has anything else to say.
#[test]
fn acknowledgements_of_view_init_are_lost() {
    let mut net = Net::new(3, RESPONSIVE);
    net.stand(0);
    net.run_losing(|from, _, message| from != 0 && matches!(message, Message::Pulse(_)));
    assert_eq!(lens(&net)[0], 0, "the initiator has heard of nobody");
    net.settle();
    let lens = lens(&net);
    assert!(
        lens[0] >= 1 && lens.iter().all(|len| *len == lens[0]),
        "{lens:?}"
    );
}

/// U7: a candidate of view 1 gets its votes when view 2 has committed.
#[test]
fn votes_that_come_late_elect_nobody_that_matters() {
    let mut net = Net::new(3, RESPONSIVE);
    net.stand(0);
    let is_vote = |message: &Message| matches!(message, Message::Vote { .. });
    net.run_losing(|_, _, message| is_vote(message));
    let lives = net.machine(1).voter.lives().clone();
    net.cut.extend([(0, 1), (0, 2), (1, 0), (2, 0)]);
    net.stand(1);
    net.run();
    let write = net.write(1);
    net.settle_among(&[1, 2]);
    assert!(net.machine(1).view > 1 && net.times(2, write) == 1);
    net.cut.clear();
    net.hear(1, 0, &Message::Vote { view: 1, lives });
    assert_eq!(net.machine(0).view, 1);
    assert!(net.machine(0).init.is_some(), "it begins view 1");
    net.settle();
    assert!(all_have(&net, write), "{:?}", lens(&net));
}

/// U8: an owner restarts before its own entry is durable, which one other has received.
#[test]
fn an_owner_loses_its_own_entry() {
    let mut net = Net::new(3, RESPONSIVE);
    net.nodes[1].is_stuck = true;
    net.write(1);
    net.run_losing(|_, to, _| to == 2);
    net.crash(1);
    net.restart(1);
    let write = net.write(0);
    net.settle();
    assert!(all_have(&net, write), "{:?}", lens(&net));
    assert!(net.machine(0).view > 0, "it may not go on in view 0");
}

/// U13: a length of rounds of nothing, or of centuries, and a clock that is anywhere.
#[test]
fn advice_that_makes_no_sense_costs_speed_alone() {
    let net = Net::new(3, &[("mode", "pulsing")]);
    let config = &net.nodes[0].config;
    let mut rounds = Rounds::new(config);
    for (pace_ns, sent_ns) in [
        (0, 0),
        (1 << 61, u64::MAX),
        (1, 1 << 63),
        (0, (1 << 63) - 1),
    ] {
        let Message::Pulse(mut pulse) = pulse(0, 0, 0, Vec::new()) else {
            unreachable!("it is a pulse")
        };
        (pulse.header.pace_ns, pulse.header.sent_ns) = (pace_ns, sent_ns);
        (0..200).for_each(|_| rounds.hear(MemberIndex::new(1), &pulse));
        let length_ns = rounds.length_ns(*config.round_range_ns.end());
        assert!(config.round_range_ns.contains(&length_ns), "{length_ns}");
    }
}

/// U14: everything comes twice, and the last first.
#[test]
fn skips_and_proposals_come_twice_and_in_the_wrong_order() {
    let mut net = Net::new(3, RESPONSIVE);
    let mut writes = Vec::new();
    for turn in 0..12 {
        writes.push(net.write(turn % 2));
        writes.push(net.write(turn % 2));
        for _ in 0..6 {
            let twice: Vec<_> = net.wire.iter().chain(&net.wire).cloned().collect();
            net.wire.clear();
            for packet in twice.into_iter().rev() {
                net.receive(packet);
            }
        }
    }
    net.settle();
    assert!(writes.iter().all(|write| all_have(&net, *write)));
    assert_eq!(net.machine(0).view, 0);
}

/// U14: a window is full, and whose slots are missing is dead.
#[test]
fn a_full_window_and_a_dead_proposer() {
    let mut net = Net::new(
        3,
        &[
            ("mode", "responsive"),
            ("window", "4"),
            ("outstanding", "16"),
        ],
    );
    net.crash(2);
    let writes: Vec<_> = (0..12).map(|_| net.write(0)).collect();
    net.settle();
    let all = |me| writes.iter().all(|write| net.times(me, *write) == 1);
    assert!(all(0) && all(1), "{:?}", lens(&net));
}

/// U14: an entry goes to two proposers, and takes effect once.
#[test]
fn an_entry_proposed_twice_takes_effect_once() {
    let mut net = Net::new(3, &[("mode", "responsive"), ("proposers", "2")]);
    let write = net.write(2);
    let forwarded = net.wire.iter().find_map(|packet| match packet.message() {
        Some(message @ Message::Forward { .. }) => Some((packet.to, message.clone())),
        _ => None,
    });
    let (to, message) = forwarded.expect("it is handed to a proposer");
    net.hear(2, 1 - to, &message);
    net.settle();
    assert!(all_have(&net, write), "{:?}", lens(&net));
    assert!(net.branches.contains_key("double commit skipped"));
}

/// Whether a replica gives its view up soon, rather than after the time for one in which nothing moves.
fn gives_up_soon(net: &Net, me: usize) -> bool {
    let node = &net.nodes[me];
    let due_ns = node.timers.get(&Timer::Stall);
    let soon_ns = net.now_ns + node.config.stall_ns / 8;
    due_ns.is_some_and(|due_ns| *due_ns <= soon_ns)
}

/// What is missing is the slot of somebody who is gone; before it lies one that holds nothing, of somebody who
/// is not, and waits for it.
#[test]
fn slots_that_hold_nothing_hide_nobody_who_is_gone() {
    let mut net = Net::new(3, RESPONSIVE);
    net.write(0);
    net.settle();
    net.crash(2);
    let writes = [net.write(0), net.write(0)];
    net.run();
    net.hint(2, false);
    assert!(gives_up_soon(&net, 0) && gives_up_soon(&net, 1));
    assert!(net.fire(0, Timer::Stall));
    net.settle();
    assert!(
        writes.iter().all(|write| net.times(1, *write) == 1),
        "{:?}",
        lens(&net)
    );
    assert_eq!(
        net.pattern(0),
        Some(vec![0, 1]),
        "the one that is gone proposes no more"
    );
}

/// A replica has asked in vain for other proposers when another one dies: it does not wait for an answer before
/// it does something about that.
#[test]
fn who_asks_for_other_proposers_notices_a_broken_link() {
    let mut net = Net::new(3, RESPONSIVE);
    let first = net.write(0);
    net.settle();
    net.stand_because(0, Reason::Planned);
    net.wire.clear();
    net.crash(2);
    let writes = [net.write(0), net.write(0), first];
    net.run();
    assert!(!gives_up_soon(&net, 0), "nobody is known to be gone");
    net.hint(2, false);
    assert!(gives_up_soon(&net, 0), "the link is broken");
    net.settle();
    assert!(
        writes.iter().all(|write| net.times(0, *write) == 1),
        "{:?}",
        lens(&net)
    );
}

/// A replica was elected and dies before anybody hears its VIEW-INIT: whoever voted for it knows at once that
/// the view will not begin.
#[test]
fn who_voted_for_somebody_gone_does_not_wait_for_the_view() {
    let mut net = Net::new(3, RESPONSIVE);
    let write = net.write(0);
    net.settle();
    net.stand(2);
    net.run_losing(|from, _, message| from == 2 && matches!(message, Message::Pulse(_)));
    assert!(net.machine(0).init.is_none() && net.machine(0).view > 0);
    net.crash(2);
    assert!(!gives_up_soon(&net, 0));
    net.hint(2, false);
    assert!(gives_up_soon(&net, 0) && gives_up_soon(&net, 1));
    let next = net.write(1);
    net.settle();
    let have = |me| [write, next].iter().all(|write| net.times(me, *write) == 1);
    assert!(have(0) && have(1), "{:?}", lens(&net));
}
