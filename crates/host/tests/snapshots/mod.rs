//! Snapshots: taken, stored, loaded, fetched and installed, and what they let go of.

mod differing;

use super::disk::Disk;
use super::driven::Driven;
use super::sequencer::{Journal, config, in_memory, open};
use super::{Node, applied, at, carry, command, write};
use bytes::Bytes;
use quorate_core::{Class, Now, Peers, ReplicaId, Slot};
use quorate_host::{
    Completed, Host, HostEvent, OpenError, SnapshotId, SnapshotWrite, Start, WireVersion,
};

impl Node {
    /// Takes a due snapshot to its end, and stores it.
    fn keep(&mut self, now: Now) {
        loop {
            let more = self.host.tidy();
            for done in self.disk.keep(self.host.take_snapshot_writes()) {
                self.host.completed(now, done);
            }
            if !more {
                return;
            }
        }
    }

    /// One write per slot, with everything that follows but releases.
    fn fill(&mut self, slots: std::ops::Range<u64>) {
        for slot in slots {
            self.run(at(slot), vec![write("a line that takes some room")]);
            self.keep(at(slot));
            self.flush(at(slot));
        }
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        self.host = Driven::new(open(1, Start::Resume, &mut self.disk, Journal::default())?);
        Ok(())
    }

    fn taken(&mut self) -> Vec<SnapshotId> {
        let events = self.host.take_events().into_iter();
        let taken = events.filter_map(|event| match event {
            HostEvent::SnapshotTaken(snapshot) => Some(snapshot),
            _ => None,
        });
        taken.collect()
    }
}

/// A leader that has applied this many slots, with snapshots every 20.
pub(crate) fn leader(slots: u64) -> Node {
    filled(Node::new(1), slots)
}

/// Slots that a leader orders and others hear of, until all of them have taken two snapshots.
fn lead<'a>(leader: &mut Node, others: impl IntoIterator<Item = &'a mut Node>) {
    let mut others: Vec<&mut Node> = others.into_iter().collect();
    let mut frames = leader.host.take_frames();
    for slot in 2..45 {
        leader.run(at(slot), vec![write("x")]);
        leader.keep(at(slot));
        frames.extend(leader.host.take_frames());
        for frame in frames.drain(..) {
            for node in &mut others {
                let bytes: Bytes = frame.chunks.concat().into();
                node.host.frame(at(slot), ReplicaId(1), bytes);
                node.flush(at(slot));
                node.keep(at(slot));
            }
        }
    }
}

pub(super) fn filled(mut leader: Node, slots: u64) -> Node {
    let open = command(0, 0, Class::OpenSession, "");
    leader.run(at(1), vec![open]);
    leader.run(at(1), vec![command(1, 0, Class::Write, "a")]);
    let next = leader.host.look().applied().0;
    leader.fill(next..slots - 1);
    assert_eq!(leader.host.look().applied(), Slot(slots));
    leader.write_all();
    leader
}

#[test]
fn a_replica_restarts_from_its_newest_snapshot_with_sessions_and_results() {
    let mut leader = leader(50);
    let digest = leader.host.look().digest();
    leader.reopen().unwrap();
    assert_eq!(leader.host.look().digest(), digest);
    leader.flush(at(60));
    let again = leader.run(at(60), vec![command(1, 0, Class::Write, "a")]);
    assert_eq!(
        again,
        [applied(1, "1:a")],
        "executed once, before the snapshot"
    );
    assert_eq!(leader.disk.snapshots.len(), 2);
}

#[test]
fn replicas_take_equal_snapshots_at_the_same_slots_and_notice_others() {
    let (mut leader, mut follower) = (leader(2), Node::new(2));
    let mut other = Node::new(3);
    let opened = open(
        3,
        Start::FirstBoot,
        &mut Disk::default(),
        // What it answers is right all the same.
        Journal {
            lines: vec!["stray".to_owned()],
            shift: usize::MAX,
            padding: None,
        },
    );
    other.host = Driven::new(opened.unwrap());
    other.flush(at(0));
    lead(&mut leader, [&mut follower, &mut other]);
    let (mine, theirs) = (leader.taken(), follower.taken());
    assert_eq!(
        mine.iter().map(|id| id.slot.0).collect::<Vec<_>>(),
        [20, 40]
    );
    assert_eq!(mine, theirs);
    assert_eq!(
        leader.disk.snapshots, follower.disk.snapshots,
        "byte for byte"
    );
    other.host.turn(at(46));
    other.host.turn(at(3_000));
    let diverged =
        |event: &HostEvent| matches!(event, HostEvent::Compared(found) if found.slot == Slot(20));
    assert!(other.host.take_events().iter().any(diverged));
}

