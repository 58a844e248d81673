//! Members that have nothing to do, and one that lost its promises.

use super::net::{A, B, C, Net};
use crate::epaxos::Timer;

#[test]
fn a_cluster_where_nobody_waits_arms_no_timer() {
    let mut net = Net::new(3, &[]);
    let requests = [net.set(A, 1), net.set(B, 2), net.set_all(C)];
    net.settle(&requests);
    for _ in 0..8 {
        for me in [A, B, C] {
            let timers: Vec<Timer> = net.nodes[me].timers.keys().copied().collect();
            timers.into_iter().for_each(|timer| net.fire(me, timer));
            net.run();
        }
    }
    for node in &net.nodes {
        assert!(node.timers.is_empty(), "{:?}", node.timers);
    }
    assert!(net.wire.is_empty());
}

#[test]
fn one_that_lost_its_promises_is_silent_also_after_a_further_start() {
    let mut net = Net::new(3, &[]);
    let first = net.set_all(A);
    net.settle(&[first]);
    net.die(C);
    net.lose_promises(C);
    net.run();
    for _ in 0..2 {
        net.watch.sent.clear();
        let next = net.set_all(A);
        net.hold("pre-accept", A, B).clear();
        net.run();
        assert_eq!(net.count("pre-accepted"), 0, "C keeps nothing");
        net.settle(&[next]);
        assert!(!net.nodes[C].is_serving());
        net.die(C);
        net.restart(C);
    }
}
