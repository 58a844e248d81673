//! The writing end of the bulk store: records into segments, and footers behind what is durable.

use super::format::{Head, Origin, Part, TRAILER_BYTES, encode_footer};
use crate::api::Write;
use crate::log::{
    BULK_MAGIC, Identity, Position, SEGMENT_HEADER_BYTES, SegmentHeader, Tail, Unsynced, Writes,
    bytes_of, padded,
};
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// A fragment to be written.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) part: u32,
    pub(super) payload_len: u32,
    pub(super) bytes: Bytes,
}

/// What a footer will list.
#[derive(Clone, Debug)]
pub(super) struct Unlisted {
    pub(super) segment_bytes: u32,
    /// The ordinal of the boot that wrote the segment.
    pub(super) boot: u32,
    /// The heads of its records so far.
    pub(super) heads: BytesMut,
    /// Where its records end.
    pub(super) end: u32,
}

/// Appends collect until the log's next flush takes them along.
#[derive(Debug)]
pub(super) struct BulkWriter {
    identity: Identity,
    boot: u32,
    segment_bytes: u32,
    tail: Tail,
    writes: Writes,
    /// Bytes appended since the last flush was taken.
    unwritten_bytes: usize,
    /// Fragments that are not known to be written, by where they will be.
    memory: BTreeMap<Position, Bytes>,
    /// The flush under way: where it ends, and which segments are full that it syncs.
    in_flight: Option<(Position, Option<Vec<u64>>)>,
    durable: Position,
    unsynced: Unsynced,
    /// Segments without a footer: the one written to, and full ones that are not known to be durable.
    unlisted: BTreeMap<u64, Unlisted>,
    /// Those of them that are durable.
    to_list: Vec<u64>,
    bytes_total: u64,
}

impl BulkWriter {
    /// Begins behind the `last` segment there is and the highest ordinal of a boot in any. What these
    /// segments hold may still lie in the page cache of a process that was killed, unless a footer
    /// lists it: the first sync covers them.
    pub(super) fn new(
        identity: Identity,
        segment_bytes: u32,
        (last, boot): (u64, u32),
        unlisted: BTreeMap<u64, Unlisted>,
    ) -> Self {
        let tail = |segment, offset, segment_bytes| Tail {
            at: Position { segment, offset },
            segment_bytes,
        };
        let unsynced = unlisted
            .iter()
            .map(|(number, found)| tail(*number, found.end, found.segment_bytes));
        BulkWriter {
            identity,
            boot: boot.saturating_add(1),
            segment_bytes,
            tail: tail(last, 0, 0),
            writes: Writes::default(),
            unwritten_bytes: 0,
            memory: BTreeMap::new(),
            in_flight: None,
            durable: Position::default(),
            unsynced: Unsynced::of(unsynced),
            unlisted,
            to_list: Vec::new(),
            bytes_total: 0,
        }
    }

    /// Appends a record; says where it is, and which fragments are where in its segment.
    pub(super) fn append(&mut self, origin: Origin, pieces: Vec<Piece>) -> (Tail, Vec<Part>) {
        let head_bytes = Head::len_of(pieces.len());
        let body_bytes: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        let bytes = u32::try_from(body_bytes + head_bytes as usize)
            .expect("entries are bounded far below 4 GiB");
        self.make_room(padded(bytes), head_bytes);
        let at = self.tail.at;
        let parts = place(at.offset + head_bytes, &pieces);
        let head = Head {
            origin,
            offset: at.offset,
            boot: self.boot,
            durable: self.durable_in(at.segment),
            bytes,
            parts,
        };
        self.put(&head, pieces);
        (self.tail, head.parts)
    }

    /// The bytes of a fragment that is not known to be written.
    pub(super) fn in_memory(&self, at: Position) -> Option<&Bytes> {
        self.memory.get(&at)
    }

    /// What was appended since the last flush, for one that is synced or not; and the footers of
    /// segments that are durable, unless they are about to go.
    pub(super) fn take(&mut self, sync: bool, dead: &BTreeSet<u64>) -> Vec<Write> {
        self.writes.finish();
        for number in std::mem::take(&mut self.to_list) {
            if !dead.contains(&number) {
                self.list(number);
            }
        }
        let mut writes = self.writes.take();
        self.unsynced.cover(&mut writes, sync);
        self.unwritten_bytes = 0;
        self.bytes_total += bytes_of(&writes);
        let active = self.tail.at.segment;
        let full = self.unlisted.keys().copied();
        let full = full.filter(|number| *number != active || self.tail.at.offset == 0);
        let synced = sync.then(|| full.collect());
        self.in_flight = Some((self.tail.at, synced));
        writes
    }

