//! Segments that hold little are emptied, and given up.

use super::*;

/// Lets the store move what it wants until it has nothing more to do.
fn tidy_up(store: &mut BulkStore, disk: &mut Disk) {
    for _ in 0..100 {
        let mut reads = Vec::new();
        store.tidy(&mut reads);
        for read in reads {
            let bytes = disk.perform(&read);
            assert_eq!(store.read_done(read.token, Ok(bytes)), ReadBack::Nothing);
        }
        flush(store, disk, true);
    }
}

#[test]
fn what_is_live_is_moved_out_of_sparse_segments_and_these_are_released() {
    let (mut store, mut disk) = written(40, 900);
    let before = disk.written.len();
    for seq in (0..40).filter(|seq| seq % 8 != 0) {
        store.free(payload(seq, 0));
        store.free(payload(seq, 1));
    }
    let index = names(&store);
    let places: Vec<Fragment> = store.fragments().copied().collect();
    tidy_up(&mut store, &mut disk);
    let is_moved = |(now, was): &(&Fragment, &Fragment)| now.at != was.at;
    let moved = store.fragments().zip(&places).filter(is_moved);
    let moved_bytes: u64 = moved.map(|(now, _)| u64::from(now.len)).sum();
    assert!(moved_bytes > 0);
    assert!(store.moved_bytes_total() >= moved_bytes, "some of it twice");
    assert!(
        before > 4 && disk.written.len() <= 2,
        "{:?}",
        disk.written.keys()
    );
    assert_eq!(names(&store), index);
    for store in [&mut store, &mut disk.clone().open().0] {
        for seq in (0..40).step_by(8) {
            let bytes = read(store, &disk, payload(seq, 0), 2);
            assert_eq!(bytes, Outcome::Bytes(content(payload(seq, 0), 900)));
        }
    }
    assert_eq!(store.live_bytes(), 5 * (900 + 450));
}

/// The heads of tiny fragments take up more room than their bytes: segments full of live ones are not
/// worth moving, though few of their bytes are fragments.
#[test]
fn segments_full_of_tiny_fragments_stay_where_they_are() {
    let (mut store, mut disk) = written(200, 2);
    let before: Vec<Fragment> = store.fragments().copied().collect();
    assert!(disk.written.len() > 2);
    tidy_up(&mut store, &mut disk);
    assert!(store.fragments().eq(&before));
    assert_eq!(store.moved_bytes_total(), 0);
}

#[test]
fn a_segment_is_released_after_a_synced_flush_that_was_taken_when_it_was_dead() {
    let (mut store, mut disk) = written(40, 900);
    let first: Vec<PayloadId> = store
        .fragments()
        .filter(|found| found.at.segment == 1)
        .map(|found| found.payload)
        .collect();
    append(&mut store, 50, 900);
    let writes = store.take_writes(true);
    first.iter().for_each(|id| store.free(*id));
    disk.write(&writes);
    store.flushed();
    assert_eq!(store.take_release(), [], "that flush was taken before");
    append(&mut store, 51, 900);
    store.take_writes(false);
    store.flushed();
    assert_eq!(store.take_release(), [], "that one was not synced");
    append(&mut store, 52, 900);
    store.take_writes(true);
    assert_eq!(store.take_release(), [], "not yet");
    store.flushed();
    assert_eq!(store.take_release(), [1]);
    assert_eq!(store.take_release(), []);
}

#[test]
fn nothing_is_moved_or_released_before_it_is_known_what_is_wanted() {
    let (_, mut disk) = written(40, 900);
    let (mut store, opened) = disk.open();
    for seq in 0..39 {
        store.free(payload(seq, 0));
        store.free(payload(seq, 1));
    }
    let mut reads = Vec::new();
    store.tidy(&mut reads);
    flush(&mut store, &mut disk, true);
    assert_eq!(reads, []);
    assert_eq!(disk.written.len(), opened.segments.len());
    store.retain(|id| id.entry == entry(39));
    flush(&mut store, &mut disk, true);
    assert_eq!(disk.written.len(), 1);
    assert_eq!(names(&store).len(), 2);
}

#[test]
fn a_read_that_was_asked_before_a_move_is_answered_from_the_new_place() {
    let (mut store, mut disk) = written(40, 900);
    let id = payload(0, 0);
    let Lookup::Read(asked) = store.read(id, 2) else {
        panic!("it is on the disk")
    };
    for seq in 0..40 {
        for part in (0..2).filter(|part| (seq, *part) != (0, 0)) {
            store.free(payload(seq, part));
        }
    }
    tidy_up(&mut store, &mut disk);
    assert!(!disk.written.contains_key(&asked.at.segment));
    let stale = Bytes::from_static(b"of whatever took its place");
    let ReadBack::Again(again) = store.read_done(asked.token, Ok(stale)) else {
        panic!("it is elsewhere")
    };
    assert_ne!(again.at, asked.at);
    let bytes = store.read_done(again.token, Ok(disk.perform(&again)));
    assert!(matches!(bytes, ReadBack::Bytes(_, bytes) if bytes == content(id, 900)));
}

#[test]
fn what_cannot_be_moved_is_reported_and_stays_until_it_is_written_again() {
    let (mut store, mut disk) = written(40, 900);
    for seq in 1..40 {
        store.free(payload(seq, 0));
        store.free(payload(seq, 1));
    }
    let mut reads = Vec::new();
    store.tidy(&mut reads);
    assert_eq!(reads.len(), 2);
    let mut damaged = Vec::new();
    for read in reads {
        let failed = || Err("broken".to_owned());
        let mut done = store.read_done(read.token, failed());
        while let ReadBack::Again(read) = done {
            done = store.read_done(read.token, failed());
        }
        let ReadBack::Damaged(found, _) = done else {
            panic!("it failed again and again: {done:?}")
        };
        damaged.push(found.payload);
    }
    damaged.sort_unstable();
    assert_eq!(damaged, [payload(0, 0), payload(0, 1)]);
    tidy_up(&mut store, &mut disk);
    assert_eq!((names(&store).len(), disk.written.len()), (2, 2));
    append(&mut store, 0, 900);
    tidy_up(&mut store, &mut disk);
    assert_eq!((names(&store).len(), disk.written.len()), (2, 1));
}

#[test]
fn only_so_much_is_moved_at_once() {
    let mut store = BulkStore::create(identity(), 4 << 20);
    let mut disk = Disk::default();
    for seq in 0..100 {
        append(&mut store, seq, 40_000);
        flush(&mut store, &mut disk, true);
    }
    for seq in 0..100 {
        store.free(payload(seq, 0));
    }
    for seq in (0..100).step_by(2) {
        store.free(payload(seq, 1));
    }
    let mut reads = Vec::new();
    store.tidy(&mut reads);
    let bytes: u32 = reads.iter().map(|read| read.len).sum();
    assert!((256 << 10..300 << 10).contains(&bytes), "{bytes}");
    let mut more = Vec::new();
    store.tidy(&mut more);
    assert_eq!(more, []);
    for read in reads {
        let bytes = disk.perform(&read);
        store.read_done(read.token, Ok(bytes));
    }
    store.tidy(&mut more);
    assert_eq!(more, [], "what was moved waits for a flush");
    assert!(store.unwritten_bytes() >= 256 << 10, "which is due");
    flush(&mut store, &mut disk, false);
    store.tidy(&mut more);
    assert_ne!(more, []);
}
