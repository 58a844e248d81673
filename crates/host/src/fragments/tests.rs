//! The fragment store against disks that forget, tear and rot.

mod crash;
mod damage;
mod moves;

use super::{Fragment, FragmentStore, FragmentsOpened, Lookup, ReadBack};
use crate::api::{LogRead, Write};
use crate::log::{Identity, LogSource};
use crate::open_error::OpenError;
use crate::position::Position;
use bytes::Bytes;
use quorate_core::{Boot, ClusterId, EntryId, Incarnation, PayloadId, ReplicaId, Share, Slot};
use std::collections::BTreeMap;
use std::io;

const SEGMENT_BYTES: u32 = 16 << 10;

fn identity() -> Identity {
    Identity {
        cluster: ClusterId(1),
        replica: ReplicaId(2),
        incarnation: Incarnation(3),
    }
}

/// The segments' files: what was written, and what a loss of power leaves of it.
#[derive(Clone, Default)]
struct Disk {
    written: BTreeMap<u64, Vec<u8>>,
    synced: BTreeMap<u64, Vec<u8>>,
    /// Writes since each segment's last sync.
    unsynced: Vec<Write>,
    /// What files begin with: the content of one that was released.
    recycled: Option<Vec<u8>>,
}

impl Disk {
    fn write(&mut self, writes: &[Write]) {
        for write in writes {
            let begin = || self.recycled.clone().unwrap_or_default();
            let file = self.written.entry(write.segment).or_insert_with(begin);
            put(file, write);
            self.unsynced.push(write.clone());
        }
    }

    /// Only what these writes touch becomes durable.
    fn sync(&mut self, writes: &[Write]) {
        for write in writes {
            let content = self.written[&write.segment].clone();
            self.synced.insert(write.segment, content);
        }
        let is_synced = |segment| writes.iter().any(|write| write.segment == segment);
        self.unsynced.retain(|write| !is_synced(write.segment));
    }

    fn release(&mut self, segments: &[u64]) {
        for segment in segments {
            self.recycled = self.written.remove(segment);
            self.synced.remove(segment);
        }
    }

    fn perform(&self, read: &LogRead) -> Bytes {
        let file = &self.written[&read.at.segment];
        Bytes::copy_from_slice(&file[read.at.offset as usize..][..read.len as usize])
    }

    fn open(&mut self) -> (FragmentStore, FragmentsOpened) {
        self.try_open().unwrap()
    }

    fn try_open(&mut self) -> Result<(FragmentStore, FragmentsOpened), OpenError> {
        FragmentStore::open(self, identity(), SEGMENT_BYTES)
    }
}

fn put(file: &mut Vec<u8>, write: &Write) {
    file.resize(write.segment_bytes as usize, 0);
    let bytes = write.chunks.concat();
    file[write.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
}

impl LogSource for Disk {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(Vec::new())
    }

    fn read(&mut self, _segment: u64) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        Ok(Vec::new())
    }

    fn read_snapshot(&mut self, _slot: Slot, _offset: u64, _len: usize) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn fragment_segments(&mut self) -> io::Result<Vec<(u64, u32)>> {
        let files = self.written.iter();
        Ok(files
            .map(|(number, file)| (*number, file.len() as u32))
            .collect())
    }

    fn read_fragments(&mut self, at: Position, len: u32) -> io::Result<Bytes> {
        let file = &self.written[&at.segment];
        Ok(Bytes::copy_from_slice(
            &file[at.offset as usize..][..len as usize],
        ))
    }
}

fn entry(seq: u64) -> EntryId {
    EntryId {
        origin: ReplicaId(1),
        boot: Boot(7),
        seq,
    }
}

fn payload(seq: u64, part: u32) -> PayloadId {
    PayloadId {
        entry: entry(seq),
        part,
    }
}

/// What a fragment of this payload is here: told from all others by its bytes.
fn content(id: PayloadId, len: usize) -> Bytes {
    let salt = id.entry.seq as u8 ^ (id.part as u8).rotate_left(3);
    let bytes = (0..len).map(|place| salt.wrapping_add((place * 7 + place / 251) as u8));
    bytes.collect()
}

/// A share of an entry of two payloads, coded 2 of 3.
fn share(seq: u64, len: usize) -> Share {
    Share {
        code: 2,
        index: 1,
        parts: vec![
            content(payload(seq, 0), len),
            content(payload(seq, 1), len / 2),
        ],
    }
}

fn append(store: &mut FragmentStore, seq: u64, len: usize) {
    let lengths = [len as u32 * 2, len as u32];
    store.append(entry(seq), 3, (&share(seq, len), &[]), 0, &lengths);
}

/// A flush with everything there is.
fn flush(store: &mut FragmentStore, disk: &mut Disk, sync: bool) {
    let writes = store.take_writes(sync);
    disk.write(&writes);
    if sync {
        disk.sync(&writes);
    }
    store.flushed();
    disk.release(&store.take_release());
}

/// What comes of reading a fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Outcome {
    Bytes(Bytes),
    None,
    Damaged,
}

fn read(store: &mut FragmentStore, disk: &Disk, id: PayloadId, code: u8) -> Outcome {
    let mut read = match store.read(id, code) {
        Lookup::None => return Outcome::None,
        Lookup::Here(_, bytes) => return Outcome::Bytes(bytes),
        Lookup::Read(read) => read,
    };
    loop {
        assert!(FragmentStore::owns(read.token));
        match store.read_done(read.token, Ok(disk.perform(&read))) {
            ReadBack::Bytes(_, bytes) => return Outcome::Bytes(bytes),
            ReadBack::Again(again) => read = again,
            ReadBack::Damaged(..) => return Outcome::Damaged,
            ReadBack::Nothing => return Outcome::None,
        }
    }
}

