//! The names of questions.

use quorate_core::{Boot, Decoder, Encoder, Wire, WireError};

/// The name of a replica's question to the others, by which answers to earlier ones are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuestionName {
    /// The asker's start of the process, so that answers to its former lives are no answers.
    pub boot: Boot,
    /// Counts the asker's questions of a kind.
    pub number: u64,
}

impl Wire for QuestionName {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.boot.0);
        out.varint(self.number);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(QuestionName {
            boot: Boot(input.u64()?),
            number: input.varint()?,
        })
    }
}
