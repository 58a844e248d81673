//! The member that a group names as its leader, to clients that want one.
//!
//! It decides nothing: which replica orders commands is a matter of the protocol. But clients compare what members say,
//! and count terms to notice elections. So the name is part of the replicated state, from feature level 4 on: all
//! members name the same one, and each change takes the next term.

use quorate_core::{Decoder, Encoder, ReplicaId, Wire, WireError};

/// The leader by name, and how often there was another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NamedLeader {
    /// How often a leader was named.
    pub term: u64,
    /// The member that is named; `None` before the first, and once it has left.
    pub id: Option<ReplicaId>,
}

impl NamedLeader {
    /// Names a leader. Says whether that changed anything: it does not if another one was named since `after`.
    pub(super) fn name(&mut self, id: ReplicaId, after: u64) -> bool {
        if self.term != after || self.id == Some(id) {
            return false;
        }
        *self = NamedLeader {
            term: self.term + 1,
            id: Some(id),
        };
        true
    }

    /// Replicas have left the group, and may be named no longer.
    pub(super) fn forget(&mut self, has_left: impl Fn(ReplicaId) -> bool) {
        self.id = self.id.filter(|id| !has_left(*id));
    }
}

const NOBODY: u8 = 0;
const SOMEBODY: u8 = 1;

impl Wire for NamedLeader {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.term);
        match self.id {
            None => out.u8(NOBODY),
            Some(id) => {
                out.u8(SOMEBODY);
                id.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let term = input.varint()?;
        let id = match input.u8()? {
            NOBODY => None,
            SOMEBODY => Some(ReplicaId::decode(input)?),
            tag => return Err(WireError::Tag("leader", tag)),
        };
        Ok(NamedLeader { term, id })
    }
}
