//! A disk that forgets: one image of what was written, another of what was synced.

use crate::snapshots::SnapshotFiles;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::Slot;
use quorate_host::{Flush, LogRead, LogSource, Release, Write};
use std::collections::BTreeMap;
use std::io;

/// What a crash keeps or loses as one piece.
const SECTOR_BYTES: [usize; 4] = [16, 64, 256, 512];

/// The log segments and snapshots of one replica.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    segments: BTreeMap<u64, Segment>,
    /// New segments begin with the content of an older one, as recycled files do.
    recycle: bool,
    /// Released segments whose deletion a crash may undo.
    released: BTreeMap<u64, Segment>,
    pub(crate) snapshots: SnapshotFiles,
}

/// One file. Images are as long as what was ever written; the rest of the file reads as zeros.
#[derive(Clone, Default)]
struct Segment {
    size: usize,
    written: Vec<u8>,
    synced: Vec<u8>,
    /// Writes since the last sync, in order.
    unsynced: Vec<(usize, Vec<u8>)>,
    /// Whether the file itself survives a crash.
    created: bool,
}

impl Disk {
    pub(crate) fn new(recycle: bool) -> Self {
        Disk {
            segments: BTreeMap::new(),
            recycle,
            released: BTreeMap::new(),
            snapshots: SnapshotFiles::default(),
        }
    }

    /// Performs the writes of a flush, without the sync.
    pub(crate) fn write(&mut self, flush: &Flush) {
        for write in &flush.writes {
            self.write_one(write);
        }
    }

    /// Performs the sync of a flush: every segment it touched is on stable storage, entirely.
    pub(crate) fn sync(&mut self, flush: &Flush) {
        for write in &flush.writes {
            self.segments.entry(write.segment).or_default().sync();
        }
    }

    /// Power is lost: of every write that was not synced some sectors survive, or none, or all.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        for segment in self.segments.values_mut() {
            segment.crash(rng);
        }
        self.segments.retain(|_, segment| segment.created);
        let mut released = std::mem::take(&mut self.released);
        if rng.u8(..4) == 0 {
            self.undo_releases(&mut released, rng);
        }
    }

    /// What power failing now leaves at least: nothing that was not synced.
    pub(crate) fn settled(&self) -> Disk {
        let mut disk = self.clone();
        for segment in disk.segments.values_mut() {
            segment.unsynced.clear();
            segment.written.clone_from(&segment.synced);
        }
        disk.segments.retain(|_, segment| segment.created);
        disk
    }

    /// Segments go one after the other, the oldest first, each for good before the next: those that a
    /// crash leaves have no gap between them.
    fn undo_releases(&mut self, released: &mut BTreeMap<u64, Segment>, rng: &mut Rng) {
        while let Some((&first, _)) = self.segments.first_key_value()
            && let Some(segment) = released.remove(&first.wrapping_sub(1))
            && segment.created
        {
            self.segments.insert(first - 1, segment);
            if rng.bool() {
                return;
            }
        }
    }

    /// Deletes what is not needed any more; says how many segments that are.
    pub(crate) fn release(&mut self, release: Release) -> u64 {
        let kept = self.segments.split_off(&release.segments_before);
        let gone = std::mem::replace(&mut self.segments, kept);
        let count = gone.len() as u64;
        self.released.extend(gone);
        self.snapshots.release(release.snapshots_before);
        count
    }

    /// Serves a read of the log, from what was written.
    pub(crate) fn read_at(&self, read: &LogRead) -> Result<Bytes, String> {
        let missing = || format!("segment {} is not there", read.at.segment);
        let segment = self.segments.get(&read.at.segment).ok_or_else(missing)?;
        let start = read.at.offset as usize;
        let part = segment.written.get(start..start + read.len as usize);
        part.map(Bytes::copy_from_slice)
            .ok_or_else(|| "the read ends beyond what was written".into())
    }

    /// Some bytes of a segment that are on stable storage.
    pub(crate) fn copy(&self, segment: u64, at: usize, len: usize) -> Vec<u8> {
        self.copy_if_there(segment, at, len).unwrap_or_default()
    }

    /// The same; `None` if they are not there.
    pub(crate) fn copy_if_there(&self, segment: u64, at: usize, len: usize) -> Option<Vec<u8>> {
        let image = &self.segments.get(&segment)?.written;
        image.get(at..at + len).map(<[u8]>::to_vec)
    }

    /// Damages a segment: stable storage holds something else now.
    pub(crate) fn overwrite(&mut self, segment: u64, at: usize, bytes: &[u8]) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            put(&mut segment.written, at, bytes);
            put(&mut segment.synced, at, bytes);
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.segments
            .values()
            .map(|segment| segment.written.len())
            .sum()
    }

    fn write_one(&mut self, write: &Write) {
        if write.offset == 0 && !write.chunks.is_empty() {
            self.create(write);
        }
        let segment = self.segments.entry(write.segment).or_default();
        segment.size = segment.size.max(write.segment_bytes as usize);
        let bytes = write.chunks.concat();
        put(&mut segment.written, write.offset as usize, &bytes);
        segment.unsynced.push((write.offset as usize, bytes));
    }

    /// A file that exists already, left by a boot that crashed, is used as it is.
    fn create(&mut self, write: &Write) {
        if !self.recycle || self.segments.contains_key(&write.segment) {
            return;
        }
        if let Some((_, old)) = self.segments.first_key_value() {
            let image = old.synced.clone();
            let recycled = Segment {
                size: write.segment_bytes as usize,
                written: image.clone(),
                synced: image,
                unsynced: Vec::new(),
                created: true,
            };
            self.segments.insert(write.segment, recycled);
        }
    }
}