#[test]
fn the_log_is_released_up_to_the_older_of_two_snapshots_and_not_before_they_are_durable() {
    let mut leader = leader(200);
    assert!(leader.disk.files.len() > 3);
    let release = leader.host.take_release().unwrap();
    assert!(release.segments_before > 1);
    assert!(release.snapshots_before >= Slot(160));
    leader.disk.release(release);
    let digest = leader.host.look().digest();
    leader.reopen().unwrap();
    assert_eq!(leader.host.look().digest(), digest);
}

#[test]
fn nothing_is_released_for_a_snapshot_that_is_not_durable() {
    let mut leader = leader(41);
    leader.host.take_release();
    for slot in 41..150 {
        leader.run(at(slot), vec![write("a line that takes some room")]);
        leader.host.tidy();
        for done in leader.disk.keep(leader.host.take_snapshot_writes()) {
            if let Completed::SnapshotPiece(_) = done {
                leader.host.completed(at(slot), done);
            }
        }
        assert_eq!(
            leader.host.take_release(),
            None,
            "nothing was reported as stored"
        );
    }
}

#[test]
fn a_release_waits_until_the_log_says_so_itself() {
    let mut leader = leader(59);
    leader.host.take_release();
    leader.host.submit(at(60), 0, write("x"));
    leader.host.turn(at(60));
    leader.flush(at(60));
    leader.keep(at(60));
    assert_eq!(
        leader.host.take_release(),
        None,
        "its record is not written yet"
    );
    leader.flush(at(61));
    assert!(leader.host.take_release().is_some());
}

#[test]
fn a_damaged_snapshot_is_replaced_by_the_one_before_it_and_the_log() {
    let mut leader = leader(90);
    let release = leader.host.take_release().unwrap();
    leader.disk.release(release);
    let digest = leader.host.look().digest();
    let newest = *leader.disk.snapshots.keys().last().unwrap();
    leader.disk.snapshots.get_mut(&newest).unwrap()[70] ^= 1;
    let config = config(1);
    let (host, opened) = Host::<super::Sequencer, Journal>::open(
        config,
        Start::Resume,
        &mut leader.disk,
        Journal::default(),
        at(0),
    )
    .unwrap();
    assert_eq!(host.look().digest(), digest);
    assert_eq!(opened.snapshot, Some(Slot(newest.0 - 20)));
    assert_eq!(opened.bad_snapshots[0].0, newest);
}

#[test]
fn a_released_log_without_its_beginning_or_any_snapshot_vouches_for_nothing() {
    let mut leader = leader(200);
    let release = leader.host.take_release().unwrap();
    leader.disk.release(release);
    let mut without = leader.disk.clone();
    without.snapshots.clear();
    let opened = open_and_tell(&mut without);
    assert!(opened.lost_promises && opened.next == Slot(0), "{opened:?}");
    assert_eq!(opened.missing.len(), 1);
    let first = *leader.disk.files.keys().next().unwrap();
    leader.disk.files.remove(&first);
    let opened = open_and_tell(&mut leader.disk);
    assert!(
        opened.lost_promises && opened.missing.is_empty(),
        "{opened:?}"
    );
}

fn open_and_tell(disk: &mut Disk) -> quorate_host::Opened {
    let app = Journal::default();
    let opened =
        Host::<super::Sequencer, Journal>::open(config(1), Start::Resume, disk, app, at(0));
    opened.unwrap().1
}

