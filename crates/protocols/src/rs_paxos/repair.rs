//! What makes up for lost messages, and how the leader is asked for a sign of life.

use super::Replica;
use super::role::Instance;
use crate::shared::led::Led;
use quorate_core::{Out, Slot};

impl Replica {
    /// The first slot behind all in which this replica accepted something; `ap` if there is none.
    pub(super) fn accepted_end(&self) -> Slot {
        let is_accepted = |slot: &Instance| slot.accepted.is_some();
        let last = self.slots.iter().rposition(is_accepted);
        last.map_or(self.ap, |offset| self.slot_at(offset + 1))
    }

    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        self.watch_led(out);
        self.watch_patience(out);
    }
}
