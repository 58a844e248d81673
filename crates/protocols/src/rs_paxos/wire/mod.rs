//! The encoding of messages, and in `parts.rs` of what they are made of and of records.

mod parts;

use super::ballot::Ballot;
use super::config::WINDOW_MAX;
use super::messages::{Accept, Claim, Lead, Message, Promise};
use crate::shared::lives::{Life, Lives};
use crate::shared::rejoin::RejoinAnswer;
use parts::{checked_code, count};
use quorate_core::{Boot, Decoder, Encoder, Entry, EntryId, Slot, Wire, WireError};

const NAME_BYTES_MIN: usize = 1;

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
            Message::ReadQ {
                boot,
                number,
                wants_lease,
            } => {
                out.u8(if *wants_lease { 22 } else { 10 });
                out.u64(boot.0);
                out.varint(*number);
            }
            Message::ReadA {
                boot,
                number,
                answer,
            } => {
                out.u8(match (answer.is_leased, answer.is_granted) {
                    (true, _) => 20,
                    (false, true) => 21,
                    (false, false) => 11,
                });
                out.u64(boot.0);
                out.varint(*number);
                answer.promised.encode(out);
                answer.mark.encode(out);
            }
            Message::Rejoin { life, next } => {
                out.u8(12);
                life.encode(out);
                next.encode(out);
            }
            Message::RejoinA(answer) => {
                out.u8(13);
                out.u64(answer.boot.0);
                answer.floor.encode(out);
                answer.end.encode(out);
                answer.lives.encode(out);
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
