//! S10: clocks that are wrong. They cost what a hold may take, and nothing once they are
//! right.

use super::super::Timer;
use super::directed::Schedule;
use super::net::Net;
use quorate_core::{Input, MILLIS};

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
