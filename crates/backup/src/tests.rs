//! Backups of made-up histories, and what damage does to them.

use crate::files::begin;
use crate::folder::Folder;
use crate::restore::Moment;
use crate::segment::Change;
use crate::verify::Range;
use bytes::Bytes;
use fastrand::Rng;
use quorate_etcd_api::mvccpb::{Event, EventType, KeyValue};
use quorate_etcd_snapshot::{
    DIGEST_BYTES, FileError, FileSource, KeyRecord, LeaseRecord, Revision, Sha256, StateReader,
    StateRest, StateWriter,
};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

/// The number of the cluster.
const CLUSTER: u64 = 0xc0ffee;

/// A history: what every revision from 2 on changed.
fn history(seed: u64, revisions: i64) -> Vec<Change> {
    let mut rng = Rng::with_seed(seed);
    let mut alive: BTreeMap<u8, KeyValue> = BTreeMap::new();
    let changes = (2..=revisions).map(|revision| {
        let mut events = Vec::new();
        let mut leases = Vec::new();
        for key in 0..rng.u8(1..4) {
            let key = key * 10 + rng.u8(0..5);
            let name = Bytes::from(vec![b'k', key]);
            if rng.u8(0..4) == 0 && alive.remove(&key).is_some() {
                let kv = KeyValue {
                    key: name,
                    mod_revision: revision,
                    ..KeyValue::default()
                };
                events.push(event(EventType::Delete, kv));
                continue;
            }
            let lease = if rng.u8(0..8) == 0 { revision } else { 0 };
            leases.extend((lease != 0).then_some(LeaseRecord {
                id: lease,
                ttl_s: 60,
                remaining_ttl_s: 0,
            }));
            let before = alive.get(&key);
            let kv = KeyValue {
                key: name,
                create_revision: before.map_or(revision, |kv| kv.create_revision),
                mod_revision: revision,
                version: before.map_or(1, |kv| kv.version + 1),
                value: Bytes::from(vec![rng.u8(..); rng.usize(0..200)]),
                lease,
            };
            alive.insert(key, kv.clone());
            events.push(event(EventType::Put, kv));
        }
        Change {
            time_ms: time_of(revision),
            revision,
            events,
            leases,
        }
    });
    changes.collect()
}

fn event(kind: EventType, kv: KeyValue) -> Event {
    Event {
        r#type: kind as i32,
        kv: Some(kv),
        prev_kv: None,
    }
}

/// Each revision comes in a second after the one before.
fn time_of(revision: i64) -> u64 {
    revision.unsigned_abs() * 1000
}

/// The records of a history up to a revision, as a snapshot has them.
fn records(history: &[Change], up_to: i64) -> Vec<KeyRecord> {
    let changes = history.iter().filter(|change| change.revision <= up_to);
    let records = changes.flat_map(|change| {
        (0..).zip(&change.events).map(|(sub, event)| {
            let is_deletion = event.r#type == EventType::Delete as i32;
            let kv = event.kv.clone().unwrap();
            let only_key = KeyValue {
                key: kv.key.clone(),
                ..KeyValue::default()
            };
            KeyRecord {
                revision: Revision {
                    main: change.revision,
                    sub,
                },
                is_deletion,
                kv: if is_deletion { only_key } else { kv },
            }
        })
    });
    records.collect()
}

/// A full snapshot of a history up to a revision, with the leases that were granted until then.
fn snapshot(history: &[Change], up_to: i64) -> Vec<u8> {
    let mut out = StateWriter::new(Cursor::new(Vec::new())).unwrap();
    for record in records(history, up_to) {
        out.key(record.revision, record.is_deletion, &record.kv)
            .unwrap();
    }
    let before = history.iter().filter(|change| change.revision <= up_to);
    let leases = before.flat_map(|change| change.leases.clone()).collect();
    let rest = StateRest {
        consistent_index: up_to.unsigned_abs(),
        term: 1,
        leases,
        ..StateRest::default()
    };
    let (out, _) = out.finish(&rest).unwrap();
    let mut bytes = out.into_inner();
    let mut digest = Sha256::default();
    digest.update(&bytes);
    bytes.extend_from_slice(&digest.finish());
    bytes
}

struct Backup {
    dir: tempfile::TempDir,
    history: Vec<Change>,
}

impl Backup {
    /// Of a history, with full snapshots of these revisions.
    fn new(seed: u64, revisions: i64, fulls: &[i64]) -> Backup {
        let backup = Backup {
            dir: tempfile::tempdir().unwrap(),
            history: history(seed, revisions),
        };
        let folder = Folder::begin(&backup.path(), CLUSTER).unwrap();
        for revision in fulls {
            backup.add_full(&folder, *revision);
        }
        backup
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("backup")
    }

    fn add_full(&self, folder: &Folder, revision: i64) {
        let mut file = folder.begin_full().unwrap();
        file.write_all(&snapshot(&self.history, revision)).unwrap();
        let full = folder.add_full(&file, time_of(revision)).unwrap();
        assert_eq!(full.revision, revision);
    }

