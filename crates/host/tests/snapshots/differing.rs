//! Snapshots of an application whose pieces differ from replica to replica.

use super::super::driven::Driven;
use super::super::sequencer::{Journal, open};
use super::super::{Node, at};
use super::{filled, lead};
use quorate_core::Slot;
use quorate_host::{HostEvent, Start};

/// A replica whose snapshots have so many lines of no meaning.
fn padded(me: u16, padding: usize, stray: Option<&str>) -> Node {
    let journal = Journal {
        lines: stray.map(str::to_owned).into_iter().collect(),
        shift: stray.map_or(0, |_| usize::MAX),
        padding: Some(padding),
    };
    let mut node = Node::new(me);
    let opened = open(me, Start::FirstBoot, &mut node.disk, journal);
    node.host = Driven::new(opened.unwrap());
    node.flush(at(0));
    node
}

#[test]
fn snapshots_that_differ_in_bytes_are_compared_by_what_the_application_says() {
    let mut leader = filled(padded(1, 1, None), 2);
    let mut followers = [padded(2, 5, None), padded(3, 9, Some("stray"))];
    lead(&mut leader, &mut followers);
    let compared = |node: &mut Node| {
        node.host.turn(at(46));
        node.host.turn(at(3_000));
        let events = node.host.take_events().into_iter();
        let mut compared = false;
        let mut digests = Vec::new();
        for event in events {
            match event {
                HostEvent::SnapshotTaken(snapshot) => digests.push(snapshot.digest),
                HostEvent::Compared(found) => compared |= found.slot == Slot(20),
                _ => {}
            }
        }
        (digests, compared)
    };
    assert_ne!(leader.disk.snapshots, followers[0].disk.snapshots);
    let (of_leader, _) = compared(&mut leader);
    let (of_equal, is_told) = compared(&mut followers[0]);
    assert_eq!(of_leader, of_equal);
    assert_eq!(of_leader.len(), 2);
    assert!(!is_told, "equal states with other bytes");
    let (of_other, is_told) = compared(&mut followers[1]);
    assert_ne!(of_leader, of_other);
    assert!(is_told, "another state");
}
