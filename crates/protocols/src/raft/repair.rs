//! What makes up for lost messages, and how the leader is asked for a sign of life.

use super::Replica;
use crate::shared::led::Led;
use quorate_core::Out;

impl Replica {
    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        self.watch_led(out);
        self.watch_claim(out);
        self.watch_patience(out);
    }
}
