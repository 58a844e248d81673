//! The view that a replica asks for: why, and who is to propose in it.

use quorate_core::{MemberIndex, MemberSet};

/// Views given up, or asked for, after which the time to wait doubles, as with each view that began in vain; so often
/// at most.
const STALLS_EACH: u32 = 4;
pub(super) const BACKOFF_MAX: u32 = 6;

/// What a replica knows of the view it asks for, or should ask for.
#[derive(Clone, Copy, Default, Hash, Debug)]
pub(super) struct Campaign {
    /// Counts own campaigns, to tell their answers apart.
    pub(super) number: u64,
    /// The highest view heard of.
    pub(super) view_seen: u64,
    /// Members that the view should do without, as it seemed when this replica asked for it.
    pub(super) suspects: MemberSet,
    /// The only member that should propose in the view that this replica asks for, or is asked for.
    pub(super) only: Option<MemberIndex>,
    /// A peer waits for a new view.
    pub(super) is_wanted: bool,
    /// Views given up, or asked for, since anything was committed.
    stalls: u32,
}

impl Campaign {
    /// A view was heard of.
    pub(super) fn note_view(&mut self, view: u64) {
        self.view_seen = self.view_seen.max(view);
    }

    /// A view begins: nobody asks for another one yet.
    pub(super) fn enter(&mut self, view: u64) {
        self.note_view(view);
        (self.is_wanted, self.only) = (false, None);
    }

    /// A view is given up, or asked for.
    pub(super) fn note_stall(&mut self) {
        self.stalls = (self.stalls + 1).min(STALLS_EACH * BACKOFF_MAX);
    }

    /// Something was committed, or may be soon.
    pub(super) fn end_stalls(&mut self) {
        self.stalls = 0;
    }

    /// How often the time to wait has doubled because views were asked for in vain.
    pub(super) fn backoff(&self) -> u32 {
        self.stalls / STALLS_EACH
    }
}
