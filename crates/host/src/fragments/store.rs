//! The store: what is here, what is wanted no more, and what becomes of the segments.

use super::format::Origin;
use super::heap::{Heap, Key};
use super::reads::{Asked, Failed, Purpose, Reads};
use super::scan::{FoundSegments, scan};
use super::writer::{BulkWriter, Piece};
use super::{Fragment, FragmentsOpened, Lookup, ReadBack};
use crate::api::{Flush, LogRead, Write};
use crate::log::{Beside, Identity, LogSource, LogWriter};
use crate::open_error::OpenError;
use bytes::Bytes;
use quorate_core::{EntryId, PayloadId, Share};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Moved bytes that may be under way at once, from being read to being written.
const MOVING_BYTES_MAX: usize = 256 << 10;

/// The store of one replica.
#[derive(Debug)]
pub(crate) struct FragmentStore {
    heap: Heap,
    writer: BulkWriter,
    reads: Reads,
    /// Fragments that could not be read. They stay until they are rebuilt: the fault may pass, and
    /// to give them up might leave too few.
    suspects: BTreeSet<Key>,
    /// Segments that were dead when the flush under way was taken.
    dying: Vec<u64>,
    /// The ticket of the last record behind that something of the log waits for.
    awaited: u64,
    released: Vec<u64>,
    moved_bytes_total: u64,
}

impl FragmentStore {
    /// Begins an empty store: whatever the disk holds is ignored.
    pub(crate) fn create(identity: Identity, segment_bytes: u32) -> Self {
        let writer = BulkWriter::new(identity, segment_bytes, (0, 0), BTreeMap::new());
        let mut store = Self::with(Heap::default(), writer);
        store.heap.settle();
        store
    }

    /// Opens the store from the segments there are.
    ///
    /// # Errors
    /// [`OpenError`] when the disk cannot be read, or a segment is another replica's or newer than this
    /// program. Damage is no error: what is lost is not in the index.
    pub(crate) fn open(
        source: &mut dyn LogSource,
        identity: Identity,
        segment_bytes: u32,
    ) -> Result<(Self, FragmentsOpened), OpenError> {
        let FoundSegments {
            heap,
            unlisted,
            last,
            opened,
        } = scan(source, &identity)?;
        let writer = BulkWriter::new(identity, segment_bytes, last, unlisted);
        Ok((Self::with(heap, writer), opened))
    }

    fn with(heap: Heap, writer: BulkWriter) -> Self {
        FragmentStore {
            heap,
            writer,
            reads: Reads::default(),
            suspects: BTreeSet::new(),
            dying: Vec::new(),
            awaited: 0,
            released: Vec::new(),
            moved_bytes_total: 0,
        }
    }

    /// Records of so many bytes or more go to the disk behind everything else, in steps of about so
    /// many.
    pub(crate) fn put_behind(&mut self, long_bytes_min: usize, step_bytes: usize) {
        self.writer.put_behind(long_bytes_min, step_bytes);
    }

    /// It is known what was decided: frees everything that is not wanted. Before this nothing is
    /// moved or released.
    pub(crate) fn retain(&mut self, mut is_wanted: impl FnMut(PayloadId) -> bool) {
        let mut payloads: Vec<PayloadId> = self.heap.all().map(|found| found.payload).collect();
        payloads.dedup();
        for payload in payloads {
            if !is_wanted(payload) {
                self.free(payload);
            }
        }
        self.heap.settle();
    }

