//! The encoding of messages, and in `parts.rs` of what they are made of and of records.

mod parts;

use super::config::WINDOW_MAX;
use super::messages::{Accept, Claim, Lead, Message, Promise};
use crate::shared::ballot::Ballot;
use crate::shared::lives::{Life, Lives};
use crate::shared::rejoin::RejoinAnswer;
use parts::{checked_code, count};
use quorate_core::{Boot, Decoder, Encoder, Entry, EntryId, Slot, Wire, WireError};

const NAME_BYTES_MIN: usize = 1;

impl Message {
    /// The first byte of its encoding.
    fn tag(&self) -> u8 {
        match self {
            Message::Forward { .. } => 0,
            Message::PreVote { .. } => 1,
            Message::PreVoteOk { .. } => 2,
            Message::Prepare { .. } => 3,
            Message::Promise(_) => 4,
            Message::Nack { .. } => 5,
            Message::Accept(_) => 6,
            Message::Accepted { code: 1, .. } => 7,
            Message::Commit { .. } => 8,
            Message::Ask { .. } => 9,
            Message::ReadQ { wants_lease, .. } => [10, 22][usize::from(*wants_lease)],
            Message::ReadA { answer, .. } => match (answer.is_leased, answer.is_granted) {
                (false, false) => 11,
                (true, _) => 20,
                (false, true) => 21,
            },
            Message::Rejoin { .. } => 12,
            Message::RejoinA(_) => 13,
            Message::Accepted { .. } => 14,
            Message::Lacks { .. } => 15,
            Message::Spread { is_attached, .. } => 17 - u8::from(*is_attached),
            Message::Has { is_here, .. } => 19 - u8::from(*is_here),
        }
    }

    /// Encodes what follows the tag of a message about who leads.
    fn encode_election(&self, out: &mut Encoder) {
        match self {
            Message::PreVote {
                boot,
                campaign,
                next,
            } => {
                out.u64(boot.0);
                out.varint(*campaign);
                next.encode(out);
            }
            Message::PreVoteOk {
                boot,
                campaign,
                promised,
            } => {
                out.u64(boot.0);
                out.varint(*campaign);
                promised.encode(out);
            }
            Message::Prepare { ballot, from } => {
                ballot.encode(out);
                from.encode(out);
            }
            Message::Promise(promise) => promise.encode(out),
            Message::Nack { ballot, promised } => {
                ballot.encode(out);
                promised.encode(out);
            }
            _ => unreachable!("no message of an election"),
        }
    }

    /// Encodes what follows the tag of a message of a reader, or of a replica that lost its promises.
    fn encode_inquiry(&self, out: &mut Encoder) {
        match self {
            Message::ReadQ { boot, number, .. } => {
                out.u64(boot.0);
                out.varint(*number);
            }
            Message::ReadA {
                boot,
                number,
                answer,
            } => {
                out.u64(boot.0);
                out.varint(*number);
                answer.promised.encode(out);
                answer.mark.encode(out);
            }
            Message::Rejoin { life, next } => {
                life.encode(out);
                next.encode(out);
            }
            Message::RejoinA(answer) => {
                out.u64(answer.boot.0);
                answer.floor.encode(out);
                answer.end.encode(out);
                answer.lives.encode(out);
            }
            _ => unreachable!("nobody inquires"),
        }
    }

    /// Decodes a message about who leads.
    fn decode_election(tag: u8, input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match tag {
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
            _ => Message::Nack {
                ballot: Ballot::decode(input)?,
                promised: Ballot::decode(input)?,
            },
        })
    }

    /// Decodes the rest of a vote, of which a payload's code is told only where it is cut.
    fn decode_accepted(is_cut: bool, input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Message::Accepted {
            ballot: Ballot::decode(input)?,
            slot: Slot::decode(input)?,
            code: match is_cut {
                false => 1,
                true => checked_code(input.u8()?).and_then(|code| match code {
                    1 => Err(WireError::Range("code")),
                    code => Ok(code),
                })?,
            },
            lives: Lives::decode(input)?,
        })
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        out.u8(self.tag());
        match self {
            Message::Forward { entry } => entry.encode(out),
            Message::Accept(accept) => accept.encode(out),
            Message::Accepted {
                ballot,
                slot,
                code,
                lives,
            } => {
                ballot.encode(out);
                slot.encode(out);
                if *code != 1 {
                    out.u8(*code);
                }
                lives.encode(out);
            }
            Message::Spread { entry, code, .. } => {
                entry.encode(out);
                out.u8(*code);
            }
            Message::Has { entry, code, .. } => {
                entry.encode(out);
                out.u8(*code);
            }
            Message::Lacks { ballot, slot, code } => {
                ballot.encode(out);
                slot.encode(out);
                out.u8(*code);
            }
            Message::Commit {
                ballot,
                claim,
                earlier,
            } => {
                ballot.encode(out);
                claim.encode(out);
                out.varint(earlier.len() as u64);
                earlier.iter().for_each(|name| name.encode(out));
            }
            Message::Ask { next, until } => {
                next.encode(out);
                until.encode(out);
            }
            Message::PreVote { .. }
            | Message::PreVoteOk { .. }
            | Message::Prepare { .. }
            | Message::Promise(_)
            | Message::Nack { .. } => self.encode_election(out),
            Message::ReadQ { .. }
            | Message::ReadA { .. }
            | Message::Rejoin { .. }
            | Message::RejoinA(_) => self.encode_inquiry(out),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Message::Forward {
                entry: Entry::decode(input)?,
            },
            tag @ 1..=5 => Message::decode_election(tag, input)?,
            6 => Message::Accept(Accept::decode(input)?),
            tag @ (7 | 14) => Message::decode_accepted(tag == 14, input)?,
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
            tag @ (10 | 22) => Message::ReadQ {
                boot: Boot(input.u64()?),
                number: input.varint()?,
                wants_lease: tag == 22,
            },
            tag @ (11 | 20 | 21) => Message::ReadA {
                boot: Boot(input.u64()?),
                number: input.varint()?,
                answer: Lead {
                    promised: Ballot::decode(input)?,
                    mark: Option::decode(input)?,
                    is_leased: tag == 20,
                    is_granted: tag == 21,
                },
            },
            12 => Message::Rejoin {
                life: Life::decode(input)?,
                next: Slot::decode(input)?,
            },
            13 => Message::RejoinA(RejoinAnswer {
                boot: Boot(input.u64()?),
                floor: Ballot::decode(input)?,
                end: Slot::decode(input)?,
                lives: Lives::decode(input)?,
            }),
            tag => return Err(WireError::Tag("paxos message", tag)),
        })
    }
}
