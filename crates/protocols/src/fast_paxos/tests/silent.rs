//! A replica that lost its promises.

use super::net::{A, B, C, Net};
use crate::fast_paxos::Record;
use quorate_core::{Outcome, Refusal};

#[test]
fn a_replica_that_lost_its_promises_learns_and_says_nothing() {
    let mut net = Net::new(3, &[]).begun();
    net.crash(C);
    net.lose_promises(C);
    assert!(!net.nodes[C].is_serving());
    net.watch.sent.clear();
    let x = net.write(B);
    net.run();
    assert_eq!((net.count("fast vote"), net.times(A, x)), (1, 0));
    net.settle(&[x]);
    assert_eq!(net.times(C, x), 1, "it learns");
    let mut written = net.nodes[C].disk.iter();
    let is_lost = |(_, record): &(_, Record)| *record == Record::Lost;
    assert!(written.all(is_lost), "it promises nothing");
    let refused = net.write(C);
    let refusal = Outcome::Refused(Refusal::NotServing);
    assert_eq!(net.outcome(C, refused), Some(refusal));
    let read = net.read(C);
    net.run();
    assert!(matches!(net.outcome(C, read), Some(Outcome::ReadAt(_))));
    // It is one of those that may fail: without it and another nothing is decided.
    net.crash(A);
    net.watch.sent.clear();
    let y = net.write(B);
    net.run();
    net.stand(B);
    net.run();
    assert_eq!((net.times(B, y), net.count("promise")), (0, 0));
    net.restart(A);
    net.settle(&[x, y]);
    net.crash(C);
    net.restart(C);
    assert!(!net.nodes[C].is_serving(), "its next start is the same");
}

#[test]
fn whoever_lost_its_promises_twice_started_takes_part_in_nothing() {
    let mut net = Net::new(3, &[]).begun();
    net.crash(C);
    net.lose_disk(C);
    net.run();
    // The log that begins there says what was lost, which a host that replays it cannot know.
    net.crash(C);
    net.restart(C);
    assert!(!net.nodes[C].is_serving());
    let x = net.write(A);
    net.settle(&[x]);
    let mut written = net.nodes[C].disk.iter();
    assert!(written.all(|(_, record)| *record == Record::Lost));
    assert_eq!(net.nodes[C].log.len(), net.nodes[A].log.len());
}
