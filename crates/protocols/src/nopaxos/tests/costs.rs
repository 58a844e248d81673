//! What requests cost in messages and flushes, and how many message delays they take.

use super::net::Net;
use super::schedules::{A, B, C};
use crate::nopaxos::Timer;
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
fn a_write_takes_three_delays_and_a_message_each_way_to_each_other_member() {
    for n in [3, 5, 7] {
        let mut net = Net::new(n, &[]).begun();
        // The sequencer's own replica is a delay ahead of the others: with A, which leads, it is a majority of three.
        for (me, delays) in [(A, if n == 3 { 2 } else { 3 }), (C, 3), (n - 1, 3), (B, 2)] {
            counts(&mut net);
            let request = net.write(me);
            for _ in 1..delays {
                delay(&mut net);
                assert!(!net.is_committed(me, request), "{me} of {n}");
            }
            delay(&mut net);
            assert!(net.is_committed(me, request), "{me} of {n}");
            net.run();
            let mut sent = vec![("marked", n - 1), ("reply", n - 1)];
            if me != B {
                sent.push(("stamp", 1));
            }
            assert_eq!(
                counts(&mut net),
                (sent, vec![1; n]),
                "one flush at each, at once"
            );
            net.settle(&[request]);
        }
    }
}

/// The leader's disk and the followers' work at the same time; those of a minority are not waited for.
#[test]
fn a_majority_with_the_leader_is_enough() {
    let mut net = Net::new(5, &[]).begun();
    net.nodes[3].is_stuck = true;
    net.nodes[4].is_stuck = true;
    let first = net.write(C);
    net.run();
    assert!(net.is_committed(C, first));
    net.nodes[A].is_stuck = true;
    let second = net.write(C);
    net.run();
    assert!(
        !net.is_committed(C, second),
        "the leader's has to be one of them"
    );
    for me in [A, 3, 4] {
        net.nodes[me].is_stuck = false;
        net.flush(me);
    }
    net.settle(&[first, second]);
}

/// However many writes there were, logs are compared once.
#[test]
fn logs_are_compared_now_and_then() {
    for n in [3, 5] {
        let mut net = Net::new(n, &[("outstanding", "8"), ("batch_commands", "1")]).begun();
        let requests: Vec<_> = (0..8).map(|_| net.write(C)).collect();
        net.run();
        assert!(requests.iter().all(|request| net.is_committed(C, *request)));
        counts(&mut net);
        net.fire(A, Timer::Sync);
        net.run();
        let sent = ["sync", "sync commit", "sync reply"].map(|kind| (kind, n - 1));
        assert_eq!(counts(&mut net), (sent.to_vec(), vec![0; n]));
        assert!((0..n).all(|me| net.times(me, requests[7]) == 1));
    }
}

/// Clients that have their answers do not wait for what is said about logs.
#[test]
fn entries_follow_each_other_as_they_are_answered() {
    let mut net = Net::new(3, &[("outstanding", "1")]).begun();
    let requests = [(); 5].map(|()| {
        let request = net.write(C);
        net.run();
        assert!(net.is_committed(C, request));
        request
    });
    assert_eq!(net.times(C, requests[0]), 0, "nothing is delivered");
    net.settle(&requests);
}

/// A stamp that the leader has costs a follower that missed it two delays.
#[test]
fn what_a_follower_missed_it_gets_from_the_leader() {
    let mut net = Net::new(3, &[]).begun();
    let first = net.write(B);
    net.hold("marked", C);
    net.run();
    let second = net.write(B);
    counts(&mut net);
    net.run();
    assert_eq!(
        counts(&mut net).0,
        [("lookup", 1), ("marked", 1), ("reply", 3)]
    );
    net.settle(&[first, second]);
    assert_eq!(net.branch("gap"), 0);
}

/// What the leader missed costs a round trip, in which everything behind waits, and the entry its number.
#[test]
fn what_the_leader_missed_is_given_up_in_two_delays() {
    let mut net = Net::new(3, &[]).begun();
    let first = net.write(B);
    net.hold("marked", A);
    net.run();
    let second = net.write(C);
    delay(&mut net);
    counts(&mut net);
    delay(&mut net);
    assert_eq!(net.count("gap"), 2);
    delay(&mut net);
    assert!(!net.is_committed(C, second));
    delay(&mut net);
    assert_eq!(net.count("gap reply"), 2);
    net.run();
    // What is behind a no-op is executed once hosts are past that.
    assert!(net.is_committed(C, second));
    assert_eq!(net.times(B, first), 0);
    net.settle(&[first, second]);
}

/// With patience for what comes late, what only changed its turn is not given up.
#[test]
fn what_is_late_by_less_than_gap_us_is_not_given_up() {
    let mut net = Net::new(3, &[("gap_us", "50")]).begun();
    let first = net.write(B);
    let late = net.hold("marked", A);
    let second = net.write(C);
    net.run();
    assert!(net.nodes[A].timers.contains_key(&Timer::Gap));
    net.release(late);
    net.run();
    assert!(net.is_committed(B, first) && net.is_committed(C, second));
    net.fire(A, Timer::Gap);
    net.settle(&[first, second]);
    assert_eq!(net.branch("gap"), 0);
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
fn a_view_starts_in_three_delays() {
    let mut net = Net::new(5, &[]).begun();
    let x = net.write(C);
    net.run();
    net.crash(A);
    net.suspect(C);
    delay(&mut net);
    delay(&mut net);
    assert_eq!(net.branch("view started"), 1);
    delay(&mut net);
    let y = net.write(C);
    net.run();
    assert!(net.is_committed(C, y));
    net.settle(&[x, y]);
}

#[test]
fn one_replica_alone_commits_when_its_disk_is_done() {
    let mut net = Net::new(1, &[]);
    let request = net.write(0);
    assert!(net.is_committed(0, request) && net.wire.is_empty());
    net.settle(&[request]);
    net.crash(0);
    net.restart(0);
    let request = net.write(0);
    net.settle(&[request]);
}

#[test]
fn who_waits_for_nothing_arms_nothing() {
    let mut net = Net::new(3, &[]).begun();
    net.crash(A);
    let x = net.write(C);
    net.run();
    net.suspect(C);
    net.run();
    net.restart(A);
    net.settle(&[x]);
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
