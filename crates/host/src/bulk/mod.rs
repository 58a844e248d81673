//! The bulk store: fragments of payloads, each written once, without any I/O.
//!
//! Payloads do not lie in the log. Their fragments (or the whole of them) are appended to segments of
//! their own, beside the log's and written in the same flush, and an index in memory says where each
//! is. It is a heap, not a prefix: a segment is given up when nothing in it is wanted any more, or
//! after the little that is was moved. The byte format is drawn in `docs/log-format.md`.
//!
//! # Calling order
//!
//! ```text
//! open(source, identity, limit)      before the log is replayed; says what is damaged
//! held(entry, parts, code)           while replaying: whether a record's fragments are here
//! retain(|payload| is live)          once, when the replay is over: the rest is freed
//!
//! append(entry, n, share, ...)       before the record of the log that attaches it
//! read(payload, code)                 -> bytes at hand, a read to perform, or none
//! read_done(token, bytes)            of reads with a token of `BulkStore::owns`
//! free(payload)                      when the application says that it is dead
//! tidy(&mut reads)                   at least once a turn: moves a little of what is still live
//!
//! LogWriter::take_flush(bulk)        takes what was appended into the log's next flush
//! LogWriter::flushed(through, bulk)  that flush was performed
//! take_release()                     -> segments to delete or recycle, in any order
//! ```
//!
//! # What can be relied on
//!
//! - What `append` took is found, held and read at once: from memory until it is written.
//! - It is durable with the flush that makes a record durable that was appended behind it.
//! - `held` may be wrong only for bytes that were damaged while they lay on the disk: nothing is
//!   listed that an unfinished flush left incomplete. Bytes are checked whenever they are read; those
//!   that are wrong are forgotten, so that `held` and `codes` tell that they have to be rebuilt.
//! - A segment is released after a synced flush that was taken behind the last `free` or move: what
//!   made its payloads dead is durable before the bytes are gone.

use crate::api::LogRead;
use crate::log::{Identity, LogSource, Position};
use crate::opened::OpenError;
use bytes::Bytes;
use quorate_core::{EntryId, PayloadId, Share};

/// One fragment of one payload that is here: the index's view of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// Of which payload.
    pub payload: PayloadId,
    /// How many fragments rebuild it; with 1, this is the whole.
    pub code: u8,
    /// Which fragment.
    pub index: u8,
    /// How many there are.
    pub n: u8,
    /// Where its bytes are.
    pub at: Position,
    /// How many.
    pub len: u32,
    /// XXH3-64 of them.
    pub checksum: u64,
    /// Length of the payload in bytes.
    pub payload_len: u32,
}

/// What a look for a fragment comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Lookup {
    /// None is here under this code.
    None,
    /// Its bytes, from memory.
    Here(Fragment, Bytes),
    /// To be read; [`BulkStore::read_done`] takes the bytes.
    Read(LogRead),
}

/// What a read brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ReadBack {
    /// The bytes, checked.
    Bytes(Fragment, Bytes),
    /// It is elsewhere by now, or the first attempt failed: to be read again under the same token.
    Again(LogRead),
    /// It is damaged or cannot be read. The store has forgotten it: it is to be rebuilt from others.
    Damaged(Fragment, String),
    /// It was freed meanwhile, or nobody asked; or the store itself did, and is content.
    Nothing,
}

/// What opening a store found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BulkOpened {
    /// Segments there are, ascending.
    pub segments: Vec<u64>,
    /// Fragments found whole, those of the application's dead payloads included.
    pub fragments: u64,
    /// Segments read in full, because no footer lists what is in them.
    pub scanned: u64,
    /// Acknowledged bytes that hold no valid record: from here, up to there.
    pub damage: Vec<(Position, Position)>,
    /// Where writes that were never acknowledged were found incomplete.
    pub torn: Vec<Position>,
}

/// The store of one replica.
#[derive(Debug)]
pub(crate) struct BulkStore {}

impl BulkStore {
    /// An empty store: whatever the disk holds was cleared by the driver.
    pub(crate) fn create(identity: Identity, segment_bytes: u32) -> Self;

    /// Opens the store from the segments there are.
    ///
    /// # Errors
    /// [`OpenError`] when the disk cannot be read, or a segment is another replica's or newer than this
    /// program. Damage is no error: what is lost is not in the index.
    pub(crate) fn open(
        source: &mut dyn LogSource,
        identity: Identity,
        segment_bytes: u32,
    ) -> Result<(Self, BulkOpened), OpenError>;

    /// The application is complete: frees everything that is not live. Before this nothing is moved
    /// or released.
    pub(crate) fn retain(&mut self, is_live: impl FnMut(PayloadId) -> bool);

    /// Appends the parts of a share: payloads `first`, `first + 1`, … of an entry, whose true
    /// lengths are `lengths`, coded into `n` fragments. What is here already under that code and
    /// index is not written again.
    pub(crate) fn append(
        &mut self,
        entry: EntryId,
        n: u8,
        share: &Share,
        first: u32,
        lengths: &[u32],
    );

    /// Whether of each of the first `parts` payloads of an entry a fragment is here under this code.
    pub(crate) fn held(&self, entry: EntryId, parts: u32, code: u8) -> bool;

    /// The codes under which fragments of a payload are here.
    pub(crate) fn codes(&self, payload: PayloadId) -> Vec<u8>;

    /// The fragments of a payload that are here.
    pub(crate) fn find(&self, payload: PayloadId) -> impl Iterator<Item = Fragment>;

    /// All that is here, in the order of payloads.
    pub(crate) fn fragments(&self) -> impl Iterator<Item = Fragment>;

    /// Looks for a fragment of a payload under a code.
    pub(crate) fn read(&mut self, payload: PayloadId, code: u8) -> Lookup;

    /// Whether a read is this store's.
    pub(crate) fn owns(token: u64) -> bool;

    /// A read is done.
    pub(crate) fn read_done(&mut self, token: u64, bytes: Result<Bytes, String>) -> ReadBack;

    /// A payload is dead: its fragments are not wanted any more.
    pub(crate) fn free(&mut self, payload: PayloadId);

    /// Moves a little of what is live in segments that hold little else; adds what has to be read for
    /// that. Says whether there is more to do at once.
    pub(crate) fn tidy(&mut self, reads: &mut Vec<LogRead>) -> bool;

    /// Segments that may be deleted or recycled, in any order, since the last call.
    pub(crate) fn take_release(&mut self) -> Vec<u64>;

    /// Bytes of live fragments.
    pub(crate) fn live_bytes(&self) -> u64;

    /// Bytes handed out to be written, headers included.
    pub(crate) fn bytes_total(&self) -> u64;

    /// Bytes that no flush has taken.
    pub(crate) fn unwritten_bytes(&self) -> usize;
}
