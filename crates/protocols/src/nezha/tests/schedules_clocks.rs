//! S10: clocks that are wrong. They cost what a hold may take, and nothing once they are
//! right.

use super::super::Timer;
use super::directed::Schedule;
use super::net::Net;
use quorate_core::{Input, Introspect, MILLIS, ReplicaId};

const HOUR_NS: i64 = 3600 * 1000 * MILLIS as i64;

/// A write through replica 2 reaches all; `far_us` later it is answered, whatever the clocks say.
fn write_within_the_hold(net: &mut Net) {
    let id = net.write(2, &[]);
    for member in [0, 1] {
        assert_eq!(net.pass(2, member, "request"), 1);
    }
    net.later(2 * MILLIS);
    for member in [0, 1, 2] {
        net.step(member, Input::Timer(Timer::Release));
    }
    net.exchange();
    assert!(net.is_answered(id), "nothing had to be said again");
}

fn wrong_for_a_while(net: &mut Net, who: usize, by_ns: i64) {
    net.nodes[who].clock_ns = by_ns;
    for _ in 0..3 {
        write_within_the_hold(net);
    }
    net.nodes[who].clock_ns = 0;
    write_within_the_hold(net);
    let before = net.branches.get("committed fast").copied().unwrap_or(0);
    for _ in 0..3 {
        let id = net.write(2, &[]);
        net.spread(2, &[0, 1, 2]);
        net.pass(0, 2, "fast-reply");
        net.pass(1, 2, "fast-reply");
        assert!(net.is_answered(id), "at once");
        net.exchange();
    }
    assert_eq!(net.branches.get("committed fast"), Some(&(before + 3)));
}

#[test]
fn s10_a_leader_is_an_hour_behind() {
    Schedule::of(3, |net| wrong_for_a_while(net, 0, -HOUR_NS)).holds();
}

#[test]
fn s10_a_leader_is_an_hour_ahead() {
    Schedule::of(3, |net| wrong_for_a_while(net, 0, HOUR_NS)).holds();
}

#[test]
fn s10_a_gateway_is_an_hour_behind() {
    Schedule::of(3, |net| wrong_for_a_while(net, 2, -HOUR_NS)).holds();
}

#[test]
fn s10_a_gateway_is_an_hour_ahead() {
    Schedule::of(3, |net| wrong_for_a_while(net, 2, HOUR_NS)).holds();
}

#[test]
fn s10_a_follower_is_an_hour_ahead() {
    Schedule::of(3, |net| wrong_for_a_while(net, 1, HOUR_NS)).holds();
}

/// Gateways and replicas are one process each here, so both directions of a way are known.
#[test]
fn figures_say_how_far_the_clocks_of_peers_are_ahead() {
    let run = |net: &mut Net| {
        net.nodes[1].clock_ns = 300_000;
        for gateway in [0, 1, 0] {
            net.write(gateway, &[]);
            net.exchange();
            net.later(2 * MILLIS);
            for member in 0..3 {
                net.step(member, Input::Timer(Timer::Release));
            }
            net.exchange();
        }
        let Some(machine) = &net.nodes[0].machine else {
            panic!("nobody has stopped");
        };
        let figures = machine.peer_figures();
        let of = |peer, name| {
            let it = figures.iter().find(|one| (one.0, one.1) == (peer, name));
            it.map(|one| one.2)
        };
        let (ahead, silent) = (ReplicaId(2), ReplicaId(3));
        assert_eq!(of(ahead, "told_delay_us"), Some(300.0));
        assert_eq!(of(ahead, "request_delay_p50_us"), Some(-300.0));
        assert_eq!(of(ahead, "clock_ahead_us"), Some(300.0));
        assert_eq!(of(silent, "clock_ahead_us"), None, "it sent no request");
        let own = machine.figures();
        assert!(own.iter().any(|(name, _)| *name == "held_p99_us"));
    };
    Schedule::of(3, run).holds();
}
