//! The stream as a snapshot: the newest RDB, the bytes since, and the replicated state.
//!
//! A snapshot is a run of pieces, each with one byte for its kind before it:
//!
//! | kind | content |
//! |---|---|
//! | 1 | head: format, epoch, executor, length, version, digest, and where RDB and stream begin and how long they are |
//! | 2 | bytes of the RDB |
//! | 3 | bytes of the stream behind the RDB's offset |
//! | 4 | a piece of the unit that is not complete |
//! | 5 | a piece ahead of the stream: its offset, whether a unit ends with it, its bytes |
//! | 6 | end |
//!
//! Replicas save their RDBs when they like, and no two servers write equal ones: so pieces of two replicas differ, and
//! what can be compared is the replicated state ([`Cut::digest`]). A cut waits for no server: the RDB is there.

use crate::command::{Import, ServerVersion, decode_replica, encode_replica};
use crate::rdb::{Files, offset_of};
use crate::rdb_pieces::{RdbLoading, RdbPieces, tagged};
use crate::shared::{Base, History};
use crate::state::{PENDING_MAX, State};
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, Wire, WireError};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const HEAD: u8 = 1;
const RDB: u8 = 2;
const STREAM: u8 = 3;
const UNIT: u8 = 4;
const PENDING: u8 = 5;
const END: u8 = 6;

/// The version of this format.
const FORMAT: u64 = 1;
/// The version of the format of a stream that another server's data is brought into: the import is behind the state.
const IMPORT_FORMAT: u64 = 2;

/// A snapshot that is being taken.
pub struct Cut {
    digest: u64,
    head: Option<Bytes>,
    rdb: RdbPieces,
    stream: VecDeque<Bytes>,
    /// Pieces that are written as they are: of the unit, ahead of the stream, and the end.
    rest: VecDeque<Bytes>,
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cut")
            .field("rdb", &self.rdb)
            .finish_non_exhaustive()
    }
}

/// The replicated state, without the bytes of pieces.
pub(crate) fn encode_state(state: &State, out: &mut Encoder) {
    let stream = &state.stream;
    out.varint(stream.epoch);
    encode_replica(stream.executor, out);
    out.varint(stream.len);
    out.u8(u8::from(stream.version_max.is_some()));
    if let Some(version) = stream.version_max {
        version.encode(out);
    }
    out.u64(stream.digest);
    if let Some(import) = &stream.import {
        import.encode(out);
    }
}

pub(crate) fn decode_state(input: &mut Decoder, has_import: bool) -> Result<State, WireError> {
    let mut state = State::default();
    let stream = &mut state.stream;
    stream.epoch = input.varint()?;
    stream.executor = decode_replica(input)?;
    stream.len = input.varint()?;
    stream.version_max = match input.u8()? {
        0 => None,
        1 => Some(ServerVersion::decode(input)?),
        tag => return Err(WireError::Tag("version in a snapshot", tag)),
    };
    stream.digest = input.u64()?;
    stream.import = has_import.then(|| Import::decode(input)).transpose()?;
    Ok(state)
}

impl Cut {
    pub(crate) fn new(state: &State, base: Base, history: &History) -> Self {
        let mut head = Encoder::new();
        encode_state(state, &mut head);
        let mut digest = xxh3_64(&head.into_bytes());
        let mut rest = VecDeque::new();
        for bytes in &state.unit {
            digest = xxh3_64_with_seed(bytes, digest);
            rest.push_back(tagged(UNIT, bytes));
        }
        for (start, (bytes, last)) in &state.pending {
            digest = xxh3_64_with_seed(bytes, digest ^ start.rotate_left(1) ^ u64::from(*last));
            let mut piece = Encoder::new();
            piece.u8(PENDING);
            piece.varint(*start);
            piece.u8(u8::from(*last));
            piece.bytes(bytes);
            rest.push_back(piece.into_bytes());
        }
        rest.push_back(Bytes::from_static(&[END]));
        let mut head = Encoder::new();
        head.u8(HEAD);
        head.varint(match state.stream.import {
            None => FORMAT,
            Some(_) => IMPORT_FORMAT,
        });
        encode_state(state, &mut head);
        head.varint(base.offset);
        head.varint(base.rdb.len());
        head.varint(history.bytes());
        debug_assert_eq!(history.begin(), base.offset, "no gap behind the RDB");
        debug_assert_eq!(history.end(), state.stream.len, "all of the stream");
        Cut {
            digest,
            head: Some(head.into_bytes()),
            rdb: RdbPieces::new(base.rdb),
            stream: history.chunks().clone(),
            rest,
        }
    }

