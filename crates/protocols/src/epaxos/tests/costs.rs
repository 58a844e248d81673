//! What requests cost in messages and flushes, and how many message delays they take.

use super::net::{A, B, C, Net};
use crate::epaxos::Timer;

/// Messages by kind, and flushes by replica, since the counts were cleared.
fn counts(net: &mut Net) -> (Vec<(&'static str, usize)>, Vec<usize>) {
    let sent = std::mem::take(&mut net.watch.sent).into_iter().collect();
    let nodes = net.nodes.iter_mut();
    let flushes = nodes
        .map(|node| std::mem::take(&mut node.flushes))
        .collect();
    (sent, flushes)
}

#[test]
fn a_write_without_conflicts_takes_two_delays_anywhere() {
    for n in [3, 5, 7] {
        for all in [false, true] {
            let mut net = Net::new(n, &[]);
            for me in [A, B, n - 1] {
                counts(&mut net);
                let request = if all {
                    net.set_all(me)
                } else {
                    net.set(me, me as u8)
                };
                net.delay();
                assert!(!net.is_answered(me, request));
                net.delay();
                assert!(net.is_answered(me, request), "{n} members");
                net.run();
                let kinds = ["commit", "pre-accept", "pre-accepted"];
                let sent: Vec<_> = kinds.map(|kind| (kind, n - 1)).into();
                let mut flushes = vec![1; n];
                // It has an entry on disk before others hear of it, and a fast commit.
                flushes[me] = 2;
                assert_eq!(counts(&mut net), (sent, flushes), "3(n-1) of {n} members");
            }
        }
    }
}

#[test]
fn where_entries_conflict_a_write_takes_four_delays_and_two_flushes() {
    for n in [3, 5] {
        let mut net = Net::new(n, &[]);
        let (_, later) = (net.set(A, 1), net.set(B, 1));
        // Each is below the other: its own four delays, and one to hear of the other's.
        for _ in 0..4 {
            net.delay();
        }
        assert!(!net.is_answered(B, later));
        net.delay();
        assert!(net.is_answered(B, later));
        net.run();
        let slow = net.count("accept") / (n - 1);
        assert!((1..=2).contains(&slow));
        assert_eq!(
            net.count("accepted"),
            net.count("accept"),
            "2(n-1) more each"
        );
        assert_eq!(net.count("commit"), 2 * (n - 1));
    }
}

#[test]
fn a_mark_costs_what_an_entry_does_and_is_proposed_once() {
    let mut net = Net::new(3, &[]);
    for (me, key) in [(A, 1), (B, 2), (C, 3)] {
        net.set(me, key);
    }
    net.run();
    assert!(
        net.nodes.iter().all(|node| node.log.is_empty()),
        "no root is there"
    );
    counts(&mut net);
    for me in [A, B, C] {
        net.fire(me, Timer::Mark);
        net.run();
    }
    assert!(net.nodes.iter().all(|node| node.log.len() == 4));
    let kinds = ["commit", "pre-accept", "pre-accepted"];
    assert_eq!(counts(&mut net).0, kinds.map(|kind| (kind, 2)));
}

#[test]
fn a_read_costs_what_a_write_does_and_many_share_one() {
    let mut net = Net::new(3, &[]);
    let write = net.set(A, 1);
    net.run();
    let reads = [net.read(B), net.read(B), net.read(B)];
    (0..4).for_each(|_| net.delay());
    net.run();
    assert!(reads.iter().all(|read| net.outcome(B, *read).is_some()));
    assert_eq!(net.times(B, write), 1, "what a read sees is delivered");
    assert_eq!(net.branch("mark proposed"), 0);
}