#[test]
fn segments_that_were_released_may_be_gone_each_by_itself() {
    let mut leader = leader(400);
    let release = leader.host.take_release().unwrap();
    let digest = leader.host.look().digest();
    assert!(release.segments_before > 4);
    for gone in [vec![2], vec![1, 3], vec![2, 4]] {
        let mut disk = leader.disk.clone();
        gone.iter()
            .for_each(|segment| drop(disk.files.remove(segment)));
        let host = open(1, Start::Resume, &mut disk, Journal::default()).unwrap();
        assert_eq!(host.look().digest(), digest, "without {gone:?}");
    }
}

/// Lets a replica that knows nothing come up to a leader through the peers' frames; `lose` drops
/// some of those to the replica. Returns how often it asked the third replica, which is dead.
pub(crate) fn come_up(
    leader: &mut Node,
    behind: &mut Node,
    mut lose: impl FnMut(usize) -> bool,
) -> usize {
    let (mut count, mut in_vain) = (0, 0);
    leader
        .host
        .link(at(1_000), ReplicaId(2), Some(WireVersion(1)));
    for ms in 1_000..5_000 {
        for frame in leader.host.take_frames() {
            count += 1;
            if frame.to != Peers::One(ReplicaId(3)) && !lose(count) {
                behind
                    .host
                    .frame(at(ms), ReplicaId(1), frame.chunks.concat().into());
            }
        }
        behind.host.turn(at(ms));
        behind.flush(at(ms));
        behind.keep(at(ms));
        behind.flush(at(ms));
        for frame in behind.host.take_frames() {
            if frame.to == Peers::One(ReplicaId(3)) {
                in_vain += 1;
            } else {
                leader
                    .host
                    .frame(at(ms), ReplicaId(2), frame.chunks.concat().into());
            }
        }
        for read in leader.host.take_reads() {
            let bytes = leader.disk.read_at(read.at, read.len);
            leader.host.completed(
                at(ms),
                Completed::Read {
                    token: read.token,
                    bytes: Ok(bytes),
                },
            );
        }
        for read in leader.host.take_snapshot_reads() {
            let bytes = leader.disk.read_snapshot_at(&read);
            leader.host.completed(
                at(ms),
                Completed::SnapshotRead {
                    token: read.token,
                    bytes: Ok(bytes),
                },
            );
        }
        leader.keep(at(ms));
        if behind.host.look().digest() == leader.host.look().digest() {
            return in_vain;
        }
    }
    panic!("{:?} is as far as it came", behind.host.look().digest());
}

fn released(slots: u64) -> Node {
    let mut leader = leader(slots);
    leader.host.take_frames();
    let release = leader.host.take_release().unwrap();
    leader.disk.release(release);
    leader
}

#[test]
fn a_replica_that_is_far_behind_gets_a_snapshot_and_the_log_after_it() {
    let (mut leader, mut behind) = (released(250), Node::new(2));
    come_up(&mut leader, &mut behind, |_| false);
    let events = behind.host.take_events();
    let installed = events
        .iter()
        .filter(|event| matches!(event, HostEvent::Installed { .. }));
    assert_eq!(installed.count(), 1);
    assert!(behind.host.look().counters().caught_up < 20);
    let digest = behind.host.look().digest();
    behind.write_all();
    let again = open(2, Start::Resume, &mut behind.disk, Journal::default()).unwrap();
    assert_eq!(
        again.look().digest(),
        digest,
        "its log has a gap where the snapshot is"
    );
}

#[test]
fn chunks_that_are_lost_are_asked_for_again() {
    let (mut leader, mut behind) = (released(250), Node::new(2));
    let mut lost = 0;
    let in_vain = come_up(&mut leader, &mut behind, |count| {
        lost += usize::from(count.is_multiple_of(3));
        count.is_multiple_of(3)
    });
    assert_eq!(behind.host.look().counters().installed, 1);
    // Of whoever has the snapshot: not, after each loss, of all who do not.
    assert!(lost > 4 && in_vain < lost / 2, "{in_vain} of {lost}");
}