    /// Appends the parts of a share: payloads `first`, `first + 1`, … of an entry, whose true
    /// lengths are `lengths`, coded into `n` fragments; `checksums` of the first of them are known. What
    /// is here already under that code and index is not written again.
    pub(crate) fn append(
        &mut self,
        entry: EntryId,
        n: u8,
        (share, checksums): (&Share, &[u64]),
        first: u32,
        lengths: &[u32],
    ) {
        let (code, index) = (share.code, share.index);
        let is_new = |part: u32| {
            let payload = PayloadId { entry, part };
            let key = Key {
                payload,
                code,
                index,
            };
            self.heap.get(&key).is_none() || self.suspects.contains(&key)
        };
        let checksums = checksums.iter().copied().map(Some);
        let checksums = checksums.chain(std::iter::repeat(None));
        let parts = (first..).zip(share.parts.iter().zip(lengths).zip(checksums));
        let new = parts.filter(|(part, _)| is_new(*part));
        let pieces: Vec<Piece> = new
            .map(|(part, ((bytes, payload_len), checksum))| {
                Piece::new(part, *payload_len, bytes.clone(), checksum)
            })
            .collect();
        let origin = Origin {
            entry,
            n,
            code,
            index,
        };
        self.put(origin, pieces, false);
    }

    fn put(&mut self, origin: Origin, pieces: Vec<Piece>, is_move: bool) {
        if pieces.is_empty() {
            return;
        }
        let (tail, parts) = self.writer.append(origin, pieces, is_move);
        let segment = tail.at.segment;
        self.heap.go_on_in(segment, tail.segment_bytes);
        for part in parts {
            let fragment = origin.fragment(segment, &part);
            self.suspects.remove(&fragment.key());
            self.heap.insert(fragment);
        }
    }

    /// Whether of each of the first `parts` payloads of an entry a fragment is here under this code.
    pub(crate) fn held(&self, entry: EntryId, parts: u32, code: u8) -> bool {
        (0..parts).all(|part| self.is_sound(PayloadId { entry, part }, code..=code))
    }

    /// The ticket of what is to be on stable storage so that these fragments are; `None` if no body
    /// of theirs is behind.
    pub(crate) fn ticket(&self, entry: EntryId, parts: u32, code: u8) -> Option<u64> {
        let parts = (0..parts).map(|part| PayloadId { entry, part });
        parts.filter_map(|payload| self.behind(payload, code)).max()
    }

    /// The same for one payload.
    pub(crate) fn behind(&self, payload: PayloadId, code: u8) -> Option<u64> {
        let here = self.heap.named(payload, code..=code);
        let behind = self.writer.behind();
        here.filter_map(|found| Some(behind.find(found.at)?.1))
            .max()
    }

    /// The last record appended to the log names these fragments: no flush is synced before they are
    /// on stable storage, or are with it.
    pub(crate) fn await_durable(&mut self, entry: EntryId, parts: u32, code: u8) {
        let ticket = self.ticket(entry, parts, code);
        self.awaited = self.awaited.max(ticket.unwrap_or(0));
    }

