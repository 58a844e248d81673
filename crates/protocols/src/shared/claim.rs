//! What members said of how far the cluster has decided.

use crate::shared::seating::Seating;
use quorate_core::{Event, Machine, MemberIndex, Out, Slot};

/// How far the cluster has decided, as far as it was said here.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(crate) struct Claim {
    /// Who has the slots.
    pub(crate) at: Option<MemberIndex>,
    /// Every slot before this one is decided.
    pub(crate) upto: Slot,
}

impl Claim {
    /// Has the host fetch what was decided without this replica, of these members; says whether anybody has it.
    pub(crate) fn catch_up<M: Machine>(&self, seating: &Seating, out: &mut Out<M>) -> bool {
        let Some(at) = self.at else {
            return false;
        };
        out.emit(Event::Branch("decided elsewhere"));
        out.catch_up(seating.members[at], Slot(self.upto.0 - 1));
        true
    }
}
