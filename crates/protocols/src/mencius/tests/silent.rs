//! A replica that lost its promises.

use super::net::Net;
use super::schedules::{A, B, C};
use crate::mencius::Record;
use quorate_core::{Outcome, Refusal};

#[test]
fn a_replica_that_lost_its_promises_learns_and_says_nothing() {
    let mut net = Net::new(3, &[]).begun();
    net.crash(C);
    net.lose_promises(C);
    assert!(!net.nodes[C].is_serving());
    net.write(B);
    net.run();
    // The slot before is C's.
    let x = net.write(A);
    net.run();
    assert_eq!(net.times(A, x), 0);
    net.suspect_twice(A);
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
    net.settle(&[x]);
    assert!(matches!(net.outcome(C, read), Some(Outcome::ReadAt(_))));
    // It is one of those that may fail: without it and another nothing is decided.
    net.crash(A);
    let y = net.write(B);
    net.run();
    assert_eq!((net.times(B, y), net.count("promise") > 0), (0, true));
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
    let skipped = net.nodes[C]
        .disk
        .iter()
        .any(|(_, record)| *record != Record::Lost);
    assert!(!skipped, "it promises and reserves nothing");
}

#[test]
fn whoever_lost_everything_gets_the_decided_log() {
    let mut net = Net::new(3, &[("window", "8")]);
    for _ in 0..10 {
        net.write(B);
        net.run();
    }
    net.crash(C);
    net.lose_disk(C);
    let x = net.write(B);
    net.run();
    net.suspect_twice(B);
    net.settle(&[x]);
    assert_eq!(net.nodes[C].log.len(), net.nodes[B].log.len());
}