    /// Adds a segment with the changes of these revisions.
    fn add_changes(&self, first: i64, last: i64) -> PathBuf {
        let folder = Folder::begin(&self.path(), CLUSTER).unwrap();
        let mut segment = folder.begin_segment(first).unwrap();
        for change in &self.history[(first - 2) as usize..=(last - 2) as usize] {
            segment.append(change).unwrap();
        }
        segment.sync().unwrap();
        self.path().join(format!("changes-{first:020}.log"))
    }

    fn open(&self) -> Folder {
        Folder::open(&self.path()).unwrap()
    }

    /// Restores a moment, and checks that it is the history up to a revision.
    fn check(&self, moment: Moment, revision: i64) {
        let out = self.dir.path().join(format!("{}.db", fastrand::u64(..)));
        let restored = self.open().restore(moment, &out).unwrap();
        assert_eq!(
            (restored.revision, restored.time_ms),
            (revision, time_of(revision))
        );
        let reader =
            StateReader::open_snapshot(FileSource::new(File::open(&out).unwrap()).unwrap())
                .unwrap();
        let mut found = Vec::new();
        reader
            .each_key(|record| {
                found.push(record);
                Ok::<_, FileError>(())
            })
            .unwrap();
        assert_eq!(found, records(&self.history, revision));
        let leases: Vec<i64> = reader
            .leases()
            .unwrap()
            .iter()
            .map(|lease| lease.id)
            .collect();
        let granted = self
            .history
            .iter()
            .filter(|change| change.revision <= revision);
        let mut granted: Vec<i64> = granted
            .flat_map(|change| &change.leases)
            .map(|lease| lease.id)
            .collect();
        granted.dedup();
        assert_eq!(leases, granted);
    }

