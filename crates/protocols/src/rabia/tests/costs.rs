//! What a request costs when every message takes one unit of time and disks none.

use super::cluster::{Cluster, DELAY_NS};
use quorate_core::SECONDS;

/// One request at replica 0: delays until it is delivered there, and Slot messages in all.
fn cost(n: usize, params: &[(&str, &str)], down: &[usize]) -> (u64, usize) {
    let mut cluster = Cluster::new(n, params);
    down.iter().for_each(|node| cluster.crash(*node));
    let start_ns = cluster.now_ns;
    let request = cluster.write(0);
    while cluster.slot_of(0, request).is_none() {
        cluster.run_for(DELAY_NS);
        assert!(cluster.now_ns < start_ns + SECONDS, "it is decided");
    }
    let delays = (cluster.now_ns - start_ns) / DELAY_NS;
    let slots = cluster.chosen.len();
    cluster.run_for(20 * DELAY_NS);
    assert_eq!(slots, 1, "one slot for one request");
    assert_eq!(
        cluster.count("batch"),
        n - 1,
        "the payload crosses each link once"
    );
    cluster.assert_sound();
    (delays, cluster.count("slot"))
}

const NO_HOLD: (&str, &str) = ("vote_hold_us", "0");
const PAPER: [(&str, &str); 3] = [("mode", "three_step"), ("fast_rules", "false"), NO_HOLD];

#[test]
fn three_replicas_take_two_delays_also_with_one_down() {
    assert_eq!(cost(3, &[NO_HOLD], &[]), (2, 12));
    assert_eq!(cost(3, &[NO_HOLD], &[2]), (2, 8));
}

#[test]
fn a_held_vote_is_a_vote_saved() {
    assert_eq!(cost(3, &[], &[]), (2, 6));
    assert_eq!(cost(5, &[], &[]), (2, 20));
}

#[test]
fn five_replicas_take_two_delays_and_three_with_one_down() {
    assert_eq!(cost(5, &[NO_HOLD], &[]), (2, 40));
    assert_eq!(cost(5, &[NO_HOLD], &[4]), (3, 32));
}

#[test]
fn fast_1_within_n_minus_f_needs_no_vote_round() {
    assert_eq!(cost(5, &[("f", "1"), NO_HOLD], &[]), (2, 20));
    assert_eq!(cost(5, &[("f", "1"), NO_HOLD], &[4]), (2, 16));
}

#[test]
fn the_papers_mode_takes_a_delay_more() {
    assert_eq!(cost(3, &PAPER, &[]), (3, 18));
    assert_eq!(cost(5, &PAPER, &[]), (4, 60));
}

/// A lone origin with a lane of its own: the idle lanes before its slot cost no message and no
/// delay, whether their owners live or not.
#[test]
fn idle_lanes_cost_nothing_of_their_own() {
    for (n, down, messages) in [(3, &[][..], 12), (3, &[1][..], 8), (5, &[][..], 40)] {
        let lanes = n.to_string();
        let mut cluster = Cluster::new(n, &[("lanes", &lanes), NO_HOLD]);
        down.iter().for_each(|node| cluster.crash(*node));
        let origin = n - 1;
        for round in 0..4 {
            cluster.watch.sent.clear();
            let start_ns = cluster.now_ns;
            let request = cluster.write(origin);
            while cluster.slot_of(origin, request).is_none() {
                cluster.run_for(DELAY_NS);
                assert!(cluster.now_ns < start_ns + SECONDS, "it is decided");
            }
            assert_eq!((cluster.now_ns - start_ns) / DELAY_NS, 2, "delays");
            cluster.run_for(20 * DELAY_NS);
            assert_eq!(cluster.count("slot"), messages, "votes and proposals");
            assert_eq!(cluster.chosen.len(), n * (round + 1), "one slot per lane");
            let alive = n - down.len();
            assert_eq!(cluster.count("nulls"), alive * (n - 1), "one each");
        }
        cluster.assert_sound();
    }
}

/// NULL needs no record: a reserve is written once in a while.
#[test]
fn idle_lanes_are_not_written_down() {
    let mut cluster = Cluster::new(3, &[("lanes", "3")]);
    for _ in 0..100 {
        cluster.write(2);
        cluster.run_for(20 * DELAY_NS);
    }
    assert_eq!(cluster.chosen.len(), 300);
    let reserves = cluster.nodes[2].disk.iter();
    let reserves = reserves.filter(|(_, record)| record.is_reserve()).count();
    assert!(reserves <= 60, "{reserves} for 200 slots of NULL");
    let own = cluster.nodes[2].disk.len() - reserves;
    assert_eq!(own, 200, "a batch and a proposal for each request");
}

#[test]
fn one_replica_alone_decides_at_once() {
    assert_eq!(cost(1, &[], &[]), (0, 0));
}
