//! Files that forget: of each one image of what was written, another of what was synced.

use bytes::Bytes;
use fastrand::Rng;
use quorate_host::{Position, Write};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What a crash keeps or loses as one piece.
const SECTOR_BYTES: [usize; 4] = [16, 64, 256, 512];

/// The segments of a log, or of a fragment store.
#[derive(Clone, Default)]
pub(crate) struct Segments {
    files: BTreeMap<u64, Segment>,
    /// New segments begin with the content of an older one, as recycled files do.
    recycle: bool,
    /// Released segments whose deletion a crash may undo.
    released: BTreeMap<u64, Segment>,
}

/// One file. Images are as long as what was ever written; the rest of the file reads as zeros. Copies of a
/// disk share them, as most are only looked at.
#[derive(Clone, Default)]
struct Segment {
    size: usize,
    written: Arc<Vec<u8>>,
    synced: Arc<Vec<u8>>,
    /// Writes since the last sync, in order.
    unsynced: Vec<(usize, Vec<u8>)>,
    /// Whether the file itself survives a crash.
    created: bool,
}

impl Segments {
    pub(crate) fn new(recycle: bool) -> Self {
        Segments {
            recycle,
            ..Segments::default()
        }
    }

    pub(crate) fn write(&mut self, writes: &[Write]) {
        writes.iter().for_each(|write| self.write_one(write));
    }

    /// Every segment that these writes touched is on stable storage, entirely.
    pub(crate) fn sync(&mut self, writes: &[Write]) {
        for write in writes {
            self.files.entry(write.segment).or_default().sync();
        }
    }

    /// Power is lost: of every write that was not synced some sectors survive, or none, or all. What
    /// was released is handed out: its deletion may be undone.
    pub(crate) fn crash(&mut self, rng: &mut Rng) -> Released {
        for segment in self.files.values_mut() {
            segment.crash(rng);
        }
        self.files.retain(|_, segment| segment.created);
        Released(std::mem::take(&mut self.released))
    }

    /// Only what was synced is left.
    pub(crate) fn settle(&mut self) {
        for segment in self.files.values_mut() {
            segment.unsynced.clear();
            segment.written.clone_from(&segment.synced);
        }
        self.files.retain(|_, segment| segment.created);
    }

    /// Segments of a log go one after the other, the oldest first, each for good before the next: those
    /// that a crash leaves have no gap between them.
    pub(crate) fn undo_in_order(&mut self, mut released: Released, rng: &mut Rng) {
        while let Some((&first, _)) = self.files.first_key_value()
            && let Some(segment) = released.0.remove(&first.wrapping_sub(1))
            && segment.created
        {
            self.files.insert(first - 1, segment);
            if rng.bool() {
                return;
            }
        }
    }

    /// Segments of a fragment store go in any order.
    pub(crate) fn undo_some(&mut self, released: Released, rng: &mut Rng) {
        for (number, segment) in released.0 {
            if segment.created && rng.bool() {
                self.files.entry(number).or_insert(segment);
            }
        }
    }

    /// Deletes the segments before this one; says how many those are.
    pub(crate) fn release_before(&mut self, number: u64) -> u64 {
        let kept = self.files.split_off(&number);
        let gone = std::mem::replace(&mut self.files, kept);
        let count = gone.len() as u64;
        self.released.extend(gone);
        count
    }

    /// Deletes these segments.
    pub(crate) fn release(&mut self, numbers: &[u64]) {
        for number in numbers {
            let gone = self.files.remove(number);
            self.released.extend(gone.map(|segment| (*number, segment)));
        }
    }

    /// Serves a read, from what was written.
    pub(crate) fn read_at(&self, at: Position, len: u32) -> Result<Bytes, String> {
        let missing = || format!("segment {} is not there", at.segment);
        let segment = self.files.get(&at.segment).ok_or_else(missing)?;
        let start = at.offset as usize;
        let part = segment.written.get(start..start + len as usize);
        part.map(Bytes::copy_from_slice)
            .ok_or_else(|| "the read ends beyond what was written".into())
    }

    /// The whole content of a segment.
    pub(crate) fn whole(&self, segment: u64) -> Option<Bytes> {
        self.files
            .get(&segment)
            .map(|segment| segment.whole().into())
    }

