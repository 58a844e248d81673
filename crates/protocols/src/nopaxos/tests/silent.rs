//! A replica that lost its promises.

use super::net::{Net, kind_of};
use super::schedules::{A, B, C};
use crate::nopaxos::{Record, Timer};
use quorate_core::{Outcome, Refusal};

#[test]
fn whoever_lost_its_promises_learns_and_makes_none() {
    let mut net = Net::new(3, &[]).begun();
    net.crash(C);
    net.lose_promises(C);
    assert!(!net.nodes[C].is_serving());
    let x = net.write(A);
    net.settle(&[x]);
    assert_eq!(net.times(C, x), 1, "it learns");
    let said: Vec<_> = net.messages().filter(|(from, ..)| *from == C).collect();
    assert!(said.is_empty(), "{said:?}");
    let refused = net.write(C);
    let refusal = Outcome::Refused(Refusal::NotServing);
    assert_eq!(net.outcome(C, refused), Some(refusal));
    let read = net.read(C);
    net.run();
    assert!(matches!(net.outcome(C, read), Some(Outcome::ReadAt(_))));
    // It is one of those that may fail: without it and another nothing is committed.
    net.crash(B);
    let y = net.write(A);
    for _ in 0..8 {
        for timer in [Timer::Leader, Timer::Sequencer, Timer::Retry, Timer::Sync] {
            net.may_fire(A, timer);
            net.run();
        }
    }
    assert!(!net.is_committed(A, y) && net.times(A, y) == 0);
    net.restart(B);
    net.settle(&[x, y]);
}

#[test]
fn whoever_lost_its_promises_takes_part_after_no_later_start() {
    for has_flushed in [true, false] {
        let mut net = Net::new(3, &[]).begun();
        net.crash(C);
        net.nodes[C].is_stuck = !has_flushed;
        net.lose_disk(C);
        net.run();
        for _ in 0..2 {
            // The log that begins there says what was lost, which a host that replays it cannot know.
            net.crash(C);
            net.restart(C);
            assert!(!net.nodes[C].is_serving());
            let x = net.write(B);
            net.settle(&[x]);
            let mut written = net.nodes[C].disk.iter();
            assert!(written.all(|(_, record)| *record == Record::Lost));
        }
    }
}

#[test]
fn a_leader_or_sequencer_that_lost_its_promises_is_replaced() {
    for me in [A, B] {
        let mut net = Net::new(3, &[]).begun();
        net.crash(me);
        net.lose_disk(me);
        let x = net.write(C);
        net.settle(&[x]);
        let is_work = |message| ["marked", "sync", "reply"].contains(&kind_of(message));
        assert!(
            net.messages()
                .all(|(from, _, message)| from != me || !is_work(message))
        );
    }
}
