//! Turns records into writes, and flushes into marks.

use super::format::{
    Census, Identity, Kind, LOG_MAGIC, MARK_BYTES, RECORD_HEADER_BYTES, RecordHeader,
    SEGMENT_HEADER_BYTES, SegmentHeader, encode_mark, padded,
};
use super::scan::{Blank, Scanned};
use super::writes::{Unsynced, Writes, bytes_of};
use crate::api::Flush;
use crate::position::Position;
use bytes::{BufMut, Bytes};
use quorate_core::Encoder;

/// What may wait in memory for a flush that is synced.
const UNWRITTEN_BYTES_MAX: usize = 256 << 10;

/// Where writing goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tail {
    /// The position of the next record.
    pub(crate) at: Position,
    /// Size of that segment's file.
    pub(crate) segment_bytes: u32,
}

/// A flush that the driver is performing.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// The position in the log at which the flush ends.
    through: Position,
    /// Whether it is synced.
    sync: bool,
    /// Where the last promise ends that it holds.
    promised: Position,
}

/// What the store of fragments, beside the log, has for the next flush.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    /// Bytes that no flush has taken.
    pub(crate) unwritten_bytes: usize,
    /// Whether a record of the log names fragments whose bytes are not on the disk: no flush is synced meanwhile.
    pub(crate) is_awaited: bool,
    /// Whether long fragments cannot go on before the next flush.
    pub(crate) has_waiting_head: bool,
}

/// The writing end of the log. Appends collect until the driver takes them as one flush.
#[derive(Debug)]
pub(crate) struct LogWriter {
    identity: Identity,
    group: u32,
    epoch: u64,
    boot: u32,
    census: Census,
    segment_bytes: u32,
    tail: Tail,
    /// The writes of this turn, up to the tail.
    writes: Writes,
    /// Something appended since the last flush was taken must become durable.
    sync_wanted: bool,
    /// What was appended since is to be written even if nothing has to become durable.
    write_wanted: bool,
    /// Bytes appended since.
    unwritten_bytes: usize,
    /// The flush the driver is performing.
    in_flight: Option<InFlight>,
    /// Everything before this was written, synced or not: it can be read back.
    written: Position,
    /// Everything before this is on stable storage, as far as this boot knows.
    durable: Position,
    /// Where the last promise ends that this boot appended.
    last_promise: Position,
    /// Where the last of them ends that is on stable storage.
    promised: Position,
    unsynced: Unsynced,
    bytes_total: u64,
    syncs_total: u64,
}

impl LogWriter {
    /// Begins an empty log.
    pub(crate) fn create(identity: Identity, group: u32, epoch: u64, segment_bytes: u32) -> Self {
        Self::begin_behind(identity, group, epoch, segment_bytes, (0, 0))
    }

    /// Begins a log behind the `last` segment, of which nothing can be used, and the highest
    /// ordinal of a boot that was found in any.
    pub(crate) fn begin_behind(
        identity: Identity,
        group: u32,
        epoch: u64,
        segment_bytes: u32,
        (last, boot): (u64, u32),
    ) -> Self {
        let tail = Tail {
            at: Position {
                segment: last,
                offset: 0,
            },
            segment_bytes: 0,
        };
        let mut log = Self::new(identity, group, epoch, segment_bytes, tail, boot + 1);
        log.roll(0);
        log
    }

    /// Goes on at the tail of a log that was read.
    ///
    /// What was read may still lie in the page cache of a process that was killed before its sync
    /// returned. The first sync therefore covers every segment that no mark vouches for.
    pub(crate) fn resume(
        identity: Identity,
        group: u32,
        epoch: u64,
        segment_bytes: u32,
        scanned: &Scanned,
    ) -> Self {
        let mut log = Self::new(
            identity,
            group,
            epoch,
            segment_bytes,
            scanned.tail,
            scanned.boot + 1,
        );
        log.census = scanned.census.begun();
        let unmarked = |tail: &&Tail| tail.at.segment >= scanned.marked.segment;
        log.unsynced = Unsynced::of(scanned.segments.iter().filter(unmarked).copied());
        scanned.torn_blanks.iter().for_each(|blank| log.wipe(blank));
        log
    }

    fn wipe(&mut self, blank: &Blank) {
        let from = Position {
            segment: blank.of.segment,
            offset: blank.from,
        };
        self.writes.at(from, blank.segment_bytes);
        self.writes.zeros(blank.to.saturating_sub(blank.from));
        self.writes.finish();
    }

    fn new(
        identity: Identity,
        group: u32,
        epoch: u64,
        segment_bytes: u32,
        tail: Tail,
        boot: u32,
    ) -> Self {
        LogWriter {
            identity,
            group,
            epoch,
            boot,
            census: Census::first(),
            segment_bytes,
            tail,
            writes: Writes::default(),
            sync_wanted: false,
            write_wanted: false,
            unwritten_bytes: 0,
            in_flight: None,
            written: tail.at,
            durable: Position::default(),
            last_promise: Position::default(),
            promised: Position::default(),
            unsynced: Unsynced::default(),
            bytes_total: 0,
            syncs_total: 0,
        }
    }

    /// Appends a record; says where it is and how long it is with its header. With `sync`, the
    /// next flush is synced.
    pub(crate) fn append(&mut self, kind: Kind, mut body: Encoder, sync: bool) -> (Position, u32) {
        let body_bytes = u32::try_from(body.len()).expect("records are bounded far below 4 GiB");
        let stride = padded(RECORD_HEADER_BYTES + body_bytes);
        if self.tail.at.offset + stride + MARK_BYTES > self.tail.segment_bytes {
            self.roll(stride);
        }
        self.sync_wanted |= sync;
        let at = self.tail.at;
        self.put(kind, &body.take_chunks(), body_bytes);
        if sync && matches!(kind, Kind::Machine | Kind::Epoch | Kind::Lost) {
            self.last_promise = self.tail.at;
        }
        (at, RECORD_HEADER_BYTES + body_bytes)
    }