impl Segment {
    fn sync(&mut self) {
        self.created = true;
        for (offset, bytes) in self.unsynced.drain(..) {
            put(&mut self.synced, offset, &bytes);
        }
    }

    fn crash(&mut self, rng: &mut Rng) {
        for (offset, bytes) in std::mem::take(&mut self.unsynced) {
            let kept = keep(&bytes, rng);
            self.created |= !kept.is_empty();
            for range in kept {
                put(&mut self.synced, offset + range.start, &bytes[range]);
            }
        }
        self.written.clone_from(&self.synced);
    }

    fn whole(&self) -> Vec<u8> {
        let mut whole = self.written.clone();
        whole.resize(self.size.max(whole.len()), 0);
        whole
    }
}

/// Which parts of an unsynced write survive: all, none, a beginning, or sectors at random.
fn keep(bytes: &[u8], rng: &mut Rng) -> Vec<std::ops::Range<usize>> {
    let sector = SECTOR_BYTES[rng.usize(..SECTOR_BYTES.len())];
    match rng.u8(..4) {
        0 => std::iter::once(0..bytes.len()).collect(),
        1 => Vec::new(),
        2 => {
            let sectors = rng.usize(..=bytes.len() / sector);
            std::iter::once(0..sectors * sector)
                .filter(|range| !range.is_empty())
                .collect()
        }
        _ => (0..bytes.len())
            .step_by(sector)
            .filter(|_| rng.bool())
            .map(|start| start..(start + sector).min(bytes.len()))
            .collect(),
    }
}

fn put(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(bytes);
}

impl LogSource for Disk {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(self.segments.keys().copied().collect())
    }

    fn read(&mut self, segment: u64) -> io::Result<Bytes> {
        match self.segments.get(&segment) {
            Some(segment) => Ok(segment.whole().into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        Ok(self.snapshots.list())
    }

    fn read_snapshot(&mut self, slot: Slot, offset: u64, len: usize) -> io::Result<Bytes> {
        let part = self.snapshots.read(slot, offset, len);
        part.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_host::Position;

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
            let after = disk.read(1).unwrap();
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
            let after = disk.read(1).unwrap();
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
            disk.list().unwrap().is_empty()
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
        let image = disk.read(2).unwrap();
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
            at,
            len: 4,
        };
        assert_eq!(disk.read_at(&read), Ok(Bytes::from_static(b"3456")));
    }
}
