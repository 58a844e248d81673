//! Damage to a replica's own disk: noticed wherever it is, and made good with what a peer has.

use super::disk::Disk;
use super::driven::Driven;
use super::sequencer::{Journal, Sequencer, config};
use super::snapshots::{come_up, leader};
use super::{Node, at};
use quorate_core::{ReplicaId, Slot};
use quorate_host::{Completed, Flaw, Host, HostEvent, Opened, Start};

/// A follower that has applied what the leader has, and may have a snapshot of it.
fn follower(leader: &mut Node) -> Node {
    let mut follower = Node::new(2);
    come_up(leader, &mut follower, |_| false);
    follower.write_all();
    // A start syncs what it found, and a mark says so.
    let (mut follower, _) = reopen(&follower.disk);
    follower.write_all();
    follower
}

fn reopen(disk: &Disk) -> (Node, Opened) {
    let mut disk = disk.clone();
    let start = Start::Resume;
    let app = Journal::default();
    let (host, opened) =
        Host::<Sequencer, Journal>::open(config(2), start, &mut disk, app, at(0)).unwrap();
    let host = Driven::new(host);
    let mut node = Node { host, disk };
    node.flush(at(0));
    (node, opened)
}

/// Each byte of the log up to what a mark says is durable: noticed, and with the peer's copy the
/// state is that of before; the next start then finds nothing missing.
#[test]
fn damage_to_any_byte_of_the_log_is_noticed_and_repaired() {
    let mut leader = leader(19);
    let follower = follower(&mut leader);
    let digest = leader.host.look().digest();
    let (_, whole) = reopen(&follower.disk);
    assert_eq!((whole.next, whole.damage.len()), (Slot(19), 0));
    let (mut fetched, mut lost) = (0, 0);
    for at in 0..whole.marked.offset as usize {
        let mut disk = follower.disk.clone();
        disk.files.get_mut(&1).unwrap()[at] ^= 1 << (at % 8);
        let (mut node, opened) = reopen(&disk);
        assert_eq!(opened.damage.len(), 1, "byte {at}: {opened:?}");
        lost += u32::from(opened.lost_promises);
        fetched += opened.missing.len();
        assert_eq!(
            node.host.look().machine().is_none(),
            !opened.missing.is_empty() && !opened.lost_promises
        );
        come_up(&mut leader, &mut node, |_| false);
        assert_eq!(node.host.look().digest(), digest, "byte {at}");
        assert!(
            node.host.look().machine().is_some(),
            "byte {at}: it takes part again"
        );
        node.write_all();
        let (again, opened) = reopen(&node.disk);
        assert_eq!(
            (again.host.look().digest(), opened.missing.len()),
            (digest, 0),
            "byte {at}"
        );
    }
    assert!(fetched > 500 && lost > 100, "{fetched} {lost}");
}

/// The disk of a follower with two snapshots and the log from the older one on.
fn with_snapshots(leader: &mut Node) -> Disk {
    // One that has come up at once has taken one snapshot.
    let mut follower = follower(&mut super::snapshots::leader(25));
    come_up(leader, &mut follower, |_| false);
    follower.write_all();
    if let Some(release) = follower.host.take_release() {
        follower.disk.release(release);
    }
    assert_eq!(follower.disk.snapshots.len(), 2);
    follower.disk
}

/// Each byte of a snapshot, with the log before it released: noticed; and the state is that of
/// before, with what `leader` has.
fn damage_each_byte(leader: &mut Node, whole: &Disk, snapshot: Slot) {
    let digest = leader.host.look().digest();
    for at in 0..whole.snapshots[&snapshot].len() {
        let mut disk = whole.clone();
        disk.snapshots.get_mut(&snapshot).unwrap()[at] ^= 1 << (at % 8);
        let (mut node, opened) = reopen(&disk);
        assert_eq!(opened.bad_snapshots.len(), 1, "byte {at}");
        assert_eq!(opened.bad_snapshots[0].0, snapshot);
        assert!(!opened.lost_promises, "byte {at}: the log has them");
        come_up(leader, &mut node, |_| false);
        assert_eq!(node.host.look().digest(), digest, "byte {at}");
    }
}