    /// Records belong to this epoch from here on.
    pub(crate) fn enter(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// What was appended so far must become durable.
    pub(crate) fn want_sync(&mut self) {
        self.sync_wanted = true;
    }

    /// The next record concerns all slots: it is counted.
    pub(crate) fn count(&mut self) {
        self.census = self.census.next();
    }

    /// Everything appended since the last flush, if it is time to write it; `None` while a flush is
    /// under way.
    ///
    /// What nothing waits for goes with the next flush that is synced anyway: a write of its own
    /// would cost as much as the small synced one before it.
    ///
    /// What the store of fragments has goes along: the records of the log that name fragments become durable
    /// with them. Whoever calls this adds the writes of that store.
    pub(crate) fn take_flush(&mut self, beside: &Beside) -> Option<Flush> {
        let unwritten = beside.unwritten_bytes;
        let sync = self.sync_wanted && !beside.is_awaited;
        let is_due = sync
            || self.write_wanted
            || beside.has_waiting_head
            || self.unwritten_bytes.max(unwritten) >= UNWRITTEN_BYTES_MAX;
        if self.in_flight.is_some() || !is_due {
            return None;
        }
        if self.writes.is_empty() && unwritten == 0 && !sync {
            return None;
        }
        self.write_wanted = false;
        self.unwritten_bytes = 0;
        self.sync_wanted &= !sync;
        let mut writes = self.writes.take();
        self.syncs_total += u64::from(sync);
        self.unsynced.cover(&mut writes, sync);
        let through = self.tail.at;
        self.in_flight = Some(InFlight {
            through,
            sync,
            promised: self.last_promise,
        });
        self.bytes_total += bytes_of(&writes);
        Some(Flush {
            writes,
            fragments: Vec::new(),
            sync,
            through,
        })
    }

    /// Whether there are bytes that no flush has taken.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.unwritten_bytes > 0
    }

    /// Bytes that no flush has taken.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }

    /// Has the next flush take what there is, although nothing waits for it.
    pub(crate) fn want_write(&mut self) {
        self.write_wanted = true;
    }

    /// The driver performed the flush that ends at `through`. A synced one gets its mark.
    pub(crate) fn flushed(&mut self, through: Position) {
        let flush = self.in_flight.take().expect("a flush was taken");
        assert_eq!(
            flush.through, through,
            "flushes end in the order they were taken"
        );
        self.written = through;
        if flush.sync {
            self.durable = through;
            self.promised = flush.promised;
            let mark = encode_mark(through);
            let length = mark.len() as u32;
            // Room for one mark is kept at the end of each segment; more records may have been
            // appended meanwhile, so the segment may be full: the next flush brings a mark then.
            if self.tail.at.offset + MARK_BYTES <= self.tail.segment_bytes {
                self.put(Kind::Mark, &[mark], length);
            }
        }
    }

    /// Whether the record at `at` was written, so that it can be read back.
    pub(crate) fn is_written(&self, at: Position) -> bool {
        at < self.written
    }

    /// Where the next record begins, or the next segment.
    pub(crate) fn tail(&self) -> Position {
        self.tail.at
    }

    /// Whether everything before `at` is on stable storage.
    pub(crate) fn is_durable(&self, at: Position) -> bool {
        at <= self.durable
    }

    /// Where the last promise ends that is on stable storage; before the log if this boot made none.
    pub(crate) fn promised(&self) -> Position {
        self.promised
    }

    /// Bytes handed out to be written, headers and marks included.
    pub(crate) fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// Flushes handed out that ask for a sync.
    pub(crate) fn syncs_total(&self) -> u64 {
        self.syncs_total
    }

    fn put(&mut self, kind: Kind, body: &[Bytes], body_bytes: u32) {
        let header = RecordHeader {
            kind,
            body_bytes,
            census: self.census,
            boot: self.boot,
            group: self.group,
            epoch: self.epoch,
        };
        let at = self.tail.at;
        let buffer = self.writes.at(at, self.tail.segment_bytes);
        buffer.put_slice(&header.encode(at, body));
        body.iter().for_each(|chunk| self.writes.chunk(chunk));
        let padding = header.stride() - RECORD_HEADER_BYTES - body_bytes;
        self.writes.zeros(padding);
        self.unwritten_bytes += header.stride() as usize;
        self.tail.at.offset += header.stride();
    }

    /// Begins the next segment, large enough for a record of `stride` bytes.
    fn roll(&mut self, stride: u32) {
        self.writes.finish();
        let full = self.tail;
        let segment = full.at.segment + 1;
        let segment_bytes = self
            .segment_bytes
            .max(SEGMENT_HEADER_BYTES + stride + MARK_BYTES);
        let header = SegmentHeader {
            identity: self.identity,
            segment,
            previous_end: full.at.offset,
            segment_bytes,
            boot: self.boot,
        };
        self.tail = Tail {
            at: Position { segment, offset: 0 },
            segment_bytes,
        };
        let buffer = self.writes.at(self.tail.at, segment_bytes);
        buffer.put_slice(&header.encode(LOG_MAGIC));
        self.tail.at.offset = SEGMENT_HEADER_BYTES;
    }
}
