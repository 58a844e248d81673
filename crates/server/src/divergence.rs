//! What a replica does whose state differs from that of a peer.

use crate::core::Core;
use crate::error::ServerError;
use quorate_core::{Application, ReplicaId, Slot};
use quorate_host::Verdict;
use std::fmt;

/// A difference between this replica and a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The peer that differs.
    pub peer: ReplicaId,
    /// What was applied before this slot differs, or its results do.
    pub slot: Slot,
    /// The digest here.
    pub mine: u64,
    /// The digest there.
    pub theirs: u64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            peer,
            slot,
            mine,
            theirs,
        } = self;
        write!(
            f,
            "this replica and replica {peer} hold different states before slot {slot} (digest {mine:016x} here, \
             {theirs:016x} there)"
        )
    }
}

impl<A: Application> Core<A> {
    /// Goes on with a majority that is equal, and stops otherwise.
    pub(crate) fn diverged(
        &mut self,
        difference: Difference,
        verdict: Verdict,
    ) -> Result<(), ServerError> {
        match verdict {
            Verdict::Odd => Err(ServerError::Odd(difference)),
            Verdict::Undecided => Err(ServerError::Diverged(difference)),
            Verdict::Majority => {
                tracing::error!(
                    "{difference}; a majority of the members is equal to this one and goes on, and replica {} stops",
                    difference.peer
                );
                Ok(())
            }
        }
    }
}
