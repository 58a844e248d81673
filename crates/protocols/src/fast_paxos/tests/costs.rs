//! What requests cost in messages and flushes, and how many message delays they take.

use super::net::{A, B, C, D, Net};
use crate::fast_paxos::Timer;
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
fn a_write_takes_three_delays_and_two_at_the_leader() {
    for n in [3, 5, 7] {
        let mut net = Net::new(n, &[]).begun();
        for (me, delays) in [(A, 2), (B, 3), (n - 1, 3)] {
            counts(&mut net);
            let request = net.write(me);
            for _ in 1..delays {
                delay(&mut net);
                assert_eq!(net.times(me, request), 0);
            }
            delay(&mut net);
            assert_eq!(net.times(me, request), 1);
            net.run();
            assert!((0..n).all(|at| net.times(at, request) == 1));
            let others = n - 1;
            let sent = vec![
                ("commit", others),
                ("fast vote", others),
                ("propose", others),
            ];
            assert_eq!(counts(&mut net), (sent, vec![1; n]));
        }
    }
}

/// Two entries of a gateway come to a member in another order than to the leader.
#[test]
fn where_entries_collide_a_write_takes_five_delays_and_two_flushes() {
    let mut net = Net::new(3, &[]).begun();
    counts(&mut net);
    let requests = [net.write(B), net.write(B)];
    let mut swapped = net.hold("propose", B, C);
    swapped.reverse();
    net.wire.extend(swapped);
    for _ in 0..4 {
        delay(&mut net);
        assert_eq!(net.times(B, requests[0]), 0);
    }
    delay(&mut net);
    for me in [A, B, C] {
        assert_eq!(requests.map(|request| net.times(me, request)), [1; 2]);
    }
    assert!(net.wire.is_empty());
    let of = |kind| net.count(kind);
    assert_eq!([of("propose"), of("fast vote")], [4, 4]);
    assert_eq!(
        [of("accept"), of("accepted")],
        [4, 4],
        "2(n-1) more for each"
    );
}

/// The votes of two gateways come with their entries: the leader knows at once.
#[test]
fn where_entries_of_two_gateways_collide_a_write_takes_four_delays() {
    let mut net = Net::new(3, &[]).begun();
    let request = net.write(B);
    net.write(C);
    (0..3).for_each(|_| delay(&mut net));
    assert_eq!(net.times(B, request), 0);
    delay(&mut net);
    assert_eq!(net.times(B, request), 1);
}

#[test]
fn a_slot_of_which_a_vote_is_missing_costs_two_messages_more_to_each() {
    let mut net = Net::new(3, &[]).begun();
    counts(&mut net);
    let request = net.write(B);
    net.hold("propose", B, C);
    net.run();
    assert_eq!(net.times(B, request), 0, "C has not voted");
    net.fire(A, Timer::Collide);
    net.fire(A, Timer::Collide);
    net.run();
    assert_eq!([A, B, C].map(|me| net.times(me, request)), [1; 3]);
    let (sent, flushes) = counts(&mut net);
    let classic = [("accept", 2), ("accepted", 2), ("commit", 2)];
    let expected = [&classic[..], &[("fast vote", 1), ("propose", 2)]].concat();
    assert_eq!((sent, flushes), (expected, vec![1, 2, 1]));
}

#[test]
fn a_fast_quorum_is_enough() {
    let mut net = Net::new(5, &[]).begun();
    net.crash(D);
    let request = net.write(B);
    net.run();
    assert_eq!([A, B, C].map(|me| net.times(me, request)), [1; 3]);
    assert_eq!(net.count("accept"), 0);
}

#[test]
fn reads_take_a_round_trip_from_anywhere_and_share_it() {
    let mut net = Net::new(5, &[]).begun();
    let end = Slot(net.nodes[A].log.len() as u64);
    counts(&mut net);
    for me in 0..5 {
        let read = net.read(me);
        (0..2).for_each(|_| delay(&mut net));
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
fn a_leader_is_replaced_in_two_round_trips() {
    let mut net = Net::new(5, &[]).begun();
    net.crash(A);
    let request = net.write(B);
    net.run();
    net.stand(B);
    counts(&mut net);
    (0..4).for_each(|_| delay(&mut net));
    assert_eq!(net.times(B, request), 1);
}

#[test]
fn one_replica_alone_decides_when_its_disk_is_done() {
    let mut net = Net::new(1, &[]);
    let request = net.write(A);
    net.fire(A, Timer::Election);
    assert_eq!((net.times(A, request), net.wire.len()), (1, 0));
}

#[test]
fn who_waits_for_nothing_arms_nothing() {
    let mut net = Net::new(3, &[]).begun();
    net.crash(A);
    let request = net.write(B);
    net.run();
    net.stand(B);
    net.settle(&[request]);
    net.restart(A);
    net.quiet();
    let armed: Vec<_> = net.nodes.iter().map(|node| &node.timers).collect();
    assert!(armed.iter().all(|timers| timers.is_empty()), "{armed:?}");
}
