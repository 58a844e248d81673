//! What requests cost in messages and flushes.

use super::net::Net;
use crate::raft::Timer;
use quorate_core::{Outcome, Slot};

/// Messages by kind, and flushes by replica, since the counts were cleared.
fn counts(net: &mut Net) -> (Vec<(&'static str, usize)>, Vec<usize>) {
    let sent = std::mem::take(&mut net.watch.sent).into_iter().collect();
    let nodes = net.nodes.iter_mut();
    let flushes = nodes.map(|node| std::mem::take(&mut node.flushes));
    (sent, flushes.collect())
}

#[test]
fn a_write_at_the_leader_takes_a_round_trip_and_one_flush_everywhere() {
    for n in [3, 5, 7] {
        let mut net = Net::led_by(0, n, &[]);
        counts(&mut net);
        net.write(0);
        net.run();
        let others = n - 1;
        let sent = vec![("append", others), ("appended", others), ("commit", others)];
        assert_eq!(counts(&mut net), (sent, vec![1; n]));
        assert!((0..n).all(|me| net.nodes[me].log.len() == 3));
    }
}

#[test]
fn a_write_elsewhere_takes_a_message_more() {
    let mut net = Net::led_by(0, 3, &[]);
    counts(&mut net);
    let request = net.write(2);
    net.run();
    let sent = vec![("append", 2), ("appended", 2), ("commit", 2), ("offer", 1)];
    assert_eq!(counts(&mut net), (sent, vec![1; 3]));
    assert_eq!(net.times(1, request), 1);
}

/// Under load the next entries tell what is committed.
#[test]
fn the_commit_index_rides_on_the_next_entries() {
    let mut net = Net::led_by(0, 3, &[("outstanding", "1")]);
    counts(&mut net);
    (0..4).for_each(|_| {
        net.write(0);
    });
    net.run();
    let log = net.nodes[2].log.len();
    assert_eq!(log, 4, "one entry, then all that came meanwhile");
    assert_eq!((net.count("append"), net.count("commit")), (4, 2));
}

/// The leader's disk is not on the way: peers write while it does.
#[test]
fn followers_write_while_the_leader_does() {
    let mut net = Net::led_by(0, 3, &[]);
    net.nodes[0].is_stuck = true;
    let request = net.write(0);
    net.run();
    assert_eq!(net.times(0, request), 1, "committed by the others");
}

#[test]
fn reads_take_a_round_trip_from_anywhere_and_share_it() {
    let mut net = Net::led_by(0, 5, &[]);
    counts(&mut net);
    for me in 0..5 {
        let read = net.read(me);
        net.run();
        assert_eq!(net.outcome(me, read), Some(Outcome::ReadAt(Slot(2))));
        assert_eq!(counts(&mut net), (vec![("read", 8)], vec![0; 5]));
    }
    let reads = [net.read(4), net.read(4), net.read(4)];
    net.run();
    let sent = net.count("read");
    assert_eq!(sent, 16, "one question for the first, one for the others");
    assert!(reads.iter().all(|read| net.outcome(4, *read).is_some()));
}

#[test]
fn a_new_leader_takes_two_round_trips() {
    let mut net = Net::new(5, &[]);
    net.write(3);
    net.elect(3);
    assert_eq!((net.count("pre-vote"), net.count("vote")), (8, 8));
    assert!(net.leads(3) && net.nodes.iter().all(|node| node.log.len() == 2));
}

#[test]
fn one_replica_alone_decides_when_its_disk_is_done() {
    let mut net = Net::new(1, &[]);
    let request = net.write(0);
    net.elect(0);
    assert_eq!((net.times(0, request), net.wire.len()), (1, 0));
}

#[test]
fn who_waits_for_nothing_arms_nothing() {
    let mut net = Net::led_by(0, 3, &[]);
    for me in [0, 1, 2, 0, 1, 2, 0, 1, 2] {
        while let Some(timer) = net.nodes[me].timers.keys().next().copied() {
            net.fire(me, timer);
            net.run();
            if timer == Timer::Patience {
                break;
            }
        }
    }
    assert!(net.nodes.iter().all(|node| node.timers.is_empty()));
}

/// Nothing is sent twice to a follower that is only slow.
#[test]
fn a_follower_whose_disk_is_slow_is_not_sent_what_is_committed_again() {
    let mut net = Net::led_by(0, 3, &[]);
    net.nodes[2].is_stuck = true;
    counts(&mut net);
    for _ in 0..3 {
        net.write(0);
        net.run();
    }
    assert_eq!(net.count("append"), 6);
    net.nodes[2].is_stuck = false;
    net.flush(2);
    net.run();
    assert_eq!(net.count("append"), 6);
    assert_eq!(net.nodes[2].log.len(), 5);
}
