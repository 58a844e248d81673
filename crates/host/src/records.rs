//! The host's own records in the log, and how they and the machine's are appended.

use crate::apply::Applier;
use crate::log::{Kind, RECORD_HEADER_BYTES, decode_record};
use crate::position::Position;
use bytes::Bytes;
use quorate_core::{Application, Decoder, Encoder, Entry, EntryId, Slot, Wire, WireError};

/// The body of a [`Kind::Decided`] record: the entry's bytes are in an earlier record.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) slot: Slot,
    pub(crate) entry: Option<EntryId>,
}

/// The body of a [`Kind::Learned`] record.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) slot: Slot,
    pub(crate) entry: Entry,
}

impl Wire for Decided {
    fn encode(&self, out: &mut Encoder) {
        self.slot.encode(out);
        self.entry.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Decided {
            slot: Slot::decode(input)?,
            entry: Option::decode(input)?,
        })
    }
}

impl Wire for Learned {
    fn encode(&self, out: &mut Encoder) {
        self.slot.encode(out);
        self.entry.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Learned {
            slot: Slot::decode(input)?,
            entry: Entry::decode(input)?,
        })
    }
}

/// The entry in the record at `at`, read back for a peer. `of_machine` reads those of the machine of an
/// epoch.
fn entry_of_record(
    at: Position,
    bytes: &Bytes,
    of_machine: impl FnOnce(u64, Bytes) -> Result<Option<Entry>, String>,
) -> Result<Entry, String> {
    let (header, end) = decode_record(at, bytes).ok_or("the record's checksum does not match")?;
    let body = bytes.slice(RECORD_HEADER_BYTES as usize..end);
    let entry = match header.kind {
        Kind::Machine => of_machine(header.epoch, body)?,
        Kind::Learned => Some(Learned::from_bytes(body).map_err(|e| e.to_string())?.entry),
        Kind::Boot
        | Kind::Decided
        | Kind::Mark
        | Kind::Release
        | Kind::Lost
        | Kind::Epoch
        | Kind::Progress => None,
    };
    entry.ok_or_else(|| "the record carries no entry".to_string())
}

impl<A: Application> Applier<A> {
    /// The entry in the record at `at`, read back for a peer.
    pub(crate) fn entry_at(&self, at: Position, bytes: &Bytes) -> Result<Entry, String> {
        entry_of_record(at, bytes, |epoch, record| self.entry_of(epoch, record))
    }

    /// The entry that a record of an epoch's machine carries, if it carries one.
    pub(crate) fn entry_of(&self, epoch: u64, record: Bytes) -> Result<Option<Entry>, String> {
        let epoch = self.epochs().chain.get(epoch);
        let epoch = epoch.ok_or("it is of an epoch that nobody remembers")?;
        let entry = self.catalogue().entry_of(&epoch.protocol, record);
        entry.map_err(|e| e.to_string())
    }
}
