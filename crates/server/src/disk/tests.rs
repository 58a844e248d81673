//! What is written, flushed and released, on real files.

use super::*;
use std::path::Path;

fn write(segment: u64, offset: u32, chunks: &[&'static [u8]]) -> Write {
    let chunks = chunks
        .iter()
        .map(|chunk| Bytes::from_static(chunk))
        .collect();
    Write {
        segment,
        segment_bytes: 8192,
        offset,
        chunks,
    }
}

fn open(dir: &Path) -> Disk {
    let folder = |name| dir.join(name);
    std::fs::create_dir_all(folder("log")).unwrap();
    Disk::open(&Folders {
        log: folder("log"),
        fragments: folder("bulk"),
        snapshots: folder("snap"),
    })
    .unwrap()
}

fn flush(writes: Vec<Write>, fragments: Vec<Write>, sync: bool) -> Flush {
    Flush {
        writes,
        fragments,
        sync,
        through: Position::default(),
    }
}

fn read(store: Store, segment: u64, offset: u32, len: u32) -> LogRead {
    LogRead {
        token: 0,
        store,
        at: Position { segment, offset },
        len,
    }
}

#[test]
fn what_was_flushed_is_read_back_by_range_and_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = open(dir.path());
    let first = write(1, 0, &[b"head", b"", b"er"]);
    disk.flush(&flush(vec![first], Vec::new(), true)).unwrap();
    assert!(!dir.path().join("bulk").exists(), "nothing is in it");
    let fragments = vec![write(1, 0, &[b"bulky"])];
    let more = vec![write(1, 6, &[b"more"])];
    disk.flush(&flush(more, fragments, false)).unwrap();
    let next = vec![write(2, 0, &[b"next"]), write(1, 10, &[])];
    disk.flush(&flush(next, vec![write(1, 5, &[])], true))
        .unwrap();
    assert_eq!(disk.read(&read(Store::Log, 1, 2, 6)).unwrap(), "adermo");
    assert_eq!(disk.read(&read(Store::Fragments, 1, 1, 4)).unwrap(), "ulky");
    assert!(disk.log.unsynced().unwrap().is_empty());
    assert!(disk.fragments.unsynced().unwrap().is_empty());
    drop(disk);

    let mut disk = open(dir.path());
    assert_eq!(disk.list().unwrap(), [1, 2]);
    assert_eq!(disk.fragment_segments().unwrap(), [(1, 8192)]);
    assert_eq!((disk.bytes(), disk.fragment_bytes()), (2 * 8192, 8192));
    let content = LogSource::read(&mut disk, 1).unwrap();
    assert_eq!(content.len(), 8192);
    assert!(content.starts_with(b"headermore\0"));
    assert!(
        LogSource::read(&mut disk, 2)
            .unwrap()
            .starts_with(b"next\0")
    );
    let at = Position::default();
    let at = Position { segment: 1, ..at };
    assert_eq!(disk.read_fragments(at, 6).unwrap(), "bulky\0");
    disk.clear().unwrap();
    assert_eq!(open(dir.path()).fragment_segments().unwrap(), []);
}

#[test]
fn a_released_segment_is_written_over_and_nothing_of_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = open(dir.path());
    let before = |segments_before| Release {
        segments_before,
        snapshots_before: Slot(0),
    };
    for segment in 1..3 {
        let (log, fragments) = (write(segment, 0, &[b"log"]), write(segment, 0, &[b"bulk"]));
        disk.flush(&flush(vec![log], vec![fragments], true))
            .unwrap();
    }
    assert!(disk.release(before(1)).is_empty());
    let released = disk.release(before(2));
    assert_eq!(released.segments, [disk.log.path(1)]);
    assert_eq!((disk.segments(), disk.bytes()), (1, 8192));
    let freed = disk.release_fragments(&[2, 7]);
    assert_eq!(freed.segments, [disk.fragments.path(2)]);
    released.free();
    freed.free();
    assert_eq!(disk.list().unwrap(), [2]);
    assert_eq!(disk.fragment_segments().unwrap(), [(1, 8192)]);

    for segments in [&mut disk.log, &mut disk.fragments] {
        segments.begin_segment(3, 8192).unwrap();
        let content = segments.read(3).unwrap();
        assert!(content.iter().all(|byte| *byte == 0), "its header is gone");
    }
    assert_eq!(disk.list().unwrap(), [2, 3]);
}

