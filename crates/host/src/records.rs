//! The host's own records in the log, and how they and the machine's are appended.

use crate::apply::Applier;
use crate::decided::Located;
use crate::host::Host;
use crate::log::{Kind, Position, RECORD_HEADER_BYTES, decode_record};
use bytes::Bytes;
use quorate_core::{
    Application, Decoder, Encoder, Entry, EntryId, Machine, Record, Slot, Wire, WireError, Written,
};

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

impl<M: Machine, A: Application> Host<M, A> {
    /// Appends a machine's record; an entry it carries can be read from there later.
    pub(crate) fn append_record(&mut self, mut record: M::Record, sync: bool) {
        self.keep_attached(&mut record);
        let next = self.decided.next();
        let Some(log) = &mut self.log else {
            // Kept for the entry only: who waits for its commands is answered when it is decided.
            if record.entry().is_some() {
                self.retained.appended(record, Located::NOOP, next);
            }
            return;
        };
        if record.scalar().is_some() || record.slot().is_none() && record.entry().is_none() {
            log.count();
        }
        let mut body = Encoder::new();
        record.write(&mut body);
        let (at, len) = log.append(Kind::Machine, body, sync);
        self.retained.appended(record, Located { at, len }, next);
    }

    /// Notes a decision; says where the entry is, in a log. Its bytes are not written again if they
    /// are there.
    pub(crate) fn append_decided(&mut self, slot: Slot, entry: Option<&Entry>) -> Option<Located> {
        let log = self.log.as_mut()?;
        let place = entry.and_then(|entry| self.retained.entry_place(entry.id));
        let mut body = Encoder::new();
        match (entry, place) {
            (Some(entry), None) => {
                let entry = entry.clone();
                Learned { slot, entry }.encode(&mut body);
                let (at, len) = log.append(Kind::Learned, body, false);
                Some(Located { at, len })
            }
            (entry, place) => {
                let entry = entry.map(|entry| entry.id);
                Decided { slot, entry }.encode(&mut body);
                log.append(Kind::Decided, body, false);
                Some(place.unwrap_or(Located::NOOP))
            }
        }
    }
}
