//! Replicas that cannot write their logs for a while.

use super::sequencer::{Journal, open};
use super::{Node, at, carry, write};
use quorate_core::{Now, Peers, ReplicaId};
use quorate_host::{Answer, Completed, Directive, HostEvent, Request, Start, SupportedVersions};

/// What a leader and a follower have to say to each other by now.
fn talk(leader: &mut Node, follower: &mut Node, now: Now) {
    follower.host.turn(now);
    for frame in follower.host.take_frames() {
        if frame.to != Peers::One(ReplicaId(3)) {
            let bytes = frame.chunks.concat().into();
            leader.host.frame(now, ReplicaId(2), bytes);
        }
    }
    leader.run(now, Vec::new());
    for read in leader.host.take_reads() {
        let bytes = leader.disk.read_at(read.at, read.len);
        leader.host.completed(
            now,
            Completed::Read {
                token: read.token,
                bytes: Ok(bytes),
            },
        );
    }
    carry(&mut leader.host, follower, now);
}

/// Scenario: for a while a follower cannot write its log. It learns what is decided and writes none of it, asks the
/// leader where it may answer a read, and has no part in anything else. When it can write again it fetches once more
/// what it has not written, and has it after a restart.
#[test]
fn a_follower_that_cannot_write_learns_and_reads_and_writes_later() {
    let (mut leader, mut follower) = (Node::new(1), Node::new(2));
    let newest = Some(SupportedVersions::SHIPPED.newest);
    leader.host.link(at(1), ReplicaId(2), newest);
    follower.host.link(at(1), ReplicaId(1), newest);
    follower.write_all();
    follower.host.direct(at(0), Directive::Stall);
    for ms in 2..300 {
        let text = "some text that takes a little room in the log";
        leader.run(at(ms), vec![write(text)]);
        talk(&mut leader, &mut follower, at(ms));
    }
    leader.run(at(300), vec![write("last")]);
    follower.host.submit(at(300), 7, Request::Read(()));
    for ms in 301..1000 {
        talk(&mut leader, &mut follower, at(ms));
    }
    let answers = follower.host.take_answers();
    let [(7, Answer::Read(_, lines))] = &answers[..] else {
        panic!("the read was answered with {answers:?}");
    };
    assert_eq!(lines.last().map(String::as_str), Some("last"));
    assert_eq!(
        follower.host.look().unwritten_bytes(),
        0,
        "nothing is written"
    );
    assert!(follower.host.look().is_stalled());

    follower.host.direct(at(1000), Directive::Resume);
    for ms in 1001..3000 {
        talk(&mut leader, &mut follower, at(ms));
    }
    follower.write_all();
    assert_eq!(follower.host.look().digest(), leader.host.look().digest());
    let reopened = open(2, Start::Resume, &mut follower.disk, Journal::default()).unwrap();
    assert_eq!(
        reopened.look().digest(),
        leader.host.look().digest(),
        "it is in the log"
    );
}

/// Scenario: a replica whose log cannot be written orders nothing, so a member has to have the group know of it.
#[test]
fn a_stalled_follower_has_a_member_know_of_it() {
    let (mut leader, mut follower) = (Node::new(1), Node::new(2));
    let newest = Some(SupportedVersions::SHIPPED.newest);
    leader.host.link(at(1), ReplicaId(2), newest);
    follower.host.link(at(1), ReplicaId(1), newest);
    follower.host.direct(at(0), Directive::TellStalled);
    talk(&mut leader, &mut follower, at(2));
    let is_told = |leader: &mut Node| {
        let events = leader.host.take_events();
        events.contains(&HostEvent::Stalled(ReplicaId(2)))
    };
    assert!(!is_told(&mut leader), "it is not stalled");
    follower.host.direct(at(0), Directive::Stall);
    follower.host.direct(at(0), Directive::TellStalled);
    talk(&mut leader, &mut follower, at(3));
    assert!(is_told(&mut leader));
}
