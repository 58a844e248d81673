//! The encoding of records, and of what messages are made of.

use super::super::config::{SLOTS_PER_WINDOW, WINDOW_MAX};
use super::super::fragments::Fragments;
use super::super::messages::{Accept, Claim, Promise, Record, SlotVote, has_bulk};
use super::super::quorum::CODED_MEMBERS_MAX;
use crate::shared::ballot::Ballot;
use crate::shared::lives::Lives;
use quorate_core::{Decoder, Encoder, Entry, Slot, Wire, WireError};

const VOTE_BYTES_MIN: usize = 4;
/// Beside a code: the fragment is there, or goes along.
const IS_THERE: u8 = 0x80;

/// The number of things of which no honest message has more than `most`.
pub(super) fn count(input: &mut Decoder, size_min: usize, most: usize) -> Result<usize, WireError> {
    let count = input.count(size_min)?;
    (count <= most)
        .then_some(count)
        .ok_or(WireError::Range("count"))
}

impl Wire for Claim {
    fn encode(&self, out: &mut Encoder) {
        self.since.encode(out);
        self.upto.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Claim {
            since: Slot::decode(input)?,
            upto: Slot::decode(input)?,
        })
    }
}

impl Wire for SlotVote {
    fn encode(&self, out: &mut Encoder) {
        self.slot.encode(out);
        self.ballot.encode(out);
        self.value.encode(out);
        if has_bulk(self.value.as_ref()) {
            self.fragments.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (slot, ballot) = (Slot::decode(input)?, Ballot::decode(input)?);
        let value = Option::<Entry>::decode(input)?;
        let fragments = match has_bulk(value.as_ref()) {
            true => Fragments::decode(input)?,
            false => Fragments::WHOLE,
        };
        Ok(SlotVote {
            slot,
            ballot,
            value,
            fragments,
        })
    }
}

impl Wire for Promise {
    fn encode(&self, out: &mut Encoder) {
        self.ballot.encode(out);
        self.next.encode(out);
        self.from.encode(out);
        self.until.encode(out);
        out.varint(self.votes.len() as u64);
        self.votes.iter().for_each(|vote| vote.encode(out));
        self.lives.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Promise {
            ballot: Ballot::decode(input)?,
            next: Slot::decode(input)?,
            from: Slot::decode(input)?,
            until: Option::decode(input)?,
            votes: (0..count(input, VOTE_BYTES_MIN, SLOTS_PER_WINDOW * WINDOW_MAX)?)
                .map(|_| SlotVote::decode(input))
                .collect::<Result<_, _>>()?,
            lives: Lives::decode(input)?,
        })
    }
}

/// The code of a value, and whether a fragment is there: only of a value with payloads.
fn encode_code(value: &Option<Entry>, code: u8, is_there: bool, out: &mut Encoder) {
    if has_bulk(value.as_ref()) {
        out.u8(code | if is_there { IS_THERE } else { 0 });
    }
}

/// The code of a value on the wire, and whether a fragment under it comes along.
struct CodedPart {
    code: u8,
    is_there: bool,
}

fn decode_code(value: &Option<Entry>, input: &mut Decoder) -> Result<CodedPart, WireError> {
    if !has_bulk(value.as_ref()) {
        return Ok(CodedPart {
            code: 1,
            is_there: true,
        });
    }
    let byte = input.u8()?;
    Ok(CodedPart {
        code: checked_code(byte & !IS_THERE)?,
        is_there: byte & IS_THERE != 0,
    })
}

pub(super) fn checked_code(code: u8) -> Result<u8, WireError> {
    let is_one = (1..=CODED_MEMBERS_MAX).contains(&usize::from(code));
    is_one.then_some(code).ok_or(WireError::Range("code"))
}

impl Wire for Accept {
    fn encode(&self, out: &mut Encoder) {
        self.ballot.encode(out);
        self.slot.encode(out);
        self.value.encode(out);
        encode_code(&self.value, self.code, self.is_attached, out);
        self.claim.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (ballot, slot) = (Ballot::decode(input)?, Slot::decode(input)?);
        let value = Option::decode(input)?;
        let CodedPart {
            code,
            is_there: is_attached,
        } = decode_code(&value, input)?;
        let claim = Claim::decode(input)?;
        Ok(Accept {
            ballot,
            slot,
            value,
            code,
            is_attached,
            claim,
        })
    }
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Promise { ballot } => {
                out.u8(0);
                ballot.encode(out);
            }
            Record::Candidacy { ballot } => {
                out.u8(1);
                ballot.encode(out);
            }
            Record::Accept {
                slot,
                ballot,
                value,
                code,
                is_held,
            } => {
                out.u8(2);
                slot.encode(out);
                ballot.encode(out);
                value.encode(out);
                encode_code(value, *code, *is_held, out);
            }
            Record::Again { slot, ballot } => {
                out.u8(3);
                slot.encode(out);
                ballot.encode(out);
            }
            Record::Lives { lives, is_member } => {
                out.u8(if *is_member { 5 } else { 4 });
                lives.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Record::Promise {
                ballot: Ballot::decode(input)?,
            },
            1 => Record::Candidacy {
                ballot: Ballot::decode(input)?,
            },
            2 => {
                let (slot, ballot) = (Slot::decode(input)?, Ballot::decode(input)?);
                let value = Option::decode(input)?;
                let CodedPart {
                    code,
                    is_there: is_held,
                } = decode_code(&value, input)?;
                Record::Accept {
                    slot,
                    ballot,
                    value,
                    code,
                    is_held,
                }
            }
            3 => Record::Again {
                slot: Slot::decode(input)?,
                ballot: Ballot::decode(input)?,
            },
            tag @ (4 | 5) => Record::Lives {
                lives: Lives::decode(input)?,
                is_member: tag == 5,
            },
            tag => return Err(WireError::Tag("paxos record", tag)),
        })
    }
}