/// Bytes of zeros written to new segments, while so many bytes at a time fill five segments.
fn zeros_where_writes_have(bytes: usize) -> u64 {
    const SEGMENT_BYTES: usize = 256 << 10;
    let dir = tempfile::tempdir().unwrap();
    let mut disk = open(dir.path());
    for segment in 1..=5 {
        for offset in (0..SEGMENT_BYTES).step_by(bytes) {
            let write = Write {
                segment_bytes: SEGMENT_BYTES as u32,
                chunks: vec![Bytes::from(vec![7; bytes])],
                ..write(segment, offset as u32, &[])
            };
            disk.flush(&flush(vec![write], Vec::new(), true)).unwrap();
        }
        while disk.is_preparing() {
            std::thread::yield_now();
        }
    }
    let [log, _] = disk.turnover();
    log.read().0
}

#[test]
fn where_writes_are_long_blocks_are_not_written_twice() {
    let long = zeros_where_writes_have(64 << 10);
    assert!(long <= 512 << 10, "the first two at most: {long}");
    assert!(zeros_where_writes_have(32 << 10) > long);
}

#[test]
fn a_read_beyond_a_segment_is_an_error_and_allocates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = open(dir.path());
    let (log, fragments) = (write(1, 0, &[b"x"]), write(1, 0, &[b"x"]));
    disk.flush(&flush(vec![log], vec![fragments], true))
        .unwrap();
    for store in [Store::Log, Store::Fragments] {
        let error = disk
            .read(&read(store, 1, 8000, u32::MAX))
            .unwrap_err()
            .what();
        assert!(error.contains("has only 8192 bytes"), "{error}");
        assert!(disk.read(&read(store, 9, 0, 1)).is_err());
    }
}

#[test]
fn a_failed_sync_of_either_store_is_told_and_nothing_is_left_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let good = || {
        let path = dir.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        vec![(path, std::sync::Arc::new(file))]
    };
    let bad = || {
        // What cannot be synced.
        let path = std::path::PathBuf::from("/dev/null");
        let file = std::fs::File::create(&path).unwrap();
        vec![(path, std::sync::Arc::new(file))]
    };
    let mut syncer = Syncer::default();
    for _ in 0..2 {
        syncer.sync(good(), good()).unwrap();
        for (log, fragments) in [(bad(), good()), (good(), bad())] {
            let error = syncer.sync(log, fragments).unwrap_err();
            assert!(error.to_string().contains("/dev/null"), "{error}");
            assert!(!error.is_want_of_space());
        }
    }
}

/// Scenario: a file that is to be synced cannot be opened for the moment. The same flush is tried again, and then what
/// flushes before it left is synced, too.
#[test]
fn what_waits_for_a_sync_is_not_forgotten_by_an_attempt_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = open(dir.path());
    // More segments than files are kept open, none of them synced.
    for segment in 1..=20 {
        let unsynced = flush(vec![write(segment, 0, &[b"x"])], Vec::new(), false);
        disk.flush(&unsynced).unwrap();
    }
    let (path, away) = (
        segment_path(&dir.path().join("log"), 1),
        dir.path().join("away"),
    );
    std::fs::rename(&path, &away).unwrap();
    let last = flush(vec![write(20, 1, &[b"y"])], Vec::new(), true);
    assert!(disk.flush(&last).is_err());
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(disk.log.unsynced().unwrap().len(), 20);
    disk.flush(&last).unwrap();
    assert!(disk.log.unsynced().unwrap().is_empty());
}