#[test]
fn damage_to_any_byte_of_the_only_snapshot_is_noticed_and_repaired() {
    let mut leader = leader(45);
    let mut disk = with_snapshots(&mut leader);
    let newest = *disk.snapshots.keys().last().unwrap();
    disk.snapshots.retain(|slot, _| *slot == newest);
    damage_each_byte(&mut leader, &disk, newest);
}

/// The older one is not loaded, and still read: it may be needed one day.
#[test]
fn damage_to_any_byte_of_one_of_two_snapshots_is_noticed_and_costs_nothing() {
    let mut leader = leader(45);
    let disk = with_snapshots(&mut leader);
    for snapshot in disk.snapshots.keys() {
        damage_each_byte(&mut leader, &disk, *snapshot);
    }
}

/// An entry that cannot be read for a peer is fetched from another and can be read afterwards.
#[test]
fn an_entry_that_rots_while_the_replica_runs_is_appended_again() {
    let mut leader = leader(19);
    let mut disk = follower(&mut leader).disk;
    let mut config = config(2);
    config.limits.recent_bytes_max = 50;
    let app = Journal::default();
    let opened = Host::open(config, Start::Resume, &mut disk, app, at(0));
    let host = Driven::new(opened.unwrap().0);
    let mut follower = Node { host, disk };
    follower.flush(at(0));
    follower.host.take_events();
    let fetch = super::sequencer::fetch_frame(Slot(0));
    follower.host.frame(at(6_000), ReplicaId(3), fetch.clone());
    let read = follower.host.take_reads()[0];
    let bytes = Err("the disk failed".to_owned());
    let token = read.token;
    follower
        .host
        .completed(at(6_000), Completed::Read { token, bytes });
    let events = follower.host.take_events();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, HostEvent::Damaged { .. })),
        "{events:?}"
    );
    for ms in 6_000..8_000 {
        follower.host.turn(at(ms));
        for frame in follower.host.take_frames() {
            let bytes = frame.chunks.concat().into();
            leader.host.frame(at(ms), ReplicaId(2), bytes);
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
        for frame in leader.host.take_frames() {
            let bytes = frame.chunks.concat().into();
            follower.host.frame(at(ms), ReplicaId(1), bytes);
        }
    }
    let events = follower.host.take_events();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, HostEvent::Mended { .. })),
        "{events:?}"
    );
    follower.write_all();
    follower.host.frame(at(9_000), ReplicaId(3), fetch);
    let again = follower.host.take_reads()[0];
    assert!(again.at > read.at, "{again:?}");
    let bytes = follower.disk.read_at(again.at, again.len);
    follower.host.completed(
        at(9_000),
        Completed::Read {
            token: again.token,
            bytes: Ok(bytes),
        },
    );
    assert_eq!(follower.host.take_events(), []);
}

/// The last record that a mark vouches for is gone. It may have been a promise: the replica must
/// recover before it votes. One that takes the log for torn starts as if it had promised nothing.
#[test]
fn a_replica_that_lost_records_must_not_vote_as_if_it_had_them() {
    let mut leader = leader(19);
    let mut disk = follower(&mut leader).disk;
    let (_, whole) = reopen(&disk);
    let last = whole.marked.offset as usize - 20;
    disk.files.get_mut(&1).unwrap()[last] ^= 1;
    let mut open = |flaw| {
        let mut config = config(2);
        config.limits.flaw = flaw;
        let app = Journal::default();
        let opened = Host::<Sequencer, Journal>::open(config, Start::Resume, &mut disk, app, at(0));
        opened.unwrap().1
    };
    let opened = open(None);
    assert_eq!(opened.damage.len(), 1);
    assert!(opened.lost_promises, "{opened:?}");
    assert!(!open(Some(Flaw::DamageTakenForTorn)).lost_promises);
}
