//! The encoding of messages and records.

use super::config::SLOTS_MAX;
use super::lanes::Span;
use super::messages::{Header, Learned, Message, Record, Shown, Skips};
use crate::shared::ballot::Ballot;
use crate::shared::question::QuestionName;
use quorate_core::{Decoder, Encoder, Entry, EntryId, MemberIndex, Slot, Wire, WireError};

impl Wire for Span {
    fn encode(&self, out: &mut Encoder) {
        self.first.encode(out);
        self.last.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Span {
            first: Slot::decode(input)?,
            last: Slot::decode(input)?,
        })
    }
}

/// Writes a list.
fn encode_all<T>(all: &[T], out: &mut Encoder, encode: impl Fn(&T, &mut Encoder)) {
    out.varint(all.len() as u64);
    all.iter().for_each(|one| encode(one, out));
}

/// Reads a list of no more elements than honest replicas keep slots, each of at least `bytes_min` bytes.
fn decode_all<T>(
    input: &mut Decoder,
    bytes_min: usize,
    decode: impl Fn(&mut Decoder) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = input.count(bytes_min)?;
    if count > SLOTS_MAX {
        return Err(WireError::Range("slots"));
    }
    (0..count).map(|_| decode(input)).collect()
}

impl Wire for Header {
    fn encode(&self, out: &mut Encoder) {
        self.skips.from.encode(out);
        self.skips.below.encode(out);
        encode_all(&self.skips.except, out, Slot::encode);
        self.delivered.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Header {
            skips: Skips {
                from: Slot::decode(input)?,
                below: Slot::decode(input)?,
                except: decode_all(input, 1, Slot::decode)?,
            },
            delivered: Slot::decode(input)?,
        })
    }
}

const NAMED_SLOT_BYTES_MIN: usize = 11;

impl Wire for Learned {
    fn encode(&self, out: &mut Encoder) {
        encode_all(&self.values, out, |(slot, id), out| {
            slot.encode(out);
            id.encode(out);
        });
        encode_all(&self.noops, out, Span::encode);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let named = |input: &mut Decoder| Ok((Slot::decode(input)?, EntryId::decode(input)?));
        Ok(Learned {
            values: decode_all(input, NAMED_SLOT_BYTES_MIN, named)?,
            noops: decode_all(input, 2, Span::decode)?,
        })
    }
}

const SHOWN_BYTES_MIN: usize = 4;

impl Wire for Shown {
    fn encode(&self, out: &mut Encoder) {
        self.span.encode(out);
        self.ballot.encode(out);
        self.value.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Shown {
            span: Span::decode(input)?,
            ballot: Option::decode(input)?,
            value: Option::decode(input)?,
        })
    }
}

impl Message {
    /// The first byte of its encoding.
    fn tag(&self) -> u8 {
        match self {
            Message::Suggest { .. } => 0,
            Message::Noops { .. } => 1,
            Message::Accept { .. } => 2,
            Message::Skip { .. } => 3,
            Message::Learn { .. } => 4,
            Message::Decided { .. } => 5,
            Message::Prepare { .. } => 6,
            Message::Promise { .. } => 7,
            Message::Nack { .. } => 8,
            Message::Ask { .. } => 9,
            Message::ReadQ(_) => 10,
            Message::ReadA { .. } => 11,
        }
    }

