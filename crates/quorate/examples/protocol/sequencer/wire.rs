//! What the protocol says and keeps, as bytes, and what a host must know of its records.

use super::{Kept, Message};
use quorate_core::{Carry, Decoder, Encoder, Entry, Record, Slot, Wire, WireError};

impl Carry for Message {}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Message::Append(slot, entry) => {
                out.u8(0);
                slot.encode(out);
                entry.encode(out);
            }
            Message::Has { stored, delivered } => {
                out.u8(1);
                stored.encode(out);
                delivered.encode(out);
            }
            Message::Decided(end) => {
                out.u8(2);
                end.encode(out);
            }
            Message::Offer(entry) => {
                out.u8(3);
                entry.encode(out);
            }
            Message::Ask(number) => {
                out.u8(4);
                out.varint(*number);
            }
            Message::ReadAt(number, end) => {
                out.u8(5);
                out.varint(*number);
                end.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            0 => Ok(Message::Append(Slot::decode(input)?, Entry::decode(input)?)),
            1 => Ok(Message::Has {
                stored: Slot::decode(input)?,
                delivered: Slot::decode(input)?,
            }),
            2 => Ok(Message::Decided(Slot::decode(input)?)),
            3 => Ok(Message::Offer(Entry::decode(input)?)),
            4 => Ok(Message::Ask(input.varint()?)),
            5 => Ok(Message::ReadAt(input.varint()?, Slot::decode(input)?)),
            _ => Err(WireError::Range("kind of a message")),
        }
    }
}

impl Carry for Kept {}

impl Record for Kept {
    fn slot(&self) -> Option<Slot> {
        Some(self.0)
    }

    fn entry(&self) -> Option<&Entry> {
        Some(&self.1)
    }
}

impl Wire for Kept {
    fn encode(&self, out: &mut Encoder) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Kept(Slot::decode(input)?, Entry::decode(input)?))
    }
}