    /// The flush under way was performed. Says whether it was synced.
    pub(super) fn flushed(&mut self) -> bool {
        let (through, synced) = self.in_flight.take().expect("a flush was taken");
        self.memory = self.memory.split_off(&through);
        let Some(full) = synced else {
            return false;
        };
        self.durable = through;
        self.to_list = full;
        true
    }

    /// A segment is given up.
    pub(super) fn forget(&mut self, segment: u64) {
        self.unlisted.remove(&segment);
        self.unsynced.forget(segment);
    }

    /// Bytes that no flush has taken.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }

    /// Bytes handed out to be written.
    pub(super) fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    fn durable_in(&self, segment: u64) -> u32 {
        let is_here = self.durable.segment == segment;
        if is_here { self.durable.offset } else { 0 }
    }

    fn put(&mut self, head: &Head, pieces: Vec<Piece>) {
        let at = self.tail.at;
        let encoded = head.encode(at.segment);
        let buffer = self.writes.at(at, self.tail.segment_bytes);
        buffer.put_slice(&encoded);
        for (part, piece) in head.parts.iter().zip(pieces) {
            self.writes.chunk(&piece.bytes);
            if !piece.bytes.is_empty() {
                let offset = part.offset;
                self.memory.insert(Position { offset, ..at }, piece.bytes);
            }
        }
        let stride = padded(head.bytes);
        self.writes.zeros(stride - head.bytes);
        self.unwritten_bytes += stride as usize;
        self.tail.at.offset += stride;
        let unlisted = self.unlisted.get_mut(&at.segment);
        let unlisted = unlisted.expect("what is written to has no footer");
        unlisted.heads.put_slice(&encoded);
        unlisted.end = self.tail.at.offset;
    }

    /// Sees to it that a record fits, with what the footer will say of it.
    fn make_room(&mut self, stride: u32, head_bytes: u32) {
        let segment = self.unlisted.get(&self.tail.at.segment);
        let listed = segment.map_or(0, |segment| segment.heads.len() as u32);
        let footer = listed + head_bytes + TRAILER_BYTES;
        let end = u64::from(self.tail.at.offset) + u64::from(stride) + u64::from(footer);
        if end > u64::from(self.tail.segment_bytes) {
            self.roll(stride + head_bytes + TRAILER_BYTES);
        }
    }

    /// Begins the next segment, with room for so many bytes at least.
    fn roll(&mut self, room: u32) {
        self.writes.finish();
        let segment = self.tail.at.segment + 1;
        let segment_bytes = self.segment_bytes.max(SEGMENT_HEADER_BYTES + room);
        let header = SegmentHeader {
            identity: self.identity,
            segment,
            previous_end: 0,
            segment_bytes,
            boot: self.boot,
        };
        let at = Position { segment, offset: 0 };
        let buffer = self.writes.at(at, segment_bytes);
        buffer.put_slice(&header.encode(BULK_MAGIC));
        self.tail = Tail { at, segment_bytes };
        self.tail.at.offset = SEGMENT_HEADER_BYTES;
        let unlisted = Unlisted {
            segment_bytes,
            boot: self.boot,
            heads: BytesMut::new(),
            end: SEGMENT_HEADER_BYTES,
        };
        self.unlisted.insert(segment, unlisted);
    }

    /// Writes the footer of a segment. One whose file was cut short may have no room for it.
    fn list(&mut self, segment: u64) {
        let Some(unlisted) = self.unlisted.remove(&segment) else {
            return;
        };
        let (segment_bytes, end) = (unlisted.segment_bytes, unlisted.end);
        let length = unlisted.heads.len() as u32 + TRAILER_BYTES;
        let offset = segment_bytes.saturating_sub(length);
        if offset < end {
            return;
        }
        let footer = encode_footer(segment, unlisted.boot, unlisted.heads.freeze());
        self.writes.at(Position { segment, offset }, segment_bytes);
        footer.iter().for_each(|chunk| self.writes.chunk(chunk));
        self.writes.finish();
    }
}

/// Where fragments that follow each other are, the first at `offset`.
fn place(mut offset: u32, pieces: &[Piece]) -> Vec<Part> {
    let mut parts = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let len = piece.bytes.len() as u32;
        parts.push(Part {
            part: piece.part,
            payload_len: piece.payload_len,
            offset,
            len,
            checksum: xxh3_64(&piece.bytes),
        });
        offset += len;
    }
    parts
}
