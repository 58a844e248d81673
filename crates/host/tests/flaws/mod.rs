//! Deliberate faults of the host that need a particular moment, and what finds each.

use super::disk::Disk;
use super::driven::Driven;
use super::sequencer::{Journal, config};
use super::snapshots::filled;
use super::{Node, at, carry, write};
use quorate_host::{Flaw, Host, HostConfig, HostEvent, Start};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn flawed(me: u16, flaw: Option<Flaw>) -> HostConfig<quorate_core::Seat> {
    let mut config = config(me);
    config.limits.flaw = flaw;
    config
}

fn node(me: u16, flaw: Option<Flaw>, app: Journal) -> Node {
    let mut disk = Disk::default();
    let opened = Host::open(flawed(me, flaw), Start::FirstBoot, &mut disk, app, at(0));
    let (host, _) = opened.unwrap();
    let host = Driven::new(host);
    let mut node = Node { host, disk };
    node.flush(at(0));
    node
}

/// Whether a machine finds, after its log was released, what it had promised for ever.
fn keeps_its_promises(flaw: Option<Flaw>) -> bool {
    let mut leader = filled(node(1, flaw, Journal::default()), 200);
    let release = leader.host.take_release().unwrap();
    leader.disk.release(release);
    let mut disk = leader.disk.clone();
    let reopen = || {
        Host::<super::Sequencer, _>::open(
            flawed(1, flaw),
            Start::Resume,
            &mut disk,
            Journal::default(),
            at(0),
        )
    };
    catch_unwind(AssertUnwindSafe(reopen)).is_ok()
}

#[test]
fn what_a_release_must_carry_on() {
    assert!(keeps_its_promises(None));
    assert!(!keeps_its_promises(Some(Flaw::ScalarsNotCarried)));
}

/// Whether a replica with another application notices that it differs.
fn notices_a_difference(flaw: Option<Flaw>) -> bool {
    let mut leader = Node::new(1);
    let wrong = Journal {
        shift: 1,
        padding: None,
        ..Journal::default()
    };
    let mut follower = node(2, flaw, wrong);
    for ms in 1..40 {
        leader.run(at(ms), vec![write("a")]);
        carry(&mut leader.host, &mut follower, at(ms));
    }
    // It has asked the third member in vain.
    follower.host.turn(at(41));
    follower.host.turn(at(3_000));
    let events = follower.host.take_events();
    events
        .iter()
        .any(|event| matches!(event, HostEvent::Compared(_)))
}

#[test]
fn replicas_that_differ_must_notice() {
    assert!(notices_a_difference(None));
    assert!(!notices_a_difference(Some(Flaw::DigestsNotCompared)));
}