    /// Whether both hold the same images: those that were only copied since.
    pub(crate) fn is_same(&self, other: &Segments) -> bool {
        let is_same = |(a, b): ((&u64, &Segment), (&u64, &Segment))| {
            a.0 == b.0 && a.1.size == b.1.size && Arc::ptr_eq(&a.1.written, &b.1.written)
        };
        self.files.len() == other.files.len() && self.files.iter().zip(&other.files).all(is_same)
    }

    /// A part of a segment's content; `None` if it ends beyond the file.
    pub(crate) fn part(&self, segment: u64, from: usize, len: usize) -> Option<Bytes> {
        let segment = self.files.get(&segment)?;
        let is_there = from + len <= segment.size.max(segment.written.len());
        is_there.then(|| {
            let written = segment.written.get(from..).unwrap_or_default();
            let mut part = written[..len.min(written.len())].to_vec();
            part.resize(len, 0);
            part.into()
        })
    }

    /// The numbers of all segments and the sizes of their files, ascending.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (u64, usize)> {
        let sizes = self.files.iter();
        sizes.map(|(number, segment)| (*number, segment.size))
    }

    /// Where each segment's written bytes end.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (u64, usize)> {
        let files = self.files.iter();
        files.map(|(number, segment)| (*number, segment.written.len()))
    }

    /// Some bytes of a segment that are on stable storage.
    pub(crate) fn copy(&self, segment: u64, at: usize, len: usize) -> Vec<u8> {
        self.copy_if_there(segment, at, len).unwrap_or_default()
    }

    /// The same; `None` if they are not there.
    pub(crate) fn copy_if_there(&self, segment: u64, at: usize, len: usize) -> Option<Vec<u8>> {
        let image = &self.files.get(&segment)?.written;
        image.get(at..at + len).map(<[u8]>::to_vec)
    }

    /// Damages a segment: stable storage holds something else now.
    pub(crate) fn overwrite(&mut self, segment: u64, at: usize, bytes: &[u8]) {
        if let Some(segment) = self.files.get_mut(&segment) {
            put(Arc::make_mut(&mut segment.written), at, bytes);
            put(Arc::make_mut(&mut segment.synced), at, bytes);
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.ends().map(|(_, end)| end).sum()
    }

    fn write_one(&mut self, write: &Write) {
        if write.offset == 0 && !write.chunks.is_empty() {
            self.create(write);
        }
        let segment = self.files.entry(write.segment).or_default();
        segment.size = segment.size.max(write.segment_bytes as usize);
        let bytes = write.chunks.concat();
        put(
            Arc::make_mut(&mut segment.written),
            write.offset as usize,
            &bytes,
        );
        segment.unsynced.push((write.offset as usize, bytes));
    }

    /// A file that exists already, left by a boot that crashed, is used as it is.
    fn create(&mut self, write: &Write) {
        if !self.recycle || self.files.contains_key(&write.segment) {
            return;
        }
        if let Some((_, old)) = self.files.first_key_value() {
            let image = old.synced.clone();
            let recycled = Segment {
                size: write.segment_bytes as usize,
                written: image.clone(),
                synced: image,
                unsynced: Vec::new(),
                created: true,
            };
            self.files.insert(write.segment, recycled);
        }
    }
}

/// Segments whose deletion may be undone.
pub(crate) struct Released(BTreeMap<u64, Segment>);

impl Segment {
    fn sync(&mut self) {
        self.created = true;
        let synced = Arc::make_mut(&mut self.synced);
        for (offset, bytes) in self.unsynced.drain(..) {
            put(synced, offset, &bytes);
        }
    }

    fn crash(&mut self, rng: &mut Rng) {
        for (offset, bytes) in std::mem::take(&mut self.unsynced) {
            let kept = keep(&bytes, rng);
            self.created |= !kept.is_empty();
            for range in kept {
                put(
                    Arc::make_mut(&mut self.synced),
                    offset + range.start,
                    &bytes[range],
                );
            }
        }
        self.written.clone_from(&self.synced);
    }

    fn whole(&self) -> Vec<u8> {
        let size = self.size.max(self.written.len());
        let mut whole = Vec::with_capacity(size);
        whole.extend_from_slice(&self.written);
        whole.resize(size, 0);
        whole
    }
}

/// Which parts of an unsynced write survive: all, none, a beginning, or sectors at random.
fn keep(bytes: &[u8], rng: &mut Rng) -> Vec<Range<usize>> {
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
