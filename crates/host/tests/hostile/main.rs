//! Hosts of every protocol among peers that send anything.

mod cluster;
#[path = "../disk/mod.rs"]
mod disk;

use allocation_counter::measure;
use bytes::Bytes;
use cluster::Cluster;
use fastrand::Rng;
use quorate_core::Durability;
use quorate_fuzz::{mutate, rounds};
use quorate_host::Counters;
use quorate_protocols::{Protocol, Visitor, all_names, visit};

/// Does it with every protocol.
fn each<V: Visitor<Output = ()>>(visitor: impl Fn() -> V) {
    for name in all_names() {
        visit(name, visitor()).expect("it is registered");
    }
}

/// A frame that somebody might have sent: one that was, or changed in a few places.
fn forged(sent: &[Bytes], rng: &mut Rng) -> Bytes {
    let one = |rng: &mut Rng| sent.get(rng.usize(..sent.len().max(1))).cloned();
    let (mut frame, other) = (one(rng).unwrap_or_default().to_vec(), one(rng));
    mutate(&mut frame, &other.unwrap_or_default(), rng);
    frame.into()
}

/// How often more rounds are tried to reach all states.
const BATCHES_MAX: u64 = 5;

/// One round of a cluster in which frames are forged; adds what its hosts came to.
fn among_liars<P: Protocol>(mut rng: Rng, seen: &mut Counters) {
    let durability = match rng.u8(..3) {
        0 => Durability::Memory,
        _ => Durability::Disk,
    };
    let mut cluster = Cluster::<P>::new(rng.fork(), durability);
    let share = [0, 3, 30][rng.usize(..3)];
    for _ in 0..8_000 {
        cluster.advance();
        if rng.u8(..100) < share {
            let frame = forged(&cluster.sent, &mut rng);
            cluster.forge(frame);
        }
    }
    for counters in cluster.counters() {
        seen.slots += counters.slots;
        seen.caught_up += counters.caught_up;
        seen.snapshots += counters.snapshots;
        seen.installed += counters.installed;
    }
}

struct AnyState;

impl Visitor for AnyState {
    type Output = ();

    fn visit<P: Protocol>(self) {
        let mut seen = Counters::default();
        let mut is_reached = false;
        // Some protocols come as far as installing a snapshot in few of their rounds.
        for batch in 0..BATCHES_MAX {
            rounds(40, |mut rng| {
                rng.seed(rng.get_seed().wrapping_add(batch * 1_000));
                among_liars::<P>(rng, &mut seen);
            });
            let states = [seen.slots, seen.caught_up, seen.snapshots, seen.installed];
            is_reached = states.iter().all(|count| *count > 0);
            if is_reached {
                break;
            }
        }
        println!("{}: {seen:?}", P::NAME);
        assert!(is_reached, "a state was not reached: {seen:?}");
    }
}

/// Scenario: frames that nobody sent reach replicas in any state, between those that were: while
/// they vote, catch up, restart, take snapshots, fetch one. A member that lies may stop the others
/// or make them disagree, for only crashes are tolerated; it must not end a process.
#[test]
fn hosts_bear_any_frame_in_any_state() {
    each(|| AnyState);
}

struct Foreign;

impl Visitor for Foreign {
    type Output = ();

    fn visit<P: Protocol>(self) {
        rounds(6, |mut rng| {
            let mut cluster = Cluster::<P>::new(rng.fork(), Durability::Disk);
            for _ in 0..400 {
                cluster.advance();
                let garbage: Vec<u8> = (0..rng.usize(..40)).map(|_| rng.u8(..)).collect();
                // Of group 1, if it is a frame at all.
                let frame = [&[1, 1][..], &garbage].concat();
                let before = cluster.print(0);
                assert!(
                    cluster.is_reported(0, 1, frame.into()),
                    "a bad frame was taken"
                );
                assert_eq!(cluster.print(0), before, "a bad frame changed something");
            }
        });
    }
}

#[test]
fn what_is_no_frame_of_the_group_is_reported_and_changes_nothing() {
    each(|| Foreign);
}

struct Flood;

/// What a replica may hold of one peer's flood, whatever the peer sends.
const HELD_BYTES_MAX: i64 = 8 << 20;

impl Visitor for Flood {
    type Output = ();

    fn visit<P: Protocol>(self) {
        rounds(1, |mut rng| {
            let mut cluster = Cluster::<P>::new(rng.fork(), Durability::Memory);
            for _ in 0..3_000 {
                cluster.advance();
            }
            let mut held = 0;
            for _ in 0..60_000 {
                let frame = forged(&cluster.sent, &mut rng);
                let info = measure(|| cluster.give(0, 2, Bytes::copy_from_slice(&frame)));
                held += info.bytes_current;
                assert!(held <= HELD_BYTES_MAX, "{held} B of what one peer sent");
            }
            println!("{}: {held} B held after a flood", P::NAME);
        });
    }
}

/// Scenario: a peer sends well-formed nonsense without end, to a replica that hears nobody else.
#[test]
fn a_flood_of_one_peers_frames_takes_bounded_memory() {
    each(|| Flood);
}