    fn refused(&self, moment: Moment) -> String {
        let out = self.dir.path().join("refused.db");
        let why = self.open().restore(moment, &out).unwrap_err().to_string();
        let left = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left
            .filter(|name| name.to_string_lossy().contains("refused"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        why
    }
}

fn range(first: i64, last: i64) -> Range {
    Range { first, last }
}

#[test]
fn every_revision_since_the_first_full_snapshot_is_restored() {
    let backup = Backup::new(1, 60, &[10, 35]);
    backup.add_changes(11, 30);
    backup.add_changes(31, 50);
    backup.add_changes(51, 60);
    for revision in (10..=60).step_by(5) {
        backup.check(Moment::Revision(revision), revision);
        backup.check(Moment::Time(time_of(revision) + 500), revision);
    }
    backup.check(Moment::Last, 60);
    let verified = backup.open().verify().unwrap();
    assert_eq!((verified.fulls, verified.changes), (2, 50));
    assert_eq!(verified.ranges, [range(10, 60)]);
    assert!(verified.damaged.is_empty() && verified.torn.is_empty());
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let backup = Backup::new(2, 60, &[10, 40]);
    backup.add_changes(11, 20);
    backup.add_changes(41, 50);
    assert!(
        backup
            .refused(Moment::Revision(9))
            .contains("begins with revision 10 only")
    );
    let gap = backup.refused(Moment::Revision(25));
    assert!(
        gap.contains("full snapshot of revision 10 they end with 20"),
        "{gap}"
    );
    let late = backup.refused(Moment::Revision(51));
    assert!(late.contains("they end with 50"), "{late}");
    assert_eq!(
        backup.open().verify().unwrap().ranges,
        [range(10, 20), range(40, 50)]
    );
    // By time it is what had come in by then.
    backup.check(Moment::Time(time_of(30)), 20);
    backup.check(Moment::Time(time_of(40)), 40);
    let empty = Folder::open(backup.dir.path()).unwrap_err().to_string();
    assert!(empty.contains("there is no backup"), "{empty}");
}

#[test]
fn wherever_a_segment_is_cut_what_is_whole_is_restored_and_goes_on() {
    let backup = Backup::new(3, 12, &[4]);
    let path = backup.add_changes(5, 12);
    let whole = fs::read(&path).unwrap();
    let ends = |length: usize| {
        fs::write(&path, &whole[..length]).unwrap();
        backup.open().next().unwrap().unwrap()
    };
    let mut last = 5;
    for length in 0..=whole.len() {
        let next = ends(length);
        assert!(next == last || next == last + 1, "{length}: {last} {next}");
        last = next;
        let verified = backup.open().verify().unwrap();
        assert_eq!(verified.damaged, Vec::<String>::new());
        assert_eq!(verified.ranges, [range(4, next - 1)]);
        // A file system may have given the file its length, and not its bytes.
        let mut zeros = whole[..length].to_vec();
        zeros.resize(whole.len() + 100, 0);
        fs::write(&path, zeros).unwrap();
        if length >= 20 && whole[length..].iter().any(|byte| *byte != 0) {
            assert_eq!(backup.open().next().unwrap(), Some(next), "{length}");
        }
    }
    assert_eq!(last, 13);
    // It goes on behind a cut, and an empty segment makes room for the next one.
    let cut = ends(whole.len() - 1);
    assert_eq!(cut, 12);
    drop(
        Folder::begin(&backup.path(), CLUSTER)
            .unwrap()
            .begin_segment(12)
            .unwrap(),
    );
    backup.add_changes(12, 12);
    backup.check(Moment::Revision(12), 12);
    assert_eq!(backup.open().verify().unwrap().torn, [path]);
}

#[test]
fn damage_is_found_wherever_it_is() {
    let backup = Backup::new(4, 30, &[10]);
    let segment = backup.add_changes(11, 30);
    let full = backup.open().fulls().unwrap()[0].path.clone();
    let mut rng = Rng::with_seed(5);
    let mut hurt = |path: &Path, bytes: std::ops::Range<usize>| {
        let whole = fs::read(path).unwrap();
        let mut bad = whole.clone();
        bad[rng.usize(bytes)] ^= 1 << rng.u8(0..8);
        fs::write(path, bad).unwrap();
        let verified = backup.open().verify().unwrap();
        let why = verified.damaged.join("\n");
        fs::write(path, whole).unwrap();
        (why, verified.torn)
    };
    let (segment_bytes, full_bytes) = (
        fs::read(&segment).unwrap().len(),
        fs::read(&full).unwrap().len(),
    );
    let mut torn_seen = 0;
    for _ in 0..200 {
        let (why, torn) = hurt(&segment, 0..segment_bytes);
        // What is wrong in the last record may be what a crash left of it.
        let is_last = why.is_empty() && torn == [segment.clone()];
        assert!(why.contains("changes-") || is_last, "{why:?} {torn:?}");
        torn_seen += usize::from(is_last);
        let (why, _) = hurt(&full, 0..full_bytes - DIGEST_BYTES);
        assert!(why.contains("its digest does not match"), "{why}");
    }
    assert!(torn_seen < 40, "{torn_seen} of 200");
    let (why, _) = hurt(&segment, 0..20);
    assert!(why.contains("does not begin as a segment"), "{why}");
    backup.check(Moment::Last, 30);
}

#[test]
fn old_full_snapshots_go_with_what_only_they_needed() {
    let backup = Backup::new(6, 60, &[10, 30, 50]);
    backup.add_changes(11, 20);
    backup.add_changes(21, 35);
    backup.add_changes(36, 60);
    let folder = Folder::begin(&backup.path(), CLUSTER).unwrap();
    assert_eq!(folder.keep(3).unwrap(), 0);
    // The second segment has changes after the revision 30.
    assert_eq!(folder.keep(2).unwrap(), 2);
    backup.check(Moment::Revision(31), 31);
    assert!(
        backup
            .refused(Moment::Revision(29))
            .contains("begins with revision 30")
    );
    assert_eq!(folder.keep(1).unwrap(), 2);
    backup.check(Moment::Revision(60), 60);
    assert_eq!(backup.open().verify().unwrap().ranges, [range(50, 60)]);
}

#[test]
fn a_folder_is_of_one_cluster_and_of_one_writer() {
    let backup = Backup::new(7, 5, &[3]);
    let why = |result: Result<Folder, crate::BackupError>| result.unwrap_err().to_string();
    let other = why(Folder::begin(&backup.path(), 1));
    assert!(
        other.contains("of the cluster c0ffee, and this cluster is 1"),
        "{other}"
    );
    let held = Folder::begin(&backup.path(), CLUSTER).unwrap();
    let second = why(Folder::begin(&backup.path(), CLUSTER));
    assert!(
        second.contains("another quorate backup writes there"),
        "{second}"
    );
    assert_eq!(backup.open().next().unwrap(), Some(4));
    drop(held);
    fs::write(
        backup.path().join("about.json"),
        r#"{"format":9,"cluster":"c0ffee"}"#,
    )
    .unwrap();
    let newer = why(Folder::open(&backup.path()));
    assert!(newer.contains("a newer program wrote it"), "{newer}");
    let strange = backup.dir.path().join("strange");
    fs::create_dir(&strange).unwrap();
    begin(&strange.join("notes")).unwrap();
    assert!(why(Folder::begin(&strange, 1)).contains("the folder is not empty"));
}

#[test]
fn changes_are_in_order_and_a_damaged_full_snapshot_is_none() {
    let backup = Backup::new(8, 9, &[3]);
    let folder = Folder::begin(&backup.path(), CLUSTER).unwrap();
    let mut segment = folder.begin_segment(4).unwrap();
    assert!(
        backup.open().verify().unwrap().torn.is_empty(),
        "it is just begun"
    );
    let early = segment.append(&backup.history[4]).unwrap_err().to_string();
    assert!(
        early.contains("revision 4 comes next, and the cluster told of 6"),
        "{early}"
    );
    let mut bytes = snapshot(&backup.history, 9);
    bytes[5000] ^= 1;
    let mut file = folder.begin_full().unwrap();
    file.write_all(&bytes).unwrap();
    assert!(folder.add_full(&file, 0).is_err());
    assert_eq!(folder.fulls().unwrap().len(), 1);
}
