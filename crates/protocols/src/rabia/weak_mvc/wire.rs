//! Encodings of messages and records.

use super::messages::{Bits, Message, Nulls, Record, SlotMessage};
use super::trail::Trail;
use crate::shared::decided::{decode_ids, encode_ids};
use crate::shared::question::QuestionName;
use quorate_core::{Boot, Decoder, Encoder, Entry, Slot, Wire, WireError};

impl Wire for Nulls {
    fn encode(&self, out: &mut Encoder) {
        self.base.encode(out);
        out.u8(u8::from(self.want) | u8::from(self.more) << 1);
        let words = self.bits.0.iter().rposition(|word| *word != 0);
        let words = words.map_or(0, |last| last + 1);
        out.u8(words as u8);
        self.bits.0[..words]
            .iter()
            .for_each(|word| out.varint(*word));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let base = Slot::decode(input)?;
        let flags = input.u8()?;
        if flags > 3 {
            return Err(WireError::Tag("rabia nulls flags", flags));
        }
        let words = usize::from(input.u8()?);
        let mut bits = Bits::default();
        let used = bits
            .0
            .get_mut(..words)
            .ok_or(WireError::Range("null slots"))?;
        for word in used.iter_mut() {
            *word = input.varint()?;
        }
        if used.last() == Some(&0) {
            return Err(WireError::Range("null slots"));
        }
        Ok(Nulls {
            base,
            bits,
            want: flags & 1 != 0,
            more: flags & 2 != 0,
        })
    }
}

impl Wire for SlotMessage {
    fn encode(&self, out: &mut Encoder) {
        self.slot.encode(out);
        out.u8(u8::from(self.want) | u8::from(self.more) << 1);
        self.prop.encode(out);
        self.trail.encode(out);
        self.q.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let slot = Slot::decode(input)?;
        let flags = input.u8()?;
        if flags > 3 {
            return Err(WireError::Tag("rabia slot flags", flags));
        }
        Ok(SlotMessage {
            slot,
            prop: Option::decode(input)?,
            trail: Trail::decode(input)?,
            q: Option::decode(input)?,
            want: flags & 1 != 0,
            more: flags & 2 != 0,
        })
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Message::Batch { entry } => {
                out.u8(0);
                entry.encode(out);
            }
            Message::Need { from, ids } => {
                out.u8(1);
                from.encode(out);
                encode_ids(ids, out);
            }
            Message::Have { ids } => {
                out.u8(2);
                encode_ids(ids, out);
            }
            Message::Slot(message) => {
                out.u8(3);
                message.encode(out);
            }
            Message::Decided { slot, value } => {
                out.u8(4);
                slot.encode(out);
                value.encode(out);
            }
            Message::Nulls(message) => {
                out.u8(7);
                message.encode(out);
            }
            Message::Recover { boot, from } => {
                out.u8(8);
                out.u64(boot.0);
                from.encode(out);
            }
            Message::RecoverA { boot, started } => {
                out.u8(9);
                out.u64(boot.0);
                started.encode(out);
            }
            Message::Nudge { until, from } => {
                out.u8(10);
                until.encode(out);
                from.encode(out);
            }
            Message::ReadQ(query) => {
                out.u8(5);
                query.encode(out);
            }
            Message::ReadA { query, mark } => {
                out.u8(6);
                query.encode(out);
                mark.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Message::Batch {
                entry: Entry::decode(input)?,
            },
            1 => Message::Need {
                from: Slot::decode(input)?,
                ids: decode_ids(input)?,
            },
            2 => Message::Have {
                ids: decode_ids(input)?,
            },
            3 => Message::Slot(SlotMessage::decode(input)?),
            4 => Message::Decided {
                slot: Slot::decode(input)?,
                value: Option::decode(input)?,
            },
            5 => Message::ReadQ(QuestionName::decode(input)?),
            6 => Message::ReadA {
                query: QuestionName::decode(input)?,
                mark: Slot::decode(input)?,
            },
            7 => Message::Nulls(Nulls::decode(input)?),
            8 => Message::Recover {
                boot: Boot(input.u64()?),
                from: Slot::decode(input)?,
            },
            9 => Message::RecoverA {
                boot: Boot(input.u64()?),
                started: Slot::decode(input)?,
            },
            10 => Message::Nudge {
                until: Slot::decode(input)?,
                from: Slot::decode(input)?,
            },
            tag => return Err(WireError::Tag("rabia message", tag)),
        })
    }
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Batch { entry } => {
                out.u8(0);
                entry.encode(out);
            }
            Record::Own {
                slot,
                prop,
                trail,
                q,
            } => {
                out.u8(1);
                slot.encode(out);
                prop.encode(out);
                trail.encode(out);
                q.encode(out);
            }
            Record::Reserve { until } => {
                out.u8(2);
                until.encode(out);
            }
            Record::Floor { slot } => {
                out.u8(3);
                slot.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            3 => Record::Floor {
                slot: Option::decode(input)?,
            },
            2 => Record::Reserve {
                until: Slot::decode(input)?,
            },
            0 => Record::Batch {
                entry: Entry::decode(input)?,
            },
            1 => Record::Own {
                slot: Slot::decode(input)?,
                prop: Option::decode(input)?,
                trail: Trail::decode(input)?,
                q: Option::decode(input)?,
            },
            tag => return Err(WireError::Tag("rabia record", tag)),
        })
    }
}
