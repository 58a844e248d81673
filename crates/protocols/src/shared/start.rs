//! How machines start.

use crate::shared::decided::DecidedSet;
use quorate_core::{Machine, Past, Slot};

/// Where a replica begins, what is decided before, and what it wrote of its epoch: nothing if it is new there; `None`
/// if it may have made promises that it does not know.
pub(crate) fn start_from<M: Machine<Base = DecidedSet>>(
    past: Past<M>,
    first_slot: Slot,
) -> (Slot, DecidedSet, Option<Vec<M::Record>>) {
    match past {
        Past::Fresh => (first_slot, DecidedSet::default(), Some(Vec::new())),
        Past::Lost { next, base } => (next, base, None),
        Past::Intact {
            next,
            base,
            records,
        } => (next, base, Some(records)),
    }
}
