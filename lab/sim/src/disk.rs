//! A disk that forgets: log and fragment store in segments, and snapshots.

use crate::segments::Segments;
use crate::snapshots::SnapshotFiles;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::Slot;
use quorate_host::{Flush, LogRead, LogSource, Position, Release, Store};
use std::io;

/// The disk of one replica.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    pub(crate) log: Segments,
    pub(crate) bulk: Segments,
    pub(crate) snapshots: SnapshotFiles,
}

impl Disk {
    pub(crate) fn new(recycle: bool) -> Self {
        Disk {
            log: Segments::new(recycle),
            bulk: Segments::new(recycle),
            snapshots: SnapshotFiles::default(),
        }
    }

    /// Performs the writes of a flush, without the sync.
    pub(crate) fn write(&mut self, flush: &Flush) {
        self.bulk.write(&flush.fragments);
        self.log.write(&flush.writes);
    }

    /// Performs the sync of a flush: every segment it touched is on stable storage, entirely.
    pub(crate) fn sync(&mut self, flush: &Flush) {
        self.bulk.sync(&flush.fragments);
        self.log.sync(&flush.writes);
    }

    /// Power is lost: of every write that was not synced some sectors survive, or none, or all. What
    /// was released last may be there again.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        let log = self.log.crash(rng);
        let bulk = self.bulk.crash(rng);
        if rng.u8(..4) == 0 {
            self.log.undo_in_order(log, rng);
            self.bulk.undo_some(bulk, rng);
        }
    }

    /// What power failing now leaves at least: nothing that was not synced.
    pub(crate) fn settled(&self) -> Disk {
        let mut disk = self.clone();
        disk.log.settle();
        disk.bulk.settle();
        disk
    }

    /// Deletes what is not needed any more; says how many segments of the log that are.
    pub(crate) fn release(&mut self, release: Release) -> u64 {
        self.snapshots.release(release.snapshots_before);
        self.log.release_before(release.segments_before)
    }

    /// Serves a read, from what was written.
    pub(crate) fn read_at(&self, read: &LogRead) -> Result<Bytes, String> {
        match read.store {
            Store::Log => self.log.read_at(read.at, read.len),
            Store::Fragments => self.bulk.read_at(read.at, read.len),
        }
    }

    /// Whether whoever looks at both finds the same, as far as is seen at once.
    pub(crate) fn is_same(&self, other: &Disk) -> bool {
        let (log, bulk) = (&other.log, &other.bulk);
        self.log.is_same(log) && self.bulk.is_same(bulk) && self.snapshots.is_same(&other.snapshots)
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.log.bytes() + self.bulk.bytes()
    }
}

impl LogSource for &Disk {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(self.log.sizes().map(|(number, _)| number).collect())
    }

    fn read(&mut self, segment: u64) -> io::Result<Bytes> {
        let whole = self.log.whole(segment);
        whole.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        Ok(self.snapshots.list())
    }

    fn read_snapshot(&mut self, slot: Slot, offset: u64, len: usize) -> io::Result<Bytes> {
        let part = self.snapshots.read(slot, offset, len);
        part.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn fragment_segments(&mut self) -> io::Result<Vec<(u64, u32)>> {
        let sizes = self.bulk.sizes();
        Ok(sizes.map(|(number, size)| (number, size as u32)).collect())
    }

    fn read_fragments(&mut self, at: Position, len: u32) -> io::Result<Bytes> {
        let part = (self.bulk).part(at.segment, at.offset as usize, len as usize);
        part.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_host::Write;

    fn flush(segment: u64, offset: u32, bytes: &[u8]) -> Flush {
        let chunks = vec![Bytes::copy_from_slice(bytes)];
        let write = Write {
            segment,
            segment_bytes: 8192,
            offset,
            chunks,
        };
        let through = Position {
            segment,
            offset: offset + bytes.len() as u32,
        };
        Flush {
            writes: vec![write],
            fragments: Vec::new(),
            sync: true,
            through,
        }
    }

    #[test]
    fn what_was_synced_survives_every_crash() {
        for seed in 0..100 {
            let mut rng = Rng::with_seed(seed);
            let mut disk = Disk::new(false);
            let first = flush(1, 0, &[7; 1000]);
            disk.write(&first);
            disk.sync(&first);
            disk.write(&flush(1, 1000, &[8; 1000]));
            disk.crash(&mut rng);
            let after = (&disk).read(1).unwrap();
            assert_eq!(after.len(), 8192);
            assert!(after[..1000].iter().all(|byte| *byte == 7));
            assert!(after[2000..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn an_unsynced_write_is_kept_lost_torn_or_full_of_holes() {
        let (mut kept, mut lost, mut torn, mut holes) = (0, 0, 0, 0);
        for seed in 0..400 {
            let mut disk = Disk::new(false);
            let first = flush(1, 0, &[7; 16]);
            disk.write(&first);
            disk.sync(&first);
            disk.write(&flush(1, 16, &[8; 4096]));
            disk.crash(&mut Rng::with_seed(seed));
            let after = (&disk).read(1).unwrap();
            let survived: Vec<bool> = after[16..4112].iter().map(|byte| *byte == 8).collect();
            let edges = survived
                .windows(2)
                .filter(|pair| pair[0] != pair[1])
                .count();
            match (edges, survived[0]) {
                (0, true) => kept += 1,
                (0, false) => lost += 1,
                (1, true) => torn += 1,
                _ => holes += 1,
            }
        }
        for (what, count) in [
            ("kept", kept),
            ("lost", lost),
            ("torn", torn),
            ("holes", holes),
        ] {
            assert!(count >= 40, "{what}: {count} of 400");
        }
    }

    #[test]
    fn a_file_that_was_never_synced_may_be_gone() {
        let gone = (0..100).filter(|seed| {
            let mut disk = Disk::new(false);
            disk.write(&flush(1, 0, &[7; 100]));
            disk.crash(&mut Rng::with_seed(*seed));
            (&disk).list().unwrap().is_empty()
        });
        assert!((20..=80).contains(&gone.count()));
    }

    #[test]
    fn a_recycled_segment_begins_with_old_content() {
        let mut disk = Disk::new(true);
        let first = flush(1, 0, &[7; 1000]);
        disk.write(&first);
        disk.sync(&first);
        disk.write(&flush(2, 0, &[8; 10]));
        let image = (&disk).read(2).unwrap();
        assert_eq!(
            (&image[..10], &image[10..1000]),
            (&[8; 10][..], &[7; 990][..])
        );
    }

    #[test]
    fn reads_see_what_was_written_before_it_is_synced() {
        let mut disk = Disk::new(false);
        disk.write(&flush(1, 0, b"0123456789"));
        let at = Position {
            segment: 1,
            offset: 3,
        };
        let read = LogRead {
            token: 1,
            store: Store::Log,
            at,
            len: 4,
        };
        assert_eq!(disk.read_at(&read), Ok(Bytes::from_static(b"3456")));
    }
}
