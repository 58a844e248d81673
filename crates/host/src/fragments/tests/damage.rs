//! Bytes that are not what was written.

use super::*;

/// The fragments of an index that can be read, and those that cannot.
fn served(store: &mut FragmentStore, disk: &Disk) -> (Vec<PayloadId>, Vec<PayloadId>) {
    let all: Vec<Fragment> = store.fragments().copied().collect();
    let mut parted = (Vec::new(), Vec::new());
    for found in all {
        match read(store, disk, found.payload, found.code) {
            Outcome::Bytes(bytes) => {
                assert_eq!(bytes, content(found.payload, found.len as usize));
                parted.0.push(found.payload);
            }
            Outcome::Damaged => parted.1.push(found.payload),
            Outcome::None => panic!("{found:?} is in the index"),
        }
    }
    parted
}

/// The last write of a store is torn at every byte: what was durable before is there, and the rest
/// is either whole or not there.
#[test]
fn a_write_torn_at_any_byte_costs_only_itself() {
    let (mut store, mut disk) = written(3, 300);
    append(&mut store, 3, 300);
    append(&mut store, 4, 300);
    let writes = store.take_writes(true);
    let [write] = &writes[..] else {
        panic!("one write: {writes:?}")
    };
    let bytes = write.chunks.concat();
    let mut counts = Vec::new();
    for cut in 0..=bytes.len() {
        let mut disk = disk.clone();
        let torn = Write {
            chunks: vec![Bytes::copy_from_slice(&bytes[..cut])],
            ..write.clone()
        };
        disk.write(&[torn]);
        let (mut store, opened) = disk.open();
        assert_eq!(opened.damage, [], "cut at {cut}");
        let (whole, bad) = served(&mut store, &disk);
        assert_eq!(bad, [], "cut at {cut}: nothing incomplete is listed");
        assert!(whole.len() >= 6, "cut at {cut}");
        counts.push(whole.len());
        store.retain(|_| true);
        append(&mut store, 5, 300);
        flush(&mut store, &mut disk, true);
        let (mut store, _) = disk.open();
        assert_eq!(served(&mut store, &disk).0.len(), whole.len() + 2);
    }
    assert!(counts.is_sorted());
    counts.dedup();
    assert_eq!(counts, [6, 7, 8, 9, 10]);
    disk.write(&writes);
    assert_eq!(disk.open().1.fragments, 10);
}

/// Flips every byte of the store's segments, one after the other.
fn with_each_byte_flipped(disk: &Disk, mut judge: impl FnMut(Position, &mut Disk)) {
    for (segment, file) in &disk.written {
        for offset in 0..file.len() {
            let mut disk = disk.clone();
            let file = disk.written.get_mut(segment).unwrap();
            file[offset] ^= 0x10;
            let offset = offset as u32;
            let segment = *segment;
            judge(Position { segment, offset }, &mut disk);
        }
    }
}

/// The place of each fragment's bytes, and of the records' heads.
fn is_in(found: &Fragment, at: Position) -> bool {
    let range = found.at.offset..found.at.offset + found.len;
    found.at.segment == at.segment && range.contains(&at.offset)
}

#[test]
fn rot_in_any_byte_of_an_open_segment_costs_what_it_hits_and_is_reported() {
    let (mut store, mut disk) = written(4, 200);
    append(&mut store, 4, 40);
    flush(&mut store, &mut disk, true);
    let all: Vec<Fragment> = store.fragments().copied().collect();
    let durable = all.iter().find(|found| found.payload == payload(4, 0));
    let durable = durable.unwrap().at.offset - 100;
    let mut lost_to_heads = 0;
    with_each_byte_flipped(&disk, |at, disk| {
        let (mut store, opened) = disk.open();
        let (whole, bad) = served(&mut store, disk);
        assert_eq!(bad, [], "{at:?}: everything was looked at");
        let lost: Vec<_> = all
            .iter()
            .filter(|found| !whole.contains(&found.payload))
            .collect();
        let hit: Vec<_> = all.iter().filter(|found| is_in(found, at)).collect();
        if hit.is_empty() {
            let entries: Vec<_> = lost.iter().map(|found| found.payload.entry).collect();
            assert!(
                entries.windows(2).all(|pair| pair[0] == pair[1]),
                "{at:?}: one record"
            );
            lost_to_heads += usize::from(!lost.is_empty());
        } else {
            assert_eq!(lost, hit, "{at:?}");
        }
        let is_acknowledged = at.offset < durable;
        if !lost.is_empty() && is_acknowledged {
            assert_eq!(opened.damage.len(), 1, "{at:?}: {opened:?}");
            assert_eq!(opened.torn, []);
        }
    });
    let head_bytes = 52 + 2 * 24;
    assert_eq!(lost_to_heads, 5 * head_bytes, "every byte of every head");
}

