//! The journal of a participant as bytes: a header, then a record for each step, with a length and a checksum.
//!
//! A record holds all changes of one step, so that a process that dies while it writes leaves all of a step or nothing
//! that is read.

use super::kept::{Change, Kept};
use crate::book::ParticipantId;
use crate::wire::{Reader, WireError, Writer};

/// What a journal begins with: its form and version.
const MAGIC: u32 = u32::from_be_bytes(*b"QXF1");
/// How many bytes are in front of the changes of a record.
const RECORD_HEAD: usize = 8;

/// What a session's journal says of it and of the participant's orders.
#[derive(Debug)]
pub struct Journaled {
    /// The participant that the journal is of.
    pub participant: ParticipantId,
    /// How many bytes count: what follows was cut off while it was written.
    pub bytes: usize,
    pub(super) kept: Kept,
}

/// The bytes that the journal of a participant begins with.
#[must_use]
pub fn header(participant: ParticipantId) -> Vec<u8> {
    let mut out = Writer::default();
    out.u32(MAGIC);
    out.u16(participant.0);
    out.bytes
}

/// The record of the changes of one step.
#[must_use]
pub fn record(changes: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.length(changes.len());
    out.u32(checksum(changes));
    out.bytes.extend_from_slice(changes);
    out.bytes
}

/// Reads a journal up to the last record that is whole.
///
/// # Errors
/// Why it is none, or which change in it means nothing.
pub fn read(journal: &[u8]) -> Result<Journaled, WireError> {
    let mut from = Reader::new(journal);
    if from.u32()? != MAGIC {
        return Err(WireError::Value("form"));
    }
    let participant = ParticipantId(from.u16()?);
    let mut read = Journaled {
        participant,
        bytes: header(participant).len(),
        kept: Kept::default(),
    };
    while let Some(changes) = next_record(&mut from) {
        let mut rest = Reader::new(changes);
        while !rest.is_empty() {
            read.kept.apply(Change::read(&mut rest)?);
        }
        read.bytes += RECORD_HEAD + changes.len();
    }
    Ok(read)
}

fn next_record<'a>(from: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(from.u32().ok()?).ok()?;
    let expected = from.u32().ok()?;
    let changes = from.slice(length).ok()?;
    (checksum(changes) == expected).then_some(changes)
}

/// The 32-bit sum of Fowler, Noll and Vo.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}