    /// Whether a record of the log waits for a body that is behind.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.is_stored(self.awaited)
    }

    /// Whether what is behind is on stable storage up to this ticket.
    pub(crate) fn is_stored(&self, ticket: u64) -> bool {
        self.writer.behind().is_done(ticket)
    }

    /// Whether a flush is to be taken although nothing waits for it: a body goes behind its head.
    pub(crate) fn has_waiting_head(&self) -> bool {
        self.writer.has_waiting_head()
    }

    /// The next step of what is behind.
    pub(crate) fn take_step(&mut self) -> Option<Write> {
        self.writer.take_step()
    }

    /// That step is on stable storage.
    pub(crate) fn stepped(&mut self) {
        self.writer.stepped();
    }

    /// Whether there is a fragment of a payload under one of these codes, as far as known a whole one.
    pub(crate) fn is_sound(&self, payload: PayloadId, codes: RangeInclusive<u8>) -> bool {
        let mut fragments = self.heap.named(payload, codes);
        fragments.any(|found| !self.suspects.contains(&found.key()))
    }

    /// Whether the fragment of this place is here, or all of it, under one of these codes, as far as known
    /// whole.
    pub(crate) fn has_own(&self, payload: PayloadId, codes: RangeInclusive<u8>, place: u8) -> bool {
        let fragments = self.heap.named(payload, codes);
        let mut own = fragments.filter(|found| found.code == 1 || found.index == place);
        own.any(|found| !self.suspects.contains(&found.key()))
    }

    /// Fragments of a payload under other codes than this one are not wanted any more.
    pub(crate) fn free_other(&mut self, payload: PayloadId, code: u8) {
        let others = self.heap.of(payload).filter(|found| found.code != code);
        let keys: Vec<Key> = others.map(Fragment::key).collect();
        for key in keys {
            self.heap.remove(&key);
            self.suspects.remove(&key);
        }
    }

    /// The codes under which fragments of a payload are here, ascending.
    pub(crate) fn codes(&self, payload: PayloadId) -> Vec<u8> {
        let mut codes: Vec<u8> = self.heap.of(payload).map(|found| found.code).collect();
        codes.dedup();
        codes
    }

    /// All that is here, in the order of payloads.
    pub(crate) fn fragments(&self) -> impl Iterator<Item = &Fragment> {
        self.heap.all()
    }

    /// Looks for a fragment of a payload under a code.
    pub(crate) fn read(&mut self, payload: PayloadId, code: u8) -> Lookup {
        let Some(fragment) = self.heap.named(payload, code..=code).next().copied() else {
            return Lookup::None;
        };
        match self.at_hand(&fragment) {
            Some(bytes) => Lookup::Here(fragment, bytes),
            None => Lookup::Read(self.reads.ask(&fragment, Purpose::Caller)),
        }
    }

    /// Whether a read is this store's.
    pub(crate) fn owns(token: u64) -> bool {
        Reads::owns(token)
    }

    /// A read is done.
    pub(crate) fn read_done(&mut self, token: u64, bytes: Result<Bytes, String>) -> ReadBack {
        let Some(asked) = self.reads.take(token) else {
            return ReadBack::Nothing;
        };
        // Meanwhile it may have been freed, or written elsewhere.
        let Some(fragment) = self.heap.get(&asked.key).copied() else {
            return ReadBack::Nothing;
        };
        if fragment.at == asked.at {
            return match bytes {
                Ok(bytes) if fragment.is(&bytes) => {
                    self.suspects.remove(&asked.key);
                    self.has_read(asked.purpose, fragment, bytes)
                }
                wrong => self.has_failed(token, asked, fragment, wrong),
            };
        }
        match (asked.purpose, self.at_hand(&fragment)) {
            (Purpose::Move, _) => ReadBack::Nothing,
            (Purpose::Caller, Some(bytes)) => ReadBack::Bytes(fragment, bytes),
            (Purpose::Caller, None) => ReadBack::Again(self.reads.again(token, asked, &fragment)),
        }
    }

    fn has_read(&mut self, purpose: Purpose, fragment: Fragment, bytes: Bytes) -> ReadBack {
        match purpose {
            Purpose::Caller => ReadBack::Bytes(fragment, bytes),
            Purpose::Move => {
                self.move_here(&fragment, bytes);
                ReadBack::Nothing
            }
        }
    }

    fn has_failed(
        &mut self,
        token: u64,
        asked: Asked,
        fragment: Fragment,
        wrong: Result<Bytes, String>,
    ) -> ReadBack {
        match asked.failed(wrong.as_ref().ok()) {
            Failed::Maybe(asked) => ReadBack::Again(self.reads.again(token, asked, &fragment)),
            Failed::ForGood if !self.suspects.insert(asked.key) => ReadBack::Nothing,
            Failed::ForGood => {
                let why = wrong.err();
                let why = why.unwrap_or_else(|| "its checksum does not match".to_owned());
                ReadBack::Damaged(fragment, why)
            }
        }
    }

    fn at_hand(&self, fragment: &Fragment) -> Option<Bytes> {
        if fragment.len == 0 {
            return Some(Bytes::new());
        }
        self.writer.in_memory(fragment.at).cloned()
    }

    /// A payload is dead: its fragments are not wanted any more.
    pub(crate) fn free(&mut self, payload: PayloadId) {
        let keys: Vec<Key> = self.heap.of(payload).map(Fragment::key).collect();
        for key in keys {
            self.heap.remove(&key);
            self.suspects.remove(&key);
        }
    }

    /// Moves a little of what is live in segments that hold little else: adds to `reads` what has to
    /// be read for that. It goes on when reads and flushes are done.
    pub(crate) fn tidy(&mut self, reads: &mut Vec<LogRead>) {
        let Some(segment) = self.heap.sparse() else {
            return;
        };
        while self.moving_bytes() < MOVING_BYTES_MAX {
            let Some(key) = self.heap.pop_name(segment) else {
                return;
            };
            let found = self.heap.get(&key).copied();
            let Some(fragment) = found.filter(|found| found.at.segment == segment) else {
                continue;
            };
            match self.at_hand(&fragment) {
                Some(bytes) => self.move_here(&fragment, bytes),
                None => reads.push(self.reads.ask(&fragment, Purpose::Move)),
            }
        }
    }

    fn moving_bytes(&self) -> usize {
        let behind = self.writer.behind().bytes(true);
        self.reads.moving_bytes() + self.writer.unwritten_bytes() + behind
    }

    /// Writes a fragment again where writing goes on. Its former place is kept until that is durable.
    fn move_here(&mut self, fragment: &Fragment, bytes: Bytes) {
        self.moved_bytes_total += u64::from(fragment.len);
        let part = fragment.payload.part;
        let piece = Piece::new(part, fragment.payload_len, bytes, Some(fragment.checksum));
        self.put(Origin::of(fragment), vec![piece], true);
    }

    /// The next flush, of the log and of what was appended here, if it is time for one.
    pub(crate) fn take_flush(&mut self, log: &mut LogWriter) -> Option<Flush> {
        let flush = log.take_flush(&Beside {
            unwritten_bytes: self.unwritten_bytes(),
            is_awaited: self.is_awaited(),
            has_waiting_head: self.has_waiting_head(),
        });
        flush.map(|flush| Flush {
            fragments: self.take_writes(flush.sync),
            ..flush
        })
    }

    /// What is to be written with the log's next flush, synced or not.
    pub(crate) fn take_writes(&mut self, sync: bool) -> Vec<Write> {
        // Releases may rest on records of the log that this flush makes durable, and on copies.
        let behind = self.writer.behind();
        let is_free = |segment: &&u64| behind.first_in(**segment).is_none();
        self.dying = if sync && !behind.has_moves() {
            self.heap.dead().iter().filter(is_free).copied().collect()
        } else {
            Vec::new()
        };
        self.writer.take(sync, self.heap.dead())
    }

    /// That flush was performed.
    pub(crate) fn flushed(&mut self) {
        self.writer.flushed();
        for segment in std::mem::take(&mut self.dying) {
            self.heap.drop_segment(segment);
            self.writer.forget(segment);
            self.released.push(segment);
        }
    }

    /// Segments that may be deleted or recycled, in any order, since the last call.
    pub(crate) fn take_release(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.released)
    }

    /// Bytes of live fragments.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.heap.live_bytes()
    }

    /// Bytes of fragments that were written again, out of segments that held little else.
    pub(crate) fn moved_bytes_total(&self) -> u64 {
        self.moved_bytes_total
    }

    /// Bytes handed out to be written, headers included.
    pub(crate) fn bytes_total(&self) -> u64 {
        self.writer.bytes_total()
    }

    /// Bytes that no flush has taken, apart from bodies that are behind.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.writer.unwritten_bytes()
    }

    /// Bytes of bodies that are behind.
    pub(crate) fn behind_bytes(&self) -> usize {
        self.writer.behind().bytes(false)
    }
}
