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

#[test]
fn one_replica_alone_decides_at_once() {
    assert_eq!(cost(1, &[], &[]), (0, 0));
}
