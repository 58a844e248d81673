//! The toy's words as bytes, and what a host must know of its records.

use super::protocol::{Kept, Message, Nothing};
use quorate_core::{Base, Carry, Decoder, Encoder, Entry, Record, Slot, Wire, WireError};

impl Base for Nothing {
    fn advance(&mut self, _: Slot, _: Option<&Entry>) {}
}

impl Wire for Nothing {
    fn encode(&self, _: &mut Encoder) {}

    fn decode(_: &mut Decoder) -> Result<Self, WireError> {
        Ok(Nothing)
    }
}

impl Carry for Message {}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        let (kind, slot) = match self {
            Message::Append(slot, _) => (0, slot),
            Message::Stored(end) => (1, end),
            Message::Decided(end) => (2, end),
        };
        out.u8(kind);
        slot.encode(out);
        if let Message::Append(_, entry) = self {
            entry.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (kind, slot) = (input.u8()?, Slot::decode(input)?);
        match kind {
            0 => Ok(Message::Append(slot, Entry::decode(input)?)),
            1 => Ok(Message::Stored(slot)),
            2 => Ok(Message::Decided(slot)),
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
