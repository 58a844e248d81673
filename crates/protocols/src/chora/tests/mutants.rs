//! What each rule that one replica keeps is for, shown on a cluster that breaks it: schedules after which
//! replicas commit different things. Nobody checks itself here; [`Net`] compares what they deliver.

use super::net::Net;
use super::random::{failure, is_disagreement};
use crate::chora::Fault;
use crate::chora::{Config, Message, Timer};
use crate::shared::faults::Faults;

/// Nobody gives up slots before they are asked for: schedules say which slot holds what.
const RESPONSIVE: &[(&str, &str)] = &[("mode", "responsive"), ("idle_ms", "86400000")];

/// A schedule does no harm to a cluster, and makes one disagree that breaks the rule.
fn is_needed(n: usize, schedule: fn(&mut Net), breaks: fn(&mut Config)) {
    schedule(&mut Net::with(n, RESPONSIVE, |_| {}));
    let mut net = Net::with(n, RESPONSIVE, breaks);
    net.is_checked = false;
    let why = failure(|| schedule(&mut net));
    assert!(is_disagreement(&why), "{why}");
}

fn is_pulse(message: &Message) -> bool {
    matches!(message, Message::Pulse(_))
}

/// Messages go among these only.
fn run_among(net: &mut Net, those: &[usize]) {
    net.run_losing(|from, to, _| !those.contains(&from) || !those.contains(&to));
}

/// A replica is elected by some, and what it says as initiator is lost.
fn elect_in_vain(net: &mut Net, who: usize, by: &[usize]) {
    net.stand(who);
    let is_one = |node: usize| node == who || by.contains(&node);
    net.run_losing(|from, to, message| !is_one(from) || !is_one(to) || is_pulse(message));
}

/// U2: the third hears two acknowledge what it never received; then the view changes.
fn acknowledged_elsewhere(net: &mut Net) {
    net.write(0);
    net.run();
    net.write(1);
    net.run_losing(|_, to, message| match message {
        Message::Pulse(pulse) => to == 2 && pulse.proposal.is_some(),
        _ => false,
    });
    net.stand(0);
    net.settle();
}

#[test]
fn a_commit_index_beyond_the_own_log_makes_replicas_disagree() {
    is_needed(3, acknowledged_elsewhere, |config| {
        config.faults = Faults::only(Fault::UnclampedCommit);
    });
}

/// The second member's entry is committed in view 2 where the first, in view 1, has VIEW-INIT. The fifth,
/// in view 1 too, is given the committed entry and tells the first how far that goes.
fn state_of_a_later_view(net: &mut Net) {
    net.write(0);
    net.run();
    net.write(1);
    net.wire.clear();
    elect_in_vain(net, 0, &[3, 4]);
    elect_in_vain(net, 1, &[2, 3]);
    net.fire(1, Timer::Gap);
    net.settle_among(&[1, 2, 3]);
    assert!(net.nodes[1].log.len() > 2);
    net.wire.clear();
    net.give_slots(1, 4, 2);
    run_among(net, &[0, 4]);
    net.settle();
}

#[test]
fn a_commit_index_that_came_with_state_makes_replicas_disagree() {
    is_needed(5, state_of_a_later_view, |config| {
        config.faults = Faults::only(Fault::BorrowedClaim);
    });
}
