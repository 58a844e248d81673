//! A follower that is behind: whom it asks, for what, and how often.

use crate::sequencer::{Journal, config, open};
use crate::{Node, at, carry, write};
use bytes::Bytes;
use quorate_core::{Now, Peers, ReplicaId};
use quorate_host::{Completed, Start, WireVersion};

/// How two peers that have all serve a follower that lacks it.
#[derive(Clone, Copy, Default)]
struct Serving {
    /// How long their answers are under way.
    under_way_ms: u64,
    /// The second one died after it had told how far it is.
    is_one_dead: bool,
}

/// The price of bringing a follower up to date.
struct CaughtUp {
    bytes_sent: usize,
    took_ms: u64,
}

/// Does what a replica wants to read of its log.
fn read_all(node: &mut Node, now: Now) {
    for read in node.host.take_reads() {
        let bytes = node.disk.read_at(read.at, read.len);
        let token = read.token;
        let bytes = Ok(bytes);
        node.host.completed(now, Completed::Read { token, bytes });
    }
}

/// Three replicas, the second of which has nothing of what the others have.
fn one_behind() -> [Node; 3] {
    let mut nodes = [1, 2, 3].map(|me| {
        let mut config = config(me);
        config.limits.snapshot_slots = 0;
        config.limits.catch_up_bytes_max = 2_000;
        Node::with(config)
    });
    for ms in 1..400 {
        nodes[0].run(at(ms), vec![write("some text that is in the log")]);
        let [leader, _, other] = &mut nodes;
        carry(&mut leader.host, other, at(ms));
    }
    nodes
}

impl Serving {
    fn catch_up(self) -> CaughtUp {
        let mut nodes = one_behind();
        let (mut mail, mut bytes_sent) = (Vec::new(), 0);
        for ms in 400..20_000 {
            let is_alive = |index: usize| index != 2 || !self.is_one_dead || ms == 400;
            for (index, node) in nodes.iter_mut().enumerate() {
                if !is_alive(index) {
                    continue;
                }
                if ms % 100 == 0 && index != 1 {
                    // It says how far it is.
                    let version = Some(WireVersion(1));
                    node.host.link(at(ms), ReplicaId(2), version);
                }
                node.host.turn(at(ms));
                read_all(node, at(ms));
                for frame in node.host.take_frames() {
                    let Peers::One(ReplicaId(to)) = frame.to else {
                        continue;
                    };
                    let bytes = Bytes::from(frame.chunks.concat());
                    let is_to_follower = to == 2;
                    bytes_sent += if is_to_follower { bytes.len() } else { 0 };
                    let way_ms = if is_to_follower { self.under_way_ms } else { 0 };
                    mail.push((ms + way_ms.max(1), index as u16 + 1, to, bytes));
                }
            }
            for (_, from, to, bytes) in mail.extract_if(.., |(due_ms, ..)| *due_ms <= ms) {
                let index = usize::from(to) - 1;
                if is_alive(index) {
                    let node = &mut nodes[index];
                    node.host.frame(at(ms), ReplicaId(from), bytes);
                    node.flush(at(ms));
                }
            }
            if nodes[1].host.look().digest() == nodes[0].host.look().digest() {
                let took_ms = ms - 400;
                return CaughtUp {
                    bytes_sent,
                    took_ms,
                };
            }
        }
        panic!("the follower is still behind");
    }
}

/// Scenario: answers are longer under way than one usually waits. Asked for again and again, every slot would come
/// twice or more often; and over a link that is full, ever later.
#[test]
fn a_follower_whose_answers_are_long_under_way_fetches_little_twice() {
    let short = Serving::default().catch_up().bytes_sent;
    let far = Serving {
        under_way_ms: 250,
        ..Serving::default()
    };
    let long = far.catch_up().bytes_sent;
    assert!(long < short * 5 / 4, "{long} bytes, and {short} at once");
}

/// Scenario: of two peers that are ahead, one is dead. Asked after every answer of the other one, it would be waited
/// for as many times as there are answers; where slots are large and an answer has two of them, for ever.
#[test]
fn a_peer_that_is_dead_is_asked_last() {
    let both = Serving::default().catch_up().took_ms;
    let one = Serving {
        is_one_dead: true,
        ..Serving::default()
    };
    let took_ms = one.catch_up().took_ms;
    let waited_once_ms = config(2).limits.catch_up_timeout_ns / 1_000_000;
    let bound_ms = both + waited_once_ms + waited_once_ms / 2;
    assert!(
        took_ms < bound_ms,
        "{took_ms} ms, and {both} without a death"
    );
}

#[test]
fn a_follower_that_lost_messages_fetches_what_it_missed() {
    let (mut leader, mut follower) = (Node::new(1), Node::new(2));
    // So many and such large entries that most are no longer in the leader's memory.
    for ms in 1..200 {
        leader.run(
            at(ms),
            vec![write("some text that takes a little room in the log")],
        );
        leader.host.take_frames();
    }
    leader.run(at(300), vec![write("last")]);
    carry(&mut leader.host, &mut follower, at(300));
    for ms in 301..2000 {
        follower.host.turn(at(ms));
        for frame in follower.host.take_frames() {
            if frame.to != Peers::One(ReplicaId(3)) {
                leader
                    .host
                    .frame(at(ms), ReplicaId(2), frame.chunks.concat().into());
            }
        }
        read_all(&mut leader, at(ms));
        carry(&mut leader.host, &mut follower, at(ms));
    }
    assert_eq!(follower.host.look().digest(), leader.host.look().digest());
    assert!(follower.host.look().counters().caught_up > 100);
    follower.write_all();
    let reopened = open(2, Start::Resume, &mut follower.disk, Journal::default()).unwrap();
    assert_eq!(
        reopened.look().digest(),
        leader.host.look().digest(),
        "what was learned is in the log"
    );
}