#[test]
fn rot_in_any_byte_of_a_listed_segment_is_never_served() {
    let (_, mut disk) = written(40, 900);
    let first = disk.written.first_entry().unwrap();
    let file = first.get().clone();
    disk.written = BTreeMap::from([(1, file)]);
    let (store, opened) = disk.open();
    assert_eq!(opened.scanned, 0, "it has a footer");
    let all: Vec<Fragment> = store.fragments().copied().collect();
    let mut scanned = 0;
    with_each_byte_flipped(&disk, |at, disk| {
        let (mut store, opened) = disk.open();
        scanned += opened.scanned;
        let (whole, bad) = served(&mut store, disk);
        let hit: Vec<_> = all.iter().filter(|found| is_in(found, at)).collect();
        assert_eq!(whole.len() + hit.len(), all.len(), "{at:?}");
        assert_eq!(bad.len(), hit.len(), "{at:?}");
        for found in hit {
            assert!(!store.held(found.payload.entry, 2, 2), "{at:?}: forgotten");
        }
    });
    let footer = 32 + 52 * all.len() as u64 / 2 + 24 * all.len() as u64;
    assert_eq!(scanned, footer, "every byte of the footer counts");
}

#[test]
fn a_read_that_fails_is_tried_again() {
    let (mut store, disk) = written(1, 900);
    for fault in [Err("busy".to_owned()), Ok(Bytes::from_static(b"other"))] {
        let Lookup::Read(read) = store.read(payload(0, 0), 2) else {
            panic!("it is on the disk")
        };
        let ReadBack::Again(again) = store.read_done(read.token, fault.clone()) else {
            panic!("one failure is no damage")
        };
        assert_eq!(again, read);
        let bytes = store.read_done(again.token, Ok(disk.perform(&again)));
        assert!(matches!(bytes, ReadBack::Bytes(..)));
    }
    let Lookup::Read(read) = store.read(payload(0, 0), 2) else {
        panic!("it is on the disk")
    };
    let failed = || Err("broken".to_owned());
    for wrong in [&b"this"[..], b"that", b"this"] {
        let again = store.read_done(read.token, Ok(Bytes::from_static(wrong)));
        assert_eq!(again, ReadBack::Again(read), "each time something else");
    }
    assert_eq!(store.read_done(read.token, failed()), ReadBack::Again(read));
    let damaged = store.read_done(read.token, failed());
    assert!(matches!(damaged, ReadBack::Damaged(found, why)
        if found.payload == payload(0, 0) && why == "broken"));
    assert!(!store.is_sound(payload(0, 0), 2..=2));
    assert_eq!(store.read_done(read.token, failed()), ReadBack::Nothing);
}

/// Before a damaged fragment is rebuilt its disk may recover.
#[test]
fn a_fragment_that_cannot_be_read_stays_and_is_reported_once() {
    let (mut store, disk) = written(1, 900);
    let broken = |store: &mut FragmentStore| {
        let Lookup::Read(read) = store.read(payload(0, 0), 2) else {
            panic!("it is on the disk")
        };
        let mut done = ReadBack::Again(read);
        while let ReadBack::Again(read) = done {
            done = store.read_done(read.token, Err("broken".to_owned()));
        }
        done
    };
    assert!(matches!(broken(&mut store), ReadBack::Damaged(..)));
    assert_eq!(broken(&mut store), ReadBack::Nothing);
    assert!(!store.is_sound(payload(0, 0), 0..=9));
    let Lookup::Read(read) = store.read(payload(0, 0), 2) else {
        panic!("it is still there")
    };
    let bytes = store.read_done(read.token, Ok(disk.perform(&read)));
    assert!(matches!(bytes, ReadBack::Bytes(..)) && store.is_sound(payload(0, 0), 2..=2));
}

#[test]
fn a_damaged_fragment_can_be_written_again() {
    let (mut store, mut disk) = written(1, 900);
    disk.written.get_mut(&1).unwrap()[4300] ^= 1;
    assert_eq!(read(&mut store, &disk, payload(0, 0), 2), Outcome::Damaged);
    append(&mut store, 0, 900);
    flush(&mut store, &mut disk, true);
    let (mut store, _) = disk.open();
    assert_eq!(served(&mut store, &disk).0.len(), 2);
}

#[test]
fn files_that_were_cut_short_hold_what_they_hold() {
    let (_, disk) = written(12, 900);
    let length = disk.written[&1].len();
    for cut in [0, 100, 4096, 4127, 4128, 5000, 9000, length - 1] {
        let mut disk = disk.clone();
        disk.written.get_mut(&1).unwrap().truncate(cut);
        let (mut store, _) = disk.open();
        assert_eq!(served(&mut store, &disk).1, [], "cut at {cut}");
        store.retain(|_| true);
        for seq in 50..80 {
            append(&mut store, seq, 900);
            flush(&mut store, &mut disk, true);
        }
        let (mut store, _) = disk.open();
        let (whole, bad) = served(&mut store, &disk);
        assert_eq!((bad.len(), whole.len() >= 60), (0, true), "cut at {cut}");
    }
}
