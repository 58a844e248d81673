//! What requests cost in messages and flushes, and how many message delays they take.

use super::net::Net;
use super::schedules::{A, B, C};
use crate::mencius::Timer;
use quorate_core::{Outcome, Slot};

/// Messages by kind, and flushes by replica, since the counts were cleared.
fn counts(net: &mut Net) -> (Vec<(&'static str, usize)>, Vec<usize>) {
    let sent = std::mem::take(&mut net.watch.sent).into_iter().collect();
    let nodes = net.nodes.iter_mut();
    let flushes = nodes.map(|node| std::mem::take(&mut node.flushes));
    (sent, flushes.collect())
}

/// Delivers what is on its way now, and nothing that it causes: one message delay.
fn delay(net: &mut Net) {
    let now = net.take_packets(|_| true);
    net.release(now);
}

#[test]
fn a_write_takes_two_delays_and_three_messages_to_each_other_member() {
    for n in [3, 5, 7] {
        let mut net = Net::new(n, &[("ack", "each")]).begun();
        for me in [0, 1, n - 1] {
            counts(&mut net);
            let request = net.write(me);
            delay(&mut net);
            assert_eq!(net.times(me, request), 0);
            delay(&mut net);
            assert_eq!(
                net.times(me, request),
                1,
                "a suggestion, and what follows from it"
            );
            delay(&mut net);
            assert!((0..n).all(|at| net.times(at, request) == 1) && net.wire.is_empty());
            let others = n - 1;
            let sent = vec![("accept", others), ("learn", others), ("suggest", others)];
            assert_eq!(counts(&mut net), (sent, vec![1; n]));
        }
    }
}

/// What a lone writer waits for is the slowest member, not a majority: idle members have to skip.
#[test]
fn a_lone_writer_waits_for_all_members() {
    let mut net = Net::new(5, &[]).begun();
    let request = net.write(B);
    let slow = net.hold(B, A);
    net.run();
    assert_eq!(net.times(B, request), 0);
    net.release(slow);
    net.run();
    assert_eq!(net.times(B, request), 1);
}

/// Writes at all members at once go to slots next to each other, and none waits for a skipped slot.
#[test]
fn writes_at_all_members_take_two_delays() {
    let mut net = Net::new(3, &[("ack", "each")]).begun();
    counts(&mut net);
    let requests = [A, B, C].map(|me| net.write(me));
    delay(&mut net);
    delay(&mut net);
    // A's slot is the first; the others wait to hear that it is decided.
    assert_eq!(net.times(A, requests[0]), 1);
    delay(&mut net);
    for me in [A, B, C] {
        assert_eq!(requests.map(|request| net.times(me, request)), [1; 3]);
    }
    let sent = vec![("accept", 6), ("learn", 6), ("suggest", 6)];
    assert_eq!(counts(&mut net).0, sent);
}

/// Under load the next suggestion tells what is decided.
#[test]
fn what_is_decided_rides_on_the_next_suggestion() {
    for n in [3, 5] {
        let mut net = Net::new(n, &[("outstanding", "1"), ("batch_commands", "1")]).begun();
        counts(&mut net);
        let requests: Vec<_> = (0..10).map(|_| net.write(B)).collect();
        net.run();
        assert!(requests.iter().all(|request| net.times(A, *request) == 1));
        let (sent, others) = (counts(&mut net).0, n - 1);
        let expected = vec![
            ("accept", 10 * others),
            ("learn", others),
            ("suggest", 10 * others),
        ];
        assert_eq!(
            sent, expected,
            "2(n-1) for a write, and the last is told by itself"
        );
    }
}

/// What becomes durable together is acknowledged together.
#[test]
fn acceptances_of_one_flush_are_one_message() {
    for (ack, messages) in [("each", 4), ("range", 1)] {
        let params = [("ack", ack), ("outstanding", "4"), ("batch_commands", "1")];
        let mut net = Net::new(3, &params).begun();
        net.nodes[A].is_stuck = true;
        counts(&mut net);
        let requests = [(); 4].map(|()| net.write(B));
        net.pass(B, A);
        net.lose_all();
        net.flush(A);
        assert_eq!(net.count("accept"), messages);
        net.nodes[A].is_stuck = false;
        net.settle(&requests);
    }
}

/// The owner's disk is not on the way: others write while it does.
#[test]
fn acceptors_write_while_the_owner_does() {
    let mut net = Net::new(3, &[]).begun();
    net.nodes[A].is_stuck = true;
    let request = net.write(A);
    net.run();
    assert_eq!(net.times(A, request), 1, "accepted by the others");
}

#[test]
fn reads_take_a_round_trip_from_anywhere_and_share_it() {
    let mut net = Net::new(5, &[]).begun();
    let end = Slot(net.nodes[A].log.len() as u64);
    counts(&mut net);
    for me in 0..5 {
        let read = net.read(me);
        net.run();
        assert_eq!(net.outcome(me, read), Some(Outcome::ReadAt(end)));
        assert_eq!(counts(&mut net), (vec![("read", 8)], vec![0; 5]));
    }
    let reads = [net.read(4), net.read(4), net.read(4)];
    net.run();
    assert_eq!(
        net.count("read"),
        16,
        "one question for the first, one for the others"
    );
    assert!(reads.iter().all(|read| net.outcome(4, *read).is_some()));
}

#[test]
fn a_lane_is_taken_over_in_two_round_trips() {
    let mut net = Net::new(5, &[]).begun();
    net.crash(A);
    let request = net.write(B);
    net.run();
    net.suspect_twice(B);
    counts(&mut net);
    (0..4).for_each(|_| delay(&mut net));
    assert_eq!(net.times(B, request), 1);
}

#[test]
fn one_replica_alone_decides_when_its_disk_is_done() {
    let mut net = Net::new(1, &[]);
    let request = net.write(0);
    assert_eq!((net.times(0, request), net.wire.len()), (1, 0));
}

#[test]
fn who_waits_for_nothing_arms_nothing() {
    let mut net = Net::new(3, &[]).begun();
    net.crash(A);
    net.write(B);
    net.run();
    net.suspect_twice(B);
    net.run();
    net.restart(A);
    net.run();
    for _ in 0..12 {
        for me in [A, B, C] {
            let timers: Vec<Timer> = net.nodes[me].timers.keys().copied().collect();
            timers.into_iter().for_each(|timer| net.fire(me, timer));
            net.run();
        }
    }
    let armed: Vec<_> = net.nodes.iter().map(|node| &node.timers).collect();
    assert!(armed.iter().all(|timers| timers.is_empty()), "{armed:?}");
}
