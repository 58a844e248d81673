//! Writes under construction, and what the next sync has to cover: of the log, and of the fragment store
//! beside it.

use super::writer::Tail;
use crate::api::Write;
use crate::position::Position;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;

/// A chunk this long is written from where it lies instead of being copied.
const ATTACH_BYTES_MIN: usize = 4096;

/// Writes that are being put together, contiguous bytes each.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    complete: Vec<Write>,
    /// The write being built; its last bytes are still in `copied`.
    building: Option<Write>,
    copied: BytesMut,
}

impl Writes {
    /// Whether there is nothing to be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.complete.is_empty() && self.building.is_none()
    }

    /// The buffer of the write that ends at `at`, begun there if none is being built.
    pub(crate) fn at(&mut self, at: Position, segment_bytes: u32) -> &mut BytesMut {
        self.building.get_or_insert_with(|| Write {
            segment: at.segment,
            segment_bytes,
            offset: at.offset,
            chunks: Vec::new(),
        });
        &mut self.copied
    }

    /// Adds to the write being built: a copy of what is short.
    pub(crate) fn chunk(&mut self, chunk: &Bytes) {
        if chunk.len() < ATTACH_BYTES_MIN {
            self.copied.extend_from_slice(chunk);
            return;
        }
        let write = self.building.as_mut().expect("a header went before");
        write.chunks.push(self.copied.split().freeze());
        write.chunks.push(chunk.clone());
    }

    /// Adds zeros to the write being built.
    pub(crate) fn zeros(&mut self, count: u32) {
        let length = self.copied.len() + count as usize;
        self.copied.resize(length, 0);
    }

    /// Ends the write being built: what follows is elsewhere.
    pub(crate) fn finish(&mut self) {
        if let Some(mut write) = self.building.take() {
            if !self.copied.is_empty() {
                write.chunks.push(self.copied.split().freeze());
            }
            self.complete.push(write);
        }
    }

    /// All writes, in order.
    pub(crate) fn take(&mut self) -> Vec<Write> {
        self.finish();
        std::mem::take(&mut self.complete)
    }
}

/// Bytes of all these writes.
pub(crate) fn bytes_of(writes: &[Write]) -> u64 {
    let chunks = writes.iter().flat_map(|write| &write.chunks);
    chunks.map(|chunk| chunk.len() as u64).sum()
}

/// Segments written to since the last sync, by number, with where writing stopped.
#[derive(Debug, Default)]
pub(crate) struct Unsynced(BTreeMap<u64, Tail>);

impl Unsynced {
    /// Segments that hold bytes of which nobody knows whether they are on stable storage.
    pub(crate) fn of(segments: impl Iterator<Item = Tail>) -> Self {
        Unsynced(segments.map(|tail| (tail.at.segment, tail)).collect())
    }

    /// A segment is given up.
    pub(crate) fn forget(&mut self, segment: u64) {
        self.0.remove(&segment);
    }

    /// A sync must cover all bytes before it, also those of earlier flushes that were not synced:
    /// their segments are touched by a write without bytes.
    pub(crate) fn cover(&mut self, writes: &mut Vec<Write>, sync: bool) {
        for write in writes.iter() {
            let at = Position {
                segment: write.segment,
                offset: write.offset,
            };
            let segment_bytes = write.segment_bytes;
            self.0.insert(write.segment, Tail { at, segment_bytes });
        }
        if !sync {
            return;
        }
        for (segment, tail) in std::mem::take(&mut self.0) {
            if writes.iter().all(|write| write.segment != segment) {
                let (offset, segment_bytes) = (tail.at.offset, tail.segment_bytes);
                writes.push(Write {
                    segment,
                    segment_bytes,
                    offset,
                    chunks: Vec::new(),
                });
            }
        }
    }
}
