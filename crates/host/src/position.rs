//! Places in the log.

use quorate_core::{Decoder, Encoder, Wire, WireError};

/// A place in the log. Positions of one log ascend in the order written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position {
    /// The segment's number, from 1.
    pub segment: u64,
    /// Byte offset in the segment's file.
    pub offset: u32,
}

impl Wire for Position {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.segment);
        out.varint(u64::from(self.offset));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let segment = input.varint()?;
        let offset = u32::try_from(input.varint()?);
        let offset = offset.map_err(|_| WireError::Range("offset in the log"))?;
        Ok(Position { segment, offset })
    }
}
