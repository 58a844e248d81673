//! What makes up for lost messages, and how the leader is asked for a sign of life.

use super::Replica;
use crate::shared::led::Led;
use quorate_core::{MemberIndex, Out, Slot};

impl Replica {
    /// A peer waits for something. What its log has beyond the end of the leader's was not committed, and is
    /// cut off when these slots end as no-ops.
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
        self.watch_claim(out);
        self.watch_patience(out);
    }
}
