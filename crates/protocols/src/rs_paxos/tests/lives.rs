//! A replica that goes on in a life that is over is told.

use super::net::Net;
use crate::rs_paxos::{Message, Timer};
use crate::shared::lives::Life;
use crate::shared::rejoins::Rejoins;
use quorate_core::{Boot, MemberIndex, Slot};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// Others know of a life of C that ended before it began, and C goes on in the one before: what it says counts nowhere.
/// It is told, and begins a later one.
#[test]
fn a_replica_whose_life_is_over_is_told_and_begins_another() {
    let mut net = Net::led_by(A, 3, &[]);
    let (number, boot) = (1, Boot(7));
    let life = Life { number, boot };
    for other in [A, B] {
        let next = Slot(0);
        net.hear(C, other, &Message::Rejoin { life, next });
    }
    net.wire.clear();
    assert!(net.machine(C).is_voting());
    net.write(A);
    net.run();
    while !net.machine(C).is_voting() {
        net.fire(C, Timer::Retransmit);
        net.run();
    }
    assert_eq!(
        ["life outnumbered", "rejoined"].map(|name| net.branch(name)),
        [1; 2]
    );
    let lives = net.machine(C).voter.lives();
    assert_eq!(lives.of(MemberIndex::new(C)).number, 2);
}
