//! The state as a snapshot: the newest RDB, the bodies since, and what `WATCH` needs.
//!
//! A snapshot is a run of pieces, each with one byte for its kind before it:
//!
//! | kind | content |
//! |---|---|
//! | 1 | head: format, length, digests, the RDB's position, the digest of replies there, the RDB's length |
//! | 2 | versions of buckets that are not 0: the bucket and its version |
//! | 3 | bytes of the RDB |
//! | 4 | bodies behind the RDB's position, each with its length |
//! | 5 | end |
//!
//! Replicas save their RDBs when they like, so pieces differ, and what is compared is the replicated state
//! ([`Cut::digest`]). A cut waits for no server: the RDB is there.

use crate::body::Entry;
use crate::history::History;
use crate::shared::Base;
use crate::state::State;
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, WireError};
use quorate_redis_effects::{Files, RdbLoading, RdbPieces};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const HEAD: u8 = 1;
const VERSIONS: u8 = 2;
const RDB: u8 = 3;
const ENTRIES: u8 = 4;
const END: u8 = 5;

/// The version of this format.
const FORMAT: u64 = 1;
/// Versions of buckets in one piece.
const VERSIONS_PER_PIECE: usize = 4096;
/// Entries that are looked for at a time.
const ENTRIES_AT_ONCE: usize = 64;

/// A snapshot that is being taken.
pub struct Cut {
    digest: u64,
    /// The head, and the versions.
    first: VecDeque<Bytes>,
    rdb: RdbPieces,
    history: History,
    /// The position of the next entry to write.
    next: u64,
    has_ended: bool,
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cut")
            .field("rdb", &self.rdb)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Cut {
    pub(crate) fn new(state: &State, base: Base, history: History) -> Self {
        let mut head = Encoder::new();
        head.u8(HEAD);
        head.varint(FORMAT);
        head.varint(state.len);
        head.u64(state.digest);
        head.u64(state.all);
        head.varint(base.position);
        head.u64(base.replies);
        head.varint(base.rdb.len());
        let mut first = VecDeque::from([head.into_bytes()]);
        let mut digest = [state.digest, state.all]
            .iter()
            .fold(state.len, |seed, part| {
                xxh3_64_with_seed(&part.to_le_bytes(), seed)
            });
        let noted = state.versions.iter().zip(0_u64..);
        let noted: Vec<(u64, u64)> = noted
            .filter(|(version, _)| **version != 0)
            .map(|(version, bucket)| (bucket, *version))
            .collect();
        for some in noted.chunks(VERSIONS_PER_PIECE) {
            let mut piece = Encoder::new();
            piece.u8(VERSIONS);
            for (bucket, version) in some {
                piece.varint(*bucket);
                piece.u64(*version);
            }
            let piece = piece.into_bytes();
            digest = xxh3_64_with_seed(&piece, digest);
            first.push_back(piece);
        }
        debug_assert_eq!(history.begin(), base.position, "no gap behind the RDB");
        debug_assert_eq!(history.end(), state.len, "all that was taken");
        Cut {
            digest,
            first,
            rdb: RdbPieces::new(base.rdb),
            next: history.begin(),
            history,
            has_ended: false,
        }
    }

    /// A digest that is equal on all replicas that cut at the same slot, whatever their RDBs are.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The next piece. Where the RDB cannot be read at present, an empty one: it is tried again.
    pub(crate) fn next_piece(&mut self, bytes: usize) -> Option<Bytes> {
        if let Some(first) = self.first.pop_front() {
            return Some(first);
        }
        if let Some(piece) = self.rdb.next_piece(RDB, bytes) {
            return Some(piece);
        }
        if self.next < self.history.end() {
            return Some(self.entries(bytes));
        }
        let is_end = !std::mem::replace(&mut self.has_ended, true);
        is_end.then(|| Bytes::from_static(&[END]))
    }

    /// A piece of entries, about so many bytes of them.
    fn entries(&mut self, bytes: usize) -> Bytes {
        let mut piece = Encoder::new();
        piece.u8(ENTRIES);
        let some = self.history.from(self.next, ENTRIES_AT_ONCE);
        for entry in some.unwrap_or_default() {
            piece.varint(entry.body.len() as u64);
            piece.slice(&entry.body);
            self.next += 1;
            if piece.len() >= bytes {
                break;
            }
        }
        piece.into_bytes()
    }
}

/// What was loaded so far.
#[derive(Default)]
pub(crate) struct Loading {
    state: Option<State>,
    position: u64,
    replies: u64,
    history: History,
    rdb: RdbLoading,
    has_end: bool,
}

impl fmt::Debug for Loading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loading")
            .field("rdb", &self.rdb)
            .field("next", &self.history.end())
            .finish_non_exhaustive()
    }
}