#[test]
fn a_snapshot_is_not_installed_before_the_copy_is_durable() {
    let (mut leader, mut behind) = (released(250), Node::new(2));
    leader
        .host
        .link(at(1_000), ReplicaId(2), Some(WireVersion(1)));
    let mut ended = None;
    for ms in 1_000..3_000 {
        carry(&mut leader.host, &mut behind, at(ms));
        behind.host.turn(at(ms));
        for frame in behind.host.take_frames() {
            if frame.to != Peers::One(ReplicaId(3)) {
                leader
                    .host
                    .frame(at(ms), ReplicaId(2), frame.chunks.concat().into());
            }
        }
        for read in leader.host.take_snapshot_reads() {
            let bytes = leader.disk.read_snapshot_at(&read);
            leader.host.completed(
                at(ms),
                Completed::SnapshotRead {
                    token: read.token,
                    bytes: Ok(bytes),
                },
            );
        }
        for write in behind.host.take_snapshot_writes() {
            match write {
                SnapshotWrite::Piece { bytes, .. } => {
                    behind
                        .host
                        .completed(at(ms), Completed::SnapshotPiece(bytes.len() as u64));
                }
                SnapshotWrite::End { slot, .. } => ended = Some(slot),
                SnapshotWrite::Begin { .. } | SnapshotWrite::Abandon { .. } => {}
            }
        }
    }
    let slot = ended.expect("every byte came");
    assert_eq!(
        behind.host.look().applied(),
        Slot(0),
        "its copy is not durable"
    );
    behind.host.completed(
        at(3_000),
        Completed::Snapshot {
            slot,
            result: Ok(()),
        },
    );
    assert_eq!(behind.host.look().applied(), slot);
}

#[test]
fn a_damaged_chunk_ends_the_attempt_and_nothing_is_installed() {
    let (mut leader, mut behind) = (released(250), Node::new(2));
    for file in leader.disk.snapshots.values_mut() {
        file[400] ^= 1;
    }
    let stuck = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        come_up(&mut leader, &mut behind, |_| false);
    }));
    assert!(stuck.is_err() && behind.host.look().applied() == Slot(0));
    let failed = |event: &HostEvent| matches!(event, HostEvent::SnapshotFailed { .. });
    assert!(behind.host.take_events().iter().any(failed));
    assert!(behind.disk.snapshots.is_empty());
}

fn diskless(me: u16, start: Start) -> Node {
    let mut disk = Disk::default();
    let mut config = in_memory(me);
    config.machine = config.seat.clone();
    let (host, _) = Host::open(config, start, &mut disk, Journal::default(), at(0)).unwrap();
    Node {
        host: Driven::new(host),
        disk,
    }
}

#[test]
fn without_disks_a_snapshot_is_taken_when_a_peer_needs_one_and_forgotten_after_it() {
    let mut leader = diskless(1, Start::FirstBoot);
    for ms in 1..200 {
        leader.run(at(ms), vec![write("a line that takes some room")]);
        leader.host.take_frames();
        leader.keep(at(ms));
    }
    assert_eq!(leader.host.look().counters().snapshots, 0);
    let mut behind = diskless(2, Start::Resume);
    come_up(&mut leader, &mut behind, |_| false);
    assert_eq!(
        (
            leader.host.look().counters().snapshots,
            behind.host.look().counters().installed
        ),
        (1, 1)
    );
    let mut wakes = 0;
    while let Some(due_ns) = leader.host.look().next_wake() {
        leader.host.turn(at(due_ns / 1_000_000 + 1));
        leader.host.take_frames();
        wakes += 1;
        assert!(wakes < 1_000, "an idle replica falls silent");
    }
}

#[test]
fn a_snapshot_that_cannot_be_stored_is_given_up() {
    let mut leader = leader(19);
    leader.host.submit(at(20), 0, write("x"));
    leader.host.turn(at(20));
    leader.flush(at(20));
    leader.host.tidy();
    assert!(matches!(
        leader.host.take_snapshot_writes()[0],
        SnapshotWrite::Begin { slot: Slot(20) }
    ));
    leader.host.completed(
        at(20),
        Completed::Snapshot {
            slot: Slot(20),
            result: Err("no space".into()),
        },
    );
    assert!(!leader.host.tidy(), "nothing is left to take");
    let why = "no space".to_owned();
    let failed = HostEvent::SnapshotFailed {
        slot: Slot(20),
        why,
    };
    assert!(leader.host.take_events().contains(&failed));
    leader.fill(20..45);
    assert_eq!(leader.taken().len(), 1, "the next one is");
}