    /// A digest that is equal on all replicas that cut at the same slot, whatever their RDBs are.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The next piece. Where the RDB cannot be read at present, an empty one: it is tried again.
    pub(crate) fn next_piece(&mut self, bytes: usize) -> Option<Bytes> {
        if let Some(head) = self.head.take() {
            return Some(head);
        }
        if let Some(piece) = self.rdb.next_piece(RDB, bytes) {
            return Some(piece);
        }
        let Some(chunk) = self.stream.front_mut() else {
            return self.rest.pop_front();
        };
        let mut piece = Encoder::new();
        piece.u8(STREAM);
        let part = chunk.split_to(bytes.min(chunk.len()));
        piece.slice(&part);
        if chunk.is_empty() {
            self.stream.pop_front();
        }
        // Small chunks share a piece.
        while let Some(chunk) = self.stream.front()
            && piece.len() + chunk.len() <= bytes
        {
            piece.slice(chunk);
            self.stream.pop_front();
        }
        Some(piece.into_bytes())
    }
}

/// What was loaded so far.
#[derive(Default)]
pub(crate) struct Loading {
    state: Option<State>,
    offset: u64,
    stream_left: u64,
    history: History,
    rdb: RdbLoading,
    has_end: bool,
}

impl fmt::Debug for Loading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loading")
            .field("rdb", &self.rdb)
            .field("stream_left", &self.stream_left)
            .finish_non_exhaustive()
    }
}

impl Loading {
    /// Loads the next piece. Its bytes may come from a damaged disk: everything is checked.
    pub(crate) fn load(&mut self, piece: Bytes, files: &dyn Files) -> Result<(), String> {
        let damaged = |what: &str| format!("the stream's part is damaged: {what}");
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
            (RDB, Some(_)) if bytes <= self.rdb.left() => self.rdb.push(&body)?,
            (STREAM, Some(_)) if self.rdb.left() == 0 && bytes <= self.stream_left => {
                self.stream_left -= bytes;
                self.history.push(body);
            }
            (UNIT, Some(state)) => {
                state.unit_bytes += bytes;
                state.unit.push(body);
            }
            (PENDING, Some(state)) if state.pending.len() < PENDING_MAX => {
                pending(state, body).map_err(wire)?;
            }
            (END, Some(_)) if self.rdb.left() == 0 && self.stream_left == 0 => {
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
        let has_import = match input.varint()? {
            FORMAT => false,
            IMPORT_FORMAT => true,
            _ => return Err(WireError::Range("format of a snapshot")),
        };
        let state = decode_state(&mut input, has_import)?;
        self.offset = input.varint()?;
        let rdb_bytes = input.varint()?;
        self.stream_left = input.varint()?;
        if self.offset.checked_add(self.stream_left) != Some(state.stream.len) {
            return Err(WireError::Range("length of a stream"));
        }
        self.history = History::new(self.offset);
        self.state = Some(state);
        input.finish()?;
        Ok(rdb_bytes)
    }

    /// The state, once everything is there and fits.
    pub(crate) fn end(&mut self) -> Result<State, String> {
        let state = self.state.take().filter(|_| self.has_end);
        let state = state.ok_or("the stream's part is incomplete: it has no end")?;
        let told = self.rdb.rdb().and_then(|rdb| offset_of(&**rdb));
        if told != Some(self.offset) {
            let offset = self.offset;
            return Err(format!(
                "the RDB of a snapshot is not of the offset {offset} but of {told:?}: it is damaged"
            ));
        }
        Ok(state)
    }

    /// What the driver needs of it.
    pub(crate) fn into_base(self) -> Option<(Base, History)> {
        let base = Base {
            rdb: Arc::clone(self.rdb.rdb()?),
            offset: self.offset,
        };
        Some((base, self.history))
    }
}

fn pending(state: &mut State, body: Bytes) -> Result<(), WireError> {
    let mut input = Decoder::new(body);
    let start = input.varint()?;
    let last = input.u8()? == 1;
    let bytes = input.bytes()?;
    state.pending_bytes += bytes.len() as u64;
    state.pending.insert(start, (bytes, last));
    input.finish()
}
