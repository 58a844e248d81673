//! The writing end of the fragment store: records into segments, and footers behind what is durable.

use super::format::{Head, Origin, Part, TRAILER_BYTES, encode_footer};
use super::write_behind::{Body, WriteBehind};
use crate::api::Write;
use crate::log::{
    BULK_MAGIC, Identity, SEGMENT_HEADER_BYTES, SegmentHeader, Tail, Unsynced, Writes, bytes_of,
    padded,
};
use crate::position::Position;
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// A fragment to be written.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) part: u32,
    pub(super) payload_len: u32,
    pub(super) bytes: Bytes,
    /// XXH3-64 of them.
    pub(super) checksum: u64,
}

impl Piece {
    /// With its checksum, if that is known.
    pub(super) fn new(part: u32, payload_len: u32, bytes: Bytes, checksum: Option<u64>) -> Self {
        let checksum = checksum.unwrap_or_else(|| xxh3_64(&bytes));
        Piece {
            part,
            payload_len,
            bytes,
            checksum,
        }
    }
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
    /// Everything before this is durable, but for bodies that are on their way.
    pub(super) durable: u32,
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
    /// Whether there are fragments among what no synced flush has taken.
    is_dirty: bool,
    /// Records of so many bytes are long: their bodies go behind.
    long_bytes_min: usize,
    behind: WriteBehind,
    /// The segment of the step under way, and how far it was written when that was taken.
    stepping: Option<(u64, u32)>,
    /// Fragments that are not known to be written, by where they will be.
    memory: BTreeMap<Position, Bytes>,
    /// The flush under way: where it ends, and whether it is synced.
    in_flight: Option<(Position, bool)>,
    /// Where the last flush that was taken ends, and the last that was performed.
    taken: Position,
    written: Position,
    unsynced: Unsynced,
    /// Segments without a footer: the one written to, and full ones that are not known to be durable.
    unlisted: BTreeMap<u64, Unlisted>,
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
        let tail = tail(last, 0, 0);
        BulkWriter {
            identity,
            boot: boot.saturating_add(1),
            segment_bytes,
            tail,
            writes: Writes::default(),
            unwritten_bytes: 0,
            is_dirty: !unlisted.is_empty(),
            long_bytes_min: usize::MAX,
            behind: WriteBehind::default(),
            stepping: None,
            memory: BTreeMap::new(),
            in_flight: None,
            taken: tail.at,
            written: tail.at,
            unsynced: Unsynced::of(unsynced),
            unlisted,
            bytes_total: 0,
        }
    }

    /// The bodies of records of so many bytes or more go behind, in steps of about so many.
    pub(super) fn put_behind(&mut self, long_bytes_min: usize, step_bytes: usize) {
        self.long_bytes_min = long_bytes_min;
        self.behind.in_steps_of(step_bytes);
    }

    /// Appends a record, moved or new; says where it is, and which fragments are where in its segment.
    pub(super) fn append(
        &mut self,
        origin: Origin,
        pieces: Vec<Piece>,
        is_move: bool,
    ) -> (Tail, Vec<Part>) {
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
        let is_long = body_bytes > 0 && body_bytes >= self.long_bytes_min;
        self.put(&head, pieces, is_long.then_some(is_move));
        (self.tail, head.parts)
    }

    /// The bytes of a fragment that is not known to be written.
    pub(super) fn in_memory(&self, at: Position) -> Option<&Bytes> {
        let behind = || self.behind.find(at).map(|(bytes, _)| bytes);
        self.memory.get(&at).or_else(behind)
    }

    /// What was appended since the last flush, for one that is synced or not; and the footers of
    /// segments that are durable, unless they are about to go.
    ///
    /// A synced one need not wait for heads whose bodies are behind: it leaves them to the next.
    pub(super) fn take(&mut self, sync: bool, dead: &BTreeSet<u64>) -> Vec<Write> {
        if sync && !self.is_dirty && !self.behind.is_empty() {
            self.in_flight = Some((self.taken, false));
            return Vec::new();
        }
        self.writes.finish();
        for number in self.to_list() {
            if !dead.contains(&number) {
                self.list(number);
            }
        }
        let mut writes = self.writes.take();
        self.unsynced.cover(&mut writes, sync);
        self.unwritten_bytes = 0;
        self.is_dirty &= !sync;
        self.bytes_total += bytes_of(&writes);
        self.taken = self.tail.at;
        self.in_flight = Some((self.taken, sync));
        writes
    }

    /// The flush under way was performed.
    pub(super) fn flushed(&mut self) {
        let (through, is_synced) = self.in_flight.take().expect("a flush was taken");
        self.memory = self.memory.split_off(&through);
        self.written = through;
        if !is_synced {
            return;
        }
        for (number, unlisted) in &mut self.unlisted {
            unlisted.durable = written_in(*number, unlisted, through).max(unlisted.durable);
        }
    }

    /// Whether a flush is to be taken for the head of a body that is behind.
    pub(super) fn has_waiting_head(&self) -> bool {
        self.behind.last().is_some_and(|at| at >= self.taken)
    }

    /// The next step of what is behind, to be written and synced; `None` while one is under way, and
    /// while the flush with its head is.
    pub(super) fn take_step(&mut self) -> Option<Write> {
        let step = self.behind.take(self.written)?;
        self.bytes_total += bytes_of(std::slice::from_ref(&step));
        let number = step.segment;
        let written = written_in(number, &self.unlisted[&number], self.written);
        self.stepping = Some((number, written));
        Some(step)
    }

    /// That step is on stable storage, and everything that was written to its segment before.
    pub(super) fn stepped(&mut self) {
        self.behind.stored();
        let (number, written) = self.stepping.take().expect("a step was taken");
        if let Some(unlisted) = self.unlisted.get_mut(&number) {
            unlisted.durable = unlisted.durable.max(written);
        }
    }

    /// Bodies on their way.
    pub(super) fn behind(&self) -> &WriteBehind {
        &self.behind
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
        let durable = self.unlisted.get(&segment).map_or(0, |found| found.durable);
        let behind = self.behind.first_in(segment);
        behind.map_or(durable, |first| durable.min(first))
    }

    /// Segments that are full and durable, and have no footer.
    fn to_list(&self) -> Vec<u64> {
        let active = self.tail.at.segment;
        let is_durable = |(number, found): &(&u64, &Unlisted)| {
            (**number != active || self.tail.at.offset == 0)
                && found.durable >= found.end
                && self.behind.first_in(**number).is_none()
        };
        let found = self.unlisted.iter().filter(is_durable);
        found.map(|(number, _)| *number).collect()
    }

    /// Puts a record where writing goes on; `behind` says whether its body goes behind, and whether it
    /// is moved.
    fn put(&mut self, head: &Head, pieces: Vec<Piece>, behind: Option<bool>) {
        let at = self.tail.at;
        let encoded = head.encode(at.segment);
        let buffer = self.writes.at(at, self.tail.segment_bytes);
        buffer.put_slice(&encoded);
        let stride = padded(head.bytes);
        match behind {
            Some(is_move) => {
                self.writes.finish();
                self.unwritten_bytes += encoded.len();
                self.push_behind(head, pieces, is_move);
            }
            None => {
                self.put_body(head, pieces);
                self.writes.zeros(stride - head.bytes);
                self.unwritten_bytes += stride as usize;
                self.is_dirty = true;
            }
        }
        self.tail.at.offset += stride;
        let unlisted = self.unlisted.get_mut(&at.segment);
        let unlisted = unlisted.expect("what is written to has no footer");
        unlisted.heads.put_slice(&encoded);
        unlisted.end = self.tail.at.offset;
    }

    fn put_body(&mut self, head: &Head, pieces: Vec<Piece>) {
        let at = self.tail.at;
        for (part, piece) in head.parts.iter().zip(pieces) {
            self.writes.chunk(&piece.bytes);
            if !piece.bytes.is_empty() {
                let offset = part.offset;
                self.memory.insert(Position { offset, ..at }, piece.bytes);
            }
        }
    }

    fn push_behind(&mut self, head: &Head, pieces: Vec<Piece>, is_move: bool) {
        let at = self.tail.at;
        let places = head.parts.iter().map(|part| part.offset);
        self.behind.push(Body {
            at,
            segment_bytes: self.tail.segment_bytes,
            pieces: places
                .zip(pieces.into_iter().map(|piece| piece.bytes))
                .collect(),
            next: at.offset + Head::len_of(head.parts.len()),
            end: at.offset + head.bytes,
            is_move,
        });
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
            durable: 0,
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

/// How far a segment is written when a flush is that ends at `through`. Before the first record of this
/// boot it ends at the beginning of the last segment that was found, which is full like all before it.
fn written_in(number: u64, found: &Unlisted, through: Position) -> u32 {
    let is_full = number < through.segment || number == through.segment && through.offset == 0;
    match number == through.segment {
        _ if is_full => found.end,
        true => through.offset,
        false => 0,
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
            checksum: piece.checksum,
        });
        offset += len;
    }
    parts
}
