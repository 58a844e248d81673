//! What makes up for lost messages, and how the leader is asked for a sign of life.

use super::Replica;
use super::role::Instance;
use crate::shared::led::Led;
use quorate_core::{MemberIndex, Out, Slot};

impl Replica {
    /// The first slot behind all in which this replica accepted something; `ap` if there is none.
    pub(super) fn accepted_end(&self) -> Slot {
        let is_accepted = |slot: &Instance| slot.accepted.is_some();
        let last = self.slots.iter().rposition(is_accepted);
        last.map_or(self.ap, |offset| self.slot_at(offset + 1))
    }

    /// A peer waits for something. What it has accepted beyond the end of the log of a leader that
    /// did not hear of it was not chosen; its slot ends as a no-op.
    pub(super) fn on_ask(
        &mut self,
        from: MemberIndex,
        next: Slot,
        until: Slot,
        out: &mut Out<Self>,
    ) {
        self.tell(from, next, out);
        self.fill(until, out);
        self.note_wanted();
    }

    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        self.watch_repeats(out);
        self.watch_leader(out);
        self.watch_patience(out);
    }
}
