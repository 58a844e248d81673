//! Segments that hold little are emptied, and given up.

use super::*;
use fastrand::Rng;

/// More segments than are young.
const MANY: u64 = 80;

/// Lets the store move what it wants until it has nothing more to do.
fn tidy_up(store: &mut FragmentStore, disk: &mut Disk) {
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
    let (mut store, mut disk) = written(MANY, 900);
    let before = disk.written.len();
    for seq in (0..MANY).filter(|seq| seq % 8 != 0) {
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
        before > 10 && disk.written.len() <= 5,
        "{:?}",
        disk.written.keys()
    );
    assert_eq!(names(&store), index);
    for store in [&mut store, &mut disk.clone().open().0] {
        for seq in (0..MANY).step_by(8) {
            let bytes = read(store, &disk, payload(seq, 0), 2);
            assert_eq!(bytes, Outcome::Bytes(content(payload(seq, 0), 900)));
        }
    }
    assert_eq!(store.live_bytes(), MANY / 8 * (900 + 450));
}

/// The heads of tiny fragments take up more room than their bytes: segments full of live ones are not
/// worth moving, though few of their bytes are fragments.
#[test]
fn segments_full_of_tiny_fragments_stay_where_they_are() {
    let (mut store, mut disk) = written(600, 2);
    let before: Vec<Fragment> = store.fragments().copied().collect();
    assert!(disk.written.len() > 6);
    tidy_up(&mut store, &mut disk);
    assert!(store.fragments().eq(&before));
    assert_eq!(store.moved_bytes_total(), 0);
}

#[test]
fn what_is_young_is_not_moved_and_what_stays_in_it_is_later() {
    let (mut store, mut disk) = written(8, 900);
    let begun = |store: &FragmentStore| store.fragments().map(|found| found.at.segment).max();
    let first = |found: &&Fragment| found.at.segment == 1;
    let stays: Vec<PayloadId> = store.fragments().filter(first).map(|f| f.payload).collect();
    let stays = stays[0];
    for seq in 0..8 {
        let both = [payload(seq, 0), payload(seq, 1)];
        let dead = both.into_iter().filter(|id| *id != stays);
        dead.for_each(|id| store.free(id));
    }
    let mut seq = 100;
    while begun(&store) < Some(5) {
        assert_eq!(store.moved_bytes_total(), 0, "at {:?}", begun(&store));
        append(&mut store, seq, 900);
        flush(&mut store, &mut disk, true);
        let mut reads = Vec::new();
        store.tidy(&mut reads);
        assert_eq!(reads.len(), usize::from(begun(&store) == Some(5)));
        for read in reads {
            let bytes = disk.perform(&read);
            store.read_done(read.token, Ok(bytes));
        }
        seq += 1;
    }
    assert_eq!(store.moved_bytes_total(), 900);
    flush(&mut store, &mut disk, true);
    flush(&mut store, &mut disk, true);
    assert!(!disk.written.contains_key(&1));
}

/// Each life begins a segment of its own. Those that end soon must not add up to a full disk.
#[test]
fn what_short_lives_left_is_moved_together() {
    let mut disk = Disk::default();
    let mut all = Vec::new();
    for life in 1..10 {
        let (mut store, _) = disk.open();
        store.retain(|_| true);
        assert_eq!(names(&store), all);
        append(&mut store, life, 90);
        tidy_up(&mut store, &mut disk);
        assert_eq!(disk.written.keys().copied().collect::<Vec<u64>>(), [life]);
        all = names(&store);
        assert_eq!(all.len() as u64, 2 * life);
    }
}

/// Keys that are put again in any order, together half as long as a segment.
#[test]
fn what_is_put_again_and_again_is_hardly_moved() {
    let mut store = FragmentStore::create(identity(), SEGMENT_BYTES);
    let mut disk = Disk::default();
    let mut rng = Rng::with_seed(1);
    let mut keys = [None; 8];
    let mut segments_max = 0;
    for seq in 0..4000 {
        append(&mut store, seq, 400);
        let former = keys[rng.usize(..keys.len())].replace(seq);
        if let Some(former) = former {
            store.free(payload(former, 0));
            store.free(payload(former, 1));
        }
        let mut reads = Vec::new();
        store.tidy(&mut reads);
        for read in reads {
            let bytes = disk.perform(&read);
            store.read_done(read.token, Ok(bytes));
        }
        flush(&mut store, &mut disk, true);
        segments_max = segments_max.max(disk.written.len());
    }
    let (moved, written) = (store.moved_bytes_total(), store.bytes_total());
    assert!(moved * 100 < written, "{moved} of {written}");
    assert!(segments_max <= 6, "{segments_max}");
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
    let mut store = FragmentStore::create(identity(), 4 << 20);
    let mut disk = Disk::default();
    for seq in 0..400 {
        append(&mut store, seq, 40_000);
        flush(&mut store, &mut disk, true);
    }
    for seq in 0..400 {
        store.free(payload(seq, 0));
    }
    for seq in (0..400).step_by(2) {
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
