//! The encoding of messages and records.

use super::config::SLOTS_MAX;
use super::messages::{Append, Behind, LogEnd, LogEntry, Message, Record};
use crate::shared::lives::{Life, Lives};
use crate::shared::question::QuestionName;
use crate::shared::rejoin::RejoinAnswer;
use quorate_core::{Boot, Decoder, Encoder, Entry, MemberIndex, Slot, Wire, WireError};

const ENTRY_BYTES_MIN: usize = 2;

impl Wire for LogEntry {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.term);
        self.entry.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(LogEntry {
            term: input.varint()?,
            entry: Option::decode(input)?,
        })
    }
}

impl Wire for LogEnd {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.term);
        self.end.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(LogEnd {
            term: input.varint()?,
            end: Slot::decode(input)?,
        })
    }
}

/// Writes a term that may not be known.
fn encode_term(term: Option<u64>, out: &mut Encoder) {
    out.u8(u8::from(term.is_some()));
    if let Some(term) = term {
        out.varint(term);
    }
}

fn decode_term(input: &mut Decoder) -> Result<Option<u64>, WireError> {
    match input.u8()? {
        0 => Ok(None),
        1 => input.varint().map(Some),
        tag => Err(WireError::Tag("raft term", tag)),
    }
}

impl Wire for Append {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.term);
        self.from.encode(out);
        encode_term(self.term_before, out);
        out.varint(self.entries.len() as u64);
        self.entries.iter().for_each(|entry| entry.encode(out));
        self.commit.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (term, from) = (input.varint()?, Slot::decode(input)?);
        let term_before = decode_term(input)?;
        let count = input.count(ENTRY_BYTES_MIN)?;
        if count > SLOTS_MAX {
            return Err(WireError::Range("entries"));
        }
        let entries = (0..count).map(|_| LogEntry::decode(input));
        Ok(Append {
            term,
            from,
            term_before,
            entries: entries.collect::<Result<_, _>>()?,
            commit: Slot::decode(input)?,
        })
    }
}

impl Wire for Behind {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.term);
        self.rejected.encode(out);
        self.hint.encode(out);
        self.delivered.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Behind {
            term: input.varint()?,
            rejected: Slot::decode(input)?,
            hint: Slot::decode(input)?,
            delivered: Slot::decode(input)?,
        })
    }
}

impl Message {
    /// The first byte of its encoding.
    fn tag(&self) -> u8 {
        match self {
            Message::Offer { .. } => 0,
            Message::PreVote { .. } => 1,
            Message::PreVoteOk { .. } => 2,
            Message::Vote { .. } => 3,
            Message::Voted { .. } => 4,
            Message::Append(_) => 5,
            Message::Appended { .. } => 6,
            Message::Behind(_) => 7,
            Message::Newer { .. } => 8,
            Message::Led { .. } => 9,
            Message::Ask { .. } => 10,
            Message::ReadQ(_) => 11,
            Message::ReadA { .. } => 12,
            Message::Rejoin { .. } => 13,
            Message::RejoinA(_) => 14,
        }
    }

    /// Encodes what follows the tag of a message about who leads, or of one that asks and answers.
    fn encode_talk(&self, out: &mut Encoder) {
        match self {
            Message::PreVote {
                campaign,
                last,
                delivered,
            } => {
                campaign.encode(out);
                last.encode(out);
                delivered.encode(out);
            }
            Message::PreVoteOk { campaign, term } => {
                campaign.encode(out);
                out.varint(*term);
            }
            Message::ReadQ(query) => query.encode(out),
            Message::ReadA { query, term, mark } => {
                query.encode(out);
                out.varint(*term);
                mark.encode(out);
            }
            Message::Rejoin { life, next } => {
                life.encode(out);
                next.encode(out);
            }
            Message::RejoinA(RejoinAnswer {
                boot,
                floor,
                end,
                lives,
            }) => {
                out.u64(boot.0);
                out.varint(*floor);
                end.encode(out);
                lives.encode(out);
            }
            _ => unreachable!("the caller encodes the other messages"),
        }
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        out.u8(self.tag());
        match self {
            Message::Offer { entry } => entry.encode(out),
            Message::Vote {
                term,
                last,
                delivered,
            } => {
                out.varint(*term);
                last.encode(out);
                delivered.encode(out);
            }
            Message::Voted { term, lives } => {
                out.varint(*term);
                lives.encode(out);
            }
            Message::Append(append) => append.encode(out),
            Message::Appended { term, upto, lives } => {
                out.varint(*term);
                upto.encode(out);
                lives.encode(out);
            }
            Message::Behind(behind) => behind.encode(out),
            Message::Newer { term } => out.varint(*term),
            Message::Led { upto } => upto.encode(out),
            Message::Ask { next, until } => {
                next.encode(out);
                until.encode(out);
            }
            _ => self.encode_talk(out),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Message::Offer {
                entry: Entry::decode(input)?,
            },
            1 => Message::PreVote {
                campaign: QuestionName::decode(input)?,
                last: LogEnd::decode(input)?,
                delivered: Slot::decode(input)?,
            },
            2 => Message::PreVoteOk {
                campaign: QuestionName::decode(input)?,
                term: input.varint()?,
            },
            3 => Message::Vote {
                term: input.varint()?,
                last: LogEnd::decode(input)?,
                delivered: Slot::decode(input)?,
            },
            4 => Message::Voted {
                term: input.varint()?,
                lives: Lives::decode(input)?,
            },
            5 => Message::Append(Append::decode(input)?),
            6 => Message::Appended {
                term: input.varint()?,
                upto: Slot::decode(input)?,
                lives: Lives::decode(input)?,
            },
            7 => Message::Behind(Behind::decode(input)?),
            8 => Message::Newer {
                term: input.varint()?,
            },
            9 => Message::Led {
                upto: Slot::decode(input)?,
            },
            10 => Message::Ask {
                next: Slot::decode(input)?,
                until: Slot::decode(input)?,
            },
            11 => Message::ReadQ(QuestionName::decode(input)?),
            12 => Message::ReadA {
                query: QuestionName::decode(input)?,
                term: input.varint()?,
                mark: Option::decode(input)?,
            },
            13 => Message::Rejoin {
                life: Life::decode(input)?,
                next: Slot::decode(input)?,
            },
            14 => Message::RejoinA(RejoinAnswer {
                boot: Boot(input.u64()?),
                floor: input.varint()?,
                end: Slot::decode(input)?,
                lives: Lives::decode(input)?,
            }),
            tag => return Err(WireError::Tag("raft message", tag)),
        })
    }
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Vote { term, voted_for } => {
                out.u8(0);
                out.varint(*term);
                voted_for.encode(out);
            }
            Record::Append { slot, at, entry } => {
                out.u8(1);
                slot.encode(out);
                out.varint(*at);
                entry.encode(out);
            }
            Record::Cut { from, at } => {
                out.u8(2);
                from.encode(out);
                out.varint(*at);
            }
            Record::Lives { lives, is_member } => {
                out.u8(if *is_member { 4 } else { 3 });
                lives.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Record::Vote {
                term: input.varint()?,
                voted_for: Option::<MemberIndex>::decode(input)?,
            },
            1 => Record::Append {
                slot: Slot::decode(input)?,
                at: input.varint()?,
                entry: LogEntry::decode(input)?,
            },
            2 => Record::Cut {
                from: Slot::decode(input)?,
                at: input.varint()?,
            },
            tag @ (3 | 4) => Record::Lives {
                lives: Lives::decode(input)?,
                is_member: tag == 4,
            },
            tag => return Err(WireError::Tag("raft record", tag)),
        })
    }
}
