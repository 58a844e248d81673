//! Deliberate faults of Domino, and what finds each.

use super::Replica;
use crate::registry::Mutant;

/// A rule of Domino that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Members vote for entries at stamps up to which they said they would not.
    VoteBelowNat,
    /// What is said to get no vote any more is not reserved.
    NatUnpersisted,
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    Vec::new()
}
