//! What requests cost in messages and flushes, and how many message delays they take.

use super::net::{A, B, C, Net};
use quorate_core::Outcome;

const MILLIS: u64 = 1_000_000;
/// How long a message takes, in ns: as long as a proposal is taken to need.
const DELAY_NS: u64 = 400_000;

/// One message delay: what is on its way arrives, and nothing that it causes; timers come due on the way.
fn delay(net: &mut Net) {
    let now = net.take_packets(|_| true);
    let until = net.now_ns + DELAY_NS;
    while let Some((due, me, timer)) = net.next_timer().filter(|(due, ..)| *due <= until) {
        net.now_ns = net.now_ns.max(due);
        net.0.fire(me, timer);
    }
    net.now_ns = until;
    net.give(now);
}

/// A cluster whose stamps are reserved for some time, and which waits for nothing.
fn warm(n: usize, params: &[(&str, &str)]) -> Net {
    let mut net = Net::new(n, params);
    let first = [net.write(A), net.write(B)];
    net.come_to_rest(&first);
    net.pass(30 * MILLIS);
    net.watch.kinds.clear();
    net.nodes.iter_mut().for_each(|node| node.flushes = 0);
    net
}

const LONG: (&str, &str) = ("reserve_ms", "60000");

#[test]
fn in_the_fast_lane_an_entry_commits_after_two_delays_and_is_answered_when_all_lanes_are_past_it() {
    for n in [3, 5] {
        let mut net = warm(n, &[LONG, ("rtt_us", "400")]);
        let before = net.branch("committed at the gateway");
        let request = net.write(B);
        delay(&mut net);
        assert_eq!(net.branch("committed at the gateway"), before);
        delay(&mut net);
        assert_eq!(net.branch("committed at the gateway"), before + 1);
        let mut delays = 2;
        while net.times(B, request) == 0 {
            delay(&mut net);
            delays += 1;
        }
        // Proposal, beats when clocks are past it, and what the leader counted.
        assert_eq!(delays, 3);
        net.flow();
        assert!((0..n).all(|me| net.times(me, request) == 1));
        let others = n - 1;
        assert_eq!([net.sent("propose"), net.sent("vote")], [others, others]);
        assert_eq!([net.sent("accept"), net.sent("accepted")], [0, 0]);
        // Every member tells all others of its lane and its votes, and the leader what it counted.
        assert_eq!(net.sent("beat"), n * others + others);
    }
}

#[test]
fn in_an_own_lane_an_entry_is_answered_after_two_delays() {
    for n in [3, 5] {
        let mut net = warm(n, &[LONG, ("way", "dm")]);
        let request = net.write(B);
        delay(&mut net);
        assert_eq!(net.times(B, request), 0);
        delay(&mut net);
        assert_eq!(net.times(B, request), 1);
        net.flow();
        assert!((0..n).all(|me| net.times(me, request) == 1));
        let others = n - 1;
        assert_eq!([net.sent("accept"), net.sent("accepted")], [others, others]);
        assert_eq!(net.sent("beat"), n * others);
        let flushes = net.nodes.iter().map(|node| node.flushes);
        assert_eq!(flushes.collect::<Vec<_>>(), vec![1; n]);
    }
}

#[test]
fn a_fast_quorum_is_enough_and_without_one_the_leader_decides_after_five_delays() {
    let mut net = warm(5, &[LONG]);
    let request = net.write(B);
    net.hold("propose", B, C);
    for _ in 0..3 {
        delay(&mut net);
    }
    assert_eq!((net.times(B, request), net.sent("accept")), (1, 0));
    let mut net = warm(3, &[LONG]);
    let request = net.write(B);
    net.hold("propose", B, C);
    for _ in 0..5 {
        assert_eq!(net.times(A, request), 0);
        delay(&mut net);
    }
    assert_eq!((net.times(A, request), net.sent("accept")), (1, 2));
    delay(&mut net);
    assert_eq!(net.times(B, request), 1);
}

#[test]
fn reads_take_a_round_trip_from_anywhere() {
    let mut net = warm(5, &[]);
    for me in 0..5 {
        let read = net.read(me);
        delay(&mut net);
        assert_eq!(net.answer(me, read), None);
        delay(&mut net);
        assert!(matches!(net.answer(me, read), Some(Outcome::ReadAt(_))));
    }
    assert_eq!([net.sent("question"), net.sent("answer")], [20, 20]);
}