fn damaged(what: &str) -> String {
    format!("the part of Redis's commands is damaged: {what}")
}

impl Loading {
    /// Loads the next piece. Its bytes may come from a damaged disk: everything is checked.
    pub(crate) fn load(&mut self, piece: Bytes, files: &dyn Files) -> Result<(), String> {
        if self.has_end || piece.is_empty() {
            return Err(damaged("a piece that does not belong there"));
        }
        let (kind, body) = (piece[0], piece.slice(1..));
        let bytes = body.len() as u64;
        let wire = |error: WireError| damaged(&error.to_string());
        match (kind, self.state.as_mut()) {
            (HEAD, None) => {
                let bytes = self.head(body).map_err(wire)?;
                self.rdb.begin(bytes, files)?;
            }
            (VERSIONS, Some(state)) => versions(state, body).map_err(wire)?,
            (RDB, Some(_)) if bytes <= self.rdb.left() => self.rdb.push(&body)?,
            (ENTRIES, Some(state)) if self.rdb.left() == 0 => {
                let most = state.len;
                entries(&mut self.history, most, body).map_err(wire)?;
            }
            (END, Some(state)) if self.rdb.left() == 0 && self.history.end() == state.len => {
                self.rdb.finish()?;
                self.has_end = true;
            }
            _ => return Err(damaged("a piece that does not belong there")),
        }
        Ok(())
    }

    /// Says how many bytes the RDB has.
    fn head(&mut self, body: Bytes) -> Result<u64, WireError> {
        let mut input = Decoder::new(body);
        if input.varint()? != FORMAT {
            return Err(WireError::Range("format of a snapshot"));
        }
        let state = State {
            len: input.varint()?,
            digest: input.u64()?,
            all: input.u64()?,
            ..State::default()
        };
        self.position = input.varint()?;
        self.replies = input.u64()?;
        let rdb_bytes = input.varint()?;
        if self.position > state.len {
            return Err(WireError::Range("position of an RDB"));
        }
        self.history = History::new(self.position);
        self.state = Some(state);
        input.finish()?;
        Ok(rdb_bytes)
    }

    /// The state, once everything is there.
    pub(crate) fn end(&mut self) -> Result<State, String> {
        let state = self.state.take().filter(|_| self.has_end);
        state.ok_or_else(|| damaged("it has no end"))
    }

    /// What the replica's server begins with.
    pub(crate) fn into_base(self) -> Option<(Base, History)> {
        let base = Base {
            rdb: Arc::clone(self.rdb.rdb()?),
            position: self.position,
            replies: self.replies,
        };
        Some((base, self.history))
    }
}

fn versions(state: &mut State, body: Bytes) -> Result<(), WireError> {
    let mut input = Decoder::new(body);
    while input.remaining() > 0 {
        let bucket = usize::try_from(input.varint()?).unwrap_or(usize::MAX);
        let place = state.versions.get_mut(bucket);
        *place.ok_or(WireError::Range("bucket"))? = input.u64()?;
    }
    Ok(())
}

fn entries(history: &mut History, end: u64, body: Bytes) -> Result<(), WireError> {
    let mut input = Decoder::new(body);
    while input.remaining() > 0 {
        let entry = Entry::of(&input.bytes()?).ok_or(WireError::Range("body"))?;
        if history.end() == end {
            return Err(WireError::Range("number of bodies"));
        }
        history.push(entry);
    }
    Ok(())
}