/// The index, without where things are.
fn names(store: &FragmentStore) -> Vec<(PayloadId, u8, u8, u32)> {
    let named = |found: &Fragment| (found.payload, found.code, found.index, found.payload_len);
    store.fragments().map(named).collect()
}

/// A store of `count` entries over several segments, every one flushed.
fn written(count: u64, len: usize) -> (FragmentStore, Disk) {
    let mut store = FragmentStore::create(identity(), SEGMENT_BYTES);
    let mut disk = Disk::default();
    for seq in 0..count {
        append(&mut store, seq, len);
        flush(&mut store, &mut disk, true);
    }
    (store, disk)
}

#[test]
fn fragments_are_read_from_memory_then_from_disk_and_after_reopening() {
    let mut store = FragmentStore::create(identity(), SEGMENT_BYTES);
    let mut disk = Disk::default();
    for seq in 0..20 {
        append(&mut store, seq, 2000);
        let here = store.read(payload(seq, 1), 2);
        assert!(matches!(here, Lookup::Here(found, bytes)
            if bytes == content(payload(seq, 1), 1000) && found.payload_len == 2000));
        let writes = store.take_writes(true);
        let still_here = store.read(payload(seq, 0), 2);
        assert!(matches!(still_here, Lookup::Here(..)), "not written yet");
        disk.write(&writes);
        disk.sync(&writes);
        store.flushed();
        assert!(matches!(store.read(payload(seq, 0), 2), Lookup::Read(_)));
    }
    let (mut reopened, opened) = disk.open();
    assert!(opened.segments.len() > 3 && opened.fragments == 40);
    assert_eq!((opened.damage.len(), opened.torn.len()), (0, 0));
    assert_eq!(names(&reopened), names(&store));
    for store in [&mut store, &mut reopened] {
        for seq in 0..20 {
            for (part, len) in [(0, 2000), (1, 1000)] {
                let id = payload(seq, part);
                let bytes = read(store, &disk, id, 2);
                assert_eq!(bytes, Outcome::Bytes(content(id, len)));
                assert_eq!(store.codes(id), [2]);
                assert_eq!(store.read(id, 1), Lookup::None);
            }
            assert!(store.held(entry(seq), 2, 2));
            assert!(!store.held(entry(seq), 3, 2) && !store.held(entry(seq), 2, 1));
        }
    }
}

#[test]
fn long_fragments_are_written_from_where_they_lie_and_only_once() {
    let mut store = FragmentStore::create(identity(), SEGMENT_BYTES);
    let whole = Share::whole(vec![content(payload(1, 0), 100_000)]);
    for _ in 0..2 {
        store.append(entry(1), 3, (&whole, &[]), 0, &[100_000]);
    }
    let writes = store.take_writes(true);
    let chunks: Vec<&Bytes> = writes.iter().flat_map(|write| &write.chunks).collect();
    let attached: Vec<_> = chunks
        .iter()
        .filter(|chunk| chunk.len() == 100_000)
        .collect();
    assert_eq!(attached.len(), 1);
    assert_eq!(attached[0].as_ptr(), whole.parts[0].as_ptr());
    assert!(
        writes[0].segment_bytes > 100_000,
        "a segment of its own size"
    );
    let written: usize = chunks.iter().map(|chunk| chunk.len()).sum();
    assert_eq!(store.bytes_total(), written as u64);
    assert!(written < 100_000 + 5000);
}

#[test]
fn a_fragment_without_bytes_is_held_as_any_other() {
    let mut store = FragmentStore::create(identity(), SEGMENT_BYTES);
    let mut disk = Disk::default();
    store.append(
        entry(1),
        1,
        (&Share::whole(vec![Bytes::new()]), &[]),
        0,
        &[0],
    );
    flush(&mut store, &mut disk, true);
    let (mut store, _) = disk.open();
    store.retain(|_| true);
    assert!(store.held(entry(1), 1, 1));
    let bytes = read(&mut store, &disk, payload(1, 0), 1);
    assert_eq!(bytes, Outcome::Bytes(Bytes::new()));
    flush(&mut store, &mut disk, true);
    assert_eq!(disk.written.len(), 1, "it keeps its segment");
}

#[test]
fn opening_by_footers_equals_opening_by_scanning() {
    let (_, mut disk) = written(40, 900);
    let (by_footer, opened) = disk.open();
    assert!(
        opened.segments.len() > 4 && opened.scanned <= 2,
        "{opened:?}"
    );
    for file in disk.written.values_mut() {
        let end = file.len() - 1;
        file[end] ^= 1;
    }
    let (by_scan, scanned) = disk.open();
    assert_eq!(scanned.scanned, opened.segments.len() as u64);
    assert_eq!(scanned.fragments, opened.fragments);
    assert!(by_footer.fragments().eq(by_scan.fragments()));
}

#[test]
fn an_old_segment_gets_its_footer_in_the_next_life() {
    let (_, mut disk) = written(3, 900);
    let (mut store, opened) = disk.open();
    assert_eq!(opened.scanned, 1);
    store.retain(|_| true);
    flush(&mut store, &mut disk, true);
    append(&mut store, 9, 900);
    flush(&mut store, &mut disk, true);
    let (store, opened) = disk.open();
    assert_eq!((opened.segments, opened.scanned), (vec![1, 2], 1));
    assert_eq!(names(&store).len(), 8);
}

#[test]
fn what_belongs_to_another_replica_is_refused() {
    let (_, mut disk) = written(1, 900);
    let other = Identity {
        replica: ReplicaId(3),
        ..identity()
    };
    let opened = FragmentStore::open(&mut disk, other, SEGMENT_BYTES);
    assert!(matches!(opened, Err(OpenError::Foreign { segment: 1, .. })));
}