    /// Encodes what follows the tag of a message that takes a lane over, asks, or answers.
    fn encode_talk(&self, out: &mut Encoder) {
        match self {
            Message::Prepare { lane, ballot, from } => {
                lane.encode(out);
                ballot.encode(out);
                from.encode(out);
            }
            Message::Promise {
                lane,
                ballot,
                shown,
                delivered,
            } => {
                lane.encode(out);
                ballot.encode(out);
                encode_all(shown, out, Shown::encode);
                delivered.encode(out);
            }
            Message::Nack {
                lane,
                promised,
                delivered,
            } => {
                lane.encode(out);
                promised.encode(out);
                delivered.encode(out);
            }
            Message::Ask { next, until } => {
                next.encode(out);
                until.encode(out);
            }
            Message::ReadQ(query) => query.encode(out),
            Message::ReadA { query, mark } => {
                query.encode(out);
                mark.encode(out);
            }
            _ => unreachable!("the caller encodes the other messages"),
        }
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        out.u8(self.tag());
        match self {
            Message::Suggest {
                slot,
                ballot,
                entry,
                learned,
                header,
            } => {
                slot.encode(out);
                ballot.encode(out);
                entry.encode(out);
                learned.encode(out);
                header.encode(out);
            }
            Message::Noops {
                span,
                ballot,
                header,
            } => {
                span.encode(out);
                ballot.encode(out);
                header.encode(out);
            }
            Message::Accept {
                ballot,
                spans,
                header,
            } => {
                ballot.encode(out);
                encode_all(spans, out, Span::encode);
                header.encode(out);
            }
            Message::Skip { header } => header.encode(out),
            Message::Learn { learned, header } => {
                learned.encode(out);
                header.encode(out);
            }
            Message::Decided { slot, entry } => {
                slot.encode(out);
                entry.encode(out);
            }
            _ => self.encode_talk(out),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Message::Suggest {
                slot: Slot::decode(input)?,
                ballot: Ballot::decode(input)?,
                entry: Entry::decode(input)?,
                learned: Learned::decode(input)?,
                header: Header::decode(input)?,
            },
            1 => Message::Noops {
                span: Span::decode(input)?,
                ballot: Ballot::decode(input)?,
                header: Header::decode(input)?,
            },
            2 => Message::Accept {
                ballot: Ballot::decode(input)?,
                spans: decode_all(input, 2, Span::decode)?,
                header: Header::decode(input)?,
            },
            3 => Message::Skip {
                header: Header::decode(input)?,
            },
            4 => Message::Learn {
                learned: Learned::decode(input)?,
                header: Header::decode(input)?,
            },
            5 => Message::Decided {
                slot: Slot::decode(input)?,
                entry: Entry::decode(input)?,
            },
            tag => decode_talk(tag, input)?,
        })
    }
}

/// Reads what follows the tag of a message that takes a lane over, asks, or answers.
fn decode_talk(tag: u8, input: &mut Decoder) -> Result<Message, WireError> {
    Ok(match tag {
        6 => Message::Prepare {
            lane: MemberIndex::decode(input)?,
            ballot: Ballot::decode(input)?,
            from: Slot::decode(input)?,
        },
        7 => Message::Promise {
            lane: MemberIndex::decode(input)?,
            ballot: Ballot::decode(input)?,
            shown: decode_all(input, SHOWN_BYTES_MIN, Shown::decode)?,
            delivered: Slot::decode(input)?,
        },
        8 => Message::Nack {
            lane: MemberIndex::decode(input)?,
            promised: Ballot::decode(input)?,
            delivered: Slot::decode(input)?,
        },
        9 => Message::Ask {
            next: Slot::decode(input)?,
            until: Slot::decode(input)?,
        },
        10 => Message::ReadQ(QuestionName::decode(input)?),
        11 => Message::ReadA {
            query: QuestionName::decode(input)?,
            mark: Slot::decode(input)?,
        },
        tag => return Err(WireError::Tag("mencius message", tag)),
    })
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Accept {
                slot,
                ballot,
                entry,
            } => {
                out.u8(0);
                slot.encode(out);
                ballot.encode(out);
                entry.encode(out);
            }
            Record::Noops { span, ballot } => {
                out.u8(1);
                span.encode(out);
                ballot.encode(out);
            }
            Record::Promise { lane, ballot } => {
                out.u8(2);
                lane.encode(out);
                ballot.encode(out);
            }
            Record::Reserve { until } => {
                out.u8(3);
                until.encode(out);
            }
            Record::Lost => out.u8(4),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Record::Accept {
                slot: Slot::decode(input)?,
                ballot: Ballot::decode(input)?,
                entry: Entry::decode(input)?,
            },
            1 => Record::Noops {
                span: Span::decode(input)?,
                ballot: Ballot::decode(input)?,
            },
            2 => Record::Promise {
                lane: MemberIndex::decode(input)?,
                ballot: Ballot::decode(input)?,
            },
            3 => Record::Reserve {
                until: Slot::decode(input)?,
            },
            4 => Record::Lost,
            tag => return Err(WireError::Tag("mencius record", tag)),
        })
    }
}
