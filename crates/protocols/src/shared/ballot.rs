//! Ballots: who leads, and since when.

use quorate_core::{Decoder, Encoder, ReplicaId, Wire, WireError};
use std::fmt;

/// A ballot (proposal number): ordered by round, then by who leads it. No two replicas share one,
/// and no replica leads the same one twice. The default one is before all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ballot {
    /// Counts up; 0 is before every ballot.
    pub round: u64,
    /// Who leads it.
    pub node: ReplicaId,
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}.{}", self.round, self.node.0)
    }
}

impl Wire for Ballot {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.round);
        self.node.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Ballot {
            round: input.varint()?,
            node: ReplicaId::decode(input)?,
        })
    }
}
