//! The encoding of messages and records.

use super::ballot::Ballot;
use super::config::{SLOTS_PER_WINDOW, WINDOW_MAX};
use super::fragments::Fragments;
use super::lives::{Life, Lives};
use super::messages::{Accept, Claim, Message, Promise, Record, SlotVote, has_bulk};
use super::quorum::CODED_MEMBERS_MAX;
use quorate_core::{Boot, Decoder, Encoder, Entry, EntryId, Slot, Wire, WireError};

const NAME_BYTES_MIN: usize = 1;
const VOTE_BYTES_MIN: usize = 4;
/// Beside a code: the fragment is there, or goes along.
const IS_THERE: u8 = 0x80;

/// The number of things of which no honest message has more than `most`.
fn count(input: &mut Decoder, size_min: usize, most: usize) -> Result<usize, WireError> {
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

fn decode_code(value: &Option<Entry>, input: &mut Decoder) -> Result<(u8, bool), WireError> {
    if !has_bulk(value.as_ref()) {
        return Ok((1, true));
    }
    let byte = input.u8()?;
    Ok((checked_code(byte & !IS_THERE)?, byte & IS_THERE != 0))
}

fn checked_code(code: u8) -> Result<u8, WireError> {
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
        let (code, is_attached) = decode_code(&value, input)?;
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

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Message::Forward { entry } => {
                out.u8(0);
                entry.encode(out);
            }
            Message::PreVote {
                boot,
                campaign,
                next,
            } => {
                out.u8(1);
                out.u64(boot.0);
                out.varint(*campaign);
                next.encode(out);
            }
            Message::PreVoteOk {
                boot,
                campaign,
                promised,
            } => {
                out.u8(2);
                out.u64(boot.0);
                out.varint(*campaign);
                promised.encode(out);
            }
            Message::Prepare { ballot, from } => {
                out.u8(3);
                ballot.encode(out);
                from.encode(out);
            }
            Message::Promise(promise) => {
                out.u8(4);
                promise.encode(out);
            }
            Message::Nack { ballot, promised } => {
                out.u8(5);
                ballot.encode(out);
                promised.encode(out);
            }
            Message::Accept(accept) => {
                out.u8(6);
                accept.encode(out);
            }
            Message::Accepted {
                ballot,
                slot,
                code,
                lives,
            } => {
                out.u8(if *code == 1 { 7 } else { 14 });
                ballot.encode(out);
                slot.encode(out);
                if *code != 1 {
                    out.u8(*code);
                }
                lives.encode(out);
            }
            Message::Spread {
                entry,
                code,
                is_attached,
            } => {
                out.u8(if *is_attached { 16 } else { 17 });
                entry.encode(out);
                out.u8(*code);
            }
            Message::Has {
                entry,
                code,
                is_here,
            } => {
                out.u8(if *is_here { 18 } else { 19 });
                entry.encode(out);
                out.u8(*code);
            }
            Message::Lacks { ballot, slot, code } => {
                out.u8(15);
                ballot.encode(out);
                slot.encode(out);
                out.u8(*code);
            }
            Message::Commit {
                ballot,
                claim,
                earlier,
            } => {
                out.u8(8);
                ballot.encode(out);
                claim.encode(out);
                out.varint(earlier.len() as u64);
                earlier.iter().for_each(|name| name.encode(out));
            }
            Message::Ask { next, until } => {
                out.u8(9);
                next.encode(out);
                until.encode(out);
            }
            Message::ReadQ { boot, number } => {
                out.u8(10);
                out.u64(boot.0);
                out.varint(*number);
            }
            Message::ReadA {
                boot,
                number,
                promised,
                mark,
            } => {
                out.u8(11);
                out.u64(boot.0);
                out.varint(*number);
                promised.encode(out);
                mark.encode(out);
            }
            Message::Rejoin { life, next } => {
                out.u8(12);
                life.encode(out);
                next.encode(out);
            }
            Message::RejoinA {
                boot,
                promised,
                end,
                lives,
            } => {
                out.u8(13);
                out.u64(boot.0);
                promised.encode(out);
                end.encode(out);
                lives.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Message::Forward {
                entry: Entry::decode(input)?,
            },
            1 => Message::PreVote {
                boot: Boot(input.u64()?),
                campaign: input.varint()?,
                next: Slot::decode(input)?,
            },
            2 => Message::PreVoteOk {
                boot: Boot(input.u64()?),
                campaign: input.varint()?,
                promised: Ballot::decode(input)?,
            },
            3 => Message::Prepare {
                ballot: Ballot::decode(input)?,
                from: Slot::decode(input)?,
            },
            4 => Message::Promise(Promise::decode(input)?),
            5 => Message::Nack {
                ballot: Ballot::decode(input)?,
                promised: Ballot::decode(input)?,
            },
            6 => Message::Accept(Accept::decode(input)?),
            tag @ (7 | 14) => Message::Accepted {
                ballot: Ballot::decode(input)?,
                slot: Slot::decode(input)?,
                code: match tag {
                    7 => 1,
                    _ => checked_code(input.u8()?).and_then(|code| match code {
                        1 => Err(WireError::Range("code")),
                        code => Ok(code),
                    })?,
                },
                lives: Lives::decode(input)?,
            },
            tag @ (16 | 17) => Message::Spread {
                entry: Entry::decode(input)?,
                code: checked_code(input.u8()?)?,
                is_attached: tag == 16,
            },
            tag @ (18 | 19) => Message::Has {
                entry: EntryId::decode(input)?,
                code: checked_code(input.u8()?)?,
                is_here: tag == 18,
            },
            15 => Message::Lacks {
                ballot: Ballot::decode(input)?,
                slot: Slot::decode(input)?,
                code: checked_code(input.u8()?)?,
            },
            8 => Message::Commit {
                ballot: Ballot::decode(input)?,
                claim: Claim::decode(input)?,
                earlier: (0..count(input, NAME_BYTES_MIN, WINDOW_MAX)?)
                    .map(|_| Option::<EntryId>::decode(input))
                    .collect::<Result<_, _>>()?,
            },
            9 => Message::Ask {
                next: Slot::decode(input)?,
                until: Slot::decode(input)?,
            },
            10 => Message::ReadQ {
                boot: Boot(input.u64()?),
                number: input.varint()?,
            },
            11 => Message::ReadA {
                boot: Boot(input.u64()?),
                number: input.varint()?,
                promised: Ballot::decode(input)?,
                mark: Option::decode(input)?,
            },
            12 => Message::Rejoin {
                life: Life::decode(input)?,
                next: Slot::decode(input)?,
            },
            13 => Message::RejoinA {
                boot: Boot(input.u64()?),
                promised: Ballot::decode(input)?,
                end: Slot::decode(input)?,
                lives: Lives::decode(input)?,
            },
            tag => return Err(WireError::Tag("paxos message", tag)),
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
                let (code, is_held) = decode_code(&value, input)?;
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
