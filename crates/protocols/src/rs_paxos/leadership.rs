//! Peers that wait for a leader.

use super::Replica;
use crate::shared::leadership::Trust;

impl Replica {
    /// A peer waits for a leader: so does this replica, if it neither leads nor knows of one.
    pub(super) fn note_wanted(&mut self) {
        self.leadership.is_wanted |= !self.is_leader() && self.leadership.trust == Trust::None;
    }
}
