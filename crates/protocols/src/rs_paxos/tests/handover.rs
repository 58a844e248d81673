//! A leader makes room for the member that the group prefers.

use super::net::Net;
use crate::rs_paxos::Timer;
use quorate_core::{Input, Introspect};
use quorate_testkit::id;

#[test]
fn the_preferred_member_takes_the_leaders_place_and_what_waits_is_ordered() {
    let mut net = Net::led_by(0, 3, &[]);
    for me in 0..3 {
        net.step(me, Input::Prefer(id(1)));
    }
    let waiting = net.write(0);
    net.run();
    let leads = [0, 1, 2].map(|me| net.machine(me).leads());
    assert_eq!(leads, [false, true, false].map(Some));
    assert!(
        [0, 1, 2]
            .iter()
            .all(|me| net.nodes[*me].times(waiting) == 1)
    );
}

/// The preferred member is out of reach: the leader orders nothing for one timeout, and goes on.
#[test]
fn a_leader_goes_on_if_nobody_takes_its_place() {
    let mut net = Net::led_by(0, 3, &[]);
    net.isolate(1);
    net.step(0, Input::Prefer(id(1)));
    net.step(2, Input::Prefer(id(1)));
    assert_eq!(net.machine(0).hands_over(), Some(true));
    let waiting = net.write(0);
    net.run();
    assert_eq!(net.nodes[0].times(waiting), 0);
    net.fire(0, Timer::Election);
    net.run();
    assert_eq!(net.machine(0).leads(), Some(true));
    assert_eq!(net.nodes[2].times(waiting), 1);
}
