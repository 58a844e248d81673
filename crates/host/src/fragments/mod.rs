//! The fragment store: fragments of payloads, each written once, without any I/O.
//!
//! Payloads do not lie in the log. Their fragments (or the whole of them) are appended to segments of
//! their own, beside the log's and written in the same flush, and an index in memory says where each
//! is. It is a heap, not a prefix: a segment is given up when nothing in it is wanted any more, or
//! after the little that is was moved. The byte format is drawn in `docs/reference/log-format.md`.
//!
//! # Calling order
//!
//! ```text
//! FragmentStore::open(source, ..)        before the log is replayed; says what is damaged
//! held(entry, parts, code)           while replaying: whether a record's fragments are here
//! retain(|payload| is live)          once, when it is known what was decided: the rest is freed
//!
//! append(entry, n, share, ...)       before the record of the log that attaches it
//! await_durable(entry, parts, code)  with that record
//! take_step() -> write and sync it, then stepped()     beside the log's flushes, at most one at a time
//! read(payload, code)                 -> bytes at hand, a read to perform, or none
//! read_done(token, bytes)            of reads with a token of `FragmentStore::owns`
//! free(payload)                      when the application says that it is dead
//! tidy(&mut reads)                   once a turn: moves a little of what is still live
//!
//! take_flush(log)                    takes what was appended into the log's next flush
//! flushed()                          that flush was performed
//! take_release()                     -> segments to delete or recycle, in any order
//! ```
//!
//! # What can be relied on
//!
//! - What `append` took is found, held and read at once: from memory until it is written.
//! - It is durable with the next synced flush, as the records of the log are that were appended by then;
//!   but for the bodies of long records (`write_behind.rs`), which are when their steps are. While a record of
//!   the log names fragments of those (`await_durable`), no flush is synced: so also then nothing that
//!   depends on a record is said before the record and all it names are durable.
//! - `held` may be wrong only for bytes that were damaged while they lay on the disk: nothing is
//!   listed that an unfinished flush left incomplete. Bytes are checked whenever they are read; a fragment
//!   whose bytes are wrong is sound no more, so that it is rebuilt, and stays until then: the fault may
//!   have been one of the way, and others may have lost theirs.
//! - A footer lists a segment once everything in it is durable, bodies included.
//! - A segment is released after a synced flush that was taken behind the last `free` or move, when no
//!   body of a move is behind any more: what made its payloads dead, or holds them instead, is durable
//!   before the bytes are gone. None is while a body has still to be written to it.

mod format;
#[cfg(test)]
pub(crate) mod fuzz;
mod heap;
mod reads;
mod scan;
mod store;
#[cfg(test)]
mod tests;
mod write_behind;
mod writer;

pub(crate) use store::FragmentStore;

use crate::api::LogRead;
use crate::position::Position;
use bytes::Bytes;
use quorate_core::PayloadId;
use xxhash_rust::xxh3::xxh3_64;

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
    /// To be read; [`FragmentStore::read_done`] takes the bytes.
    Read(LogRead),
}

/// What a read brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ReadBack {
    /// The bytes, checked.
    Bytes(Fragment, Bytes),
    /// It is elsewhere by now, or the attempt failed: to be read again under the same token.
    Again(LogRead),
    /// It is damaged or cannot be read. The store has forgotten it: it is to be rebuilt from others.
    Damaged(Fragment, String),
    /// It was freed meanwhile, or nobody asked; or the store itself did, and is content.
    Nothing,
}

/// What opening a store found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FragmentsOpened {
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

impl Fragment {
    /// Whether these are its bytes.
    #[must_use]
    pub fn is(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.len as usize && xxh3_64(bytes) == self.checksum
    }
}
