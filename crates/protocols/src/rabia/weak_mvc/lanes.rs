//! Lanes: which members' requests a slot is for, and which slots are started for their own sake.

use super::Replica;
use super::slot::Instance;
use quorate_core::{MemberIndex, MemberSet};

/// What is known of the lanes.
#[derive(Clone, Copy, Default, Hash, Debug)]
pub(super) struct Lanes {
    /// Lanes, as bits, whose last outcome was NULL in spite of a request proposed here. Then one
    /// slot of the lane is worked on at a time, or replicas that assign the same requests to the slots of
    /// the window in different orders may go on forfeiting for ever.
    narrow: u64,
    /// Members that said they have more than they have proposed.
    more: MemberSet,
}

impl Lanes {
    fn is_narrow(&self, lane: usize) -> bool {
        self.narrow & 1 << lane != 0
    }

    /// A slot of a lane is decided for a request, or its outcome forfeits the request proposed here.
    pub(super) fn set_narrow(&mut self, lane: usize, is_narrow: bool) {
        self.narrow = self.narrow & !(1 << lane) | u64::from(is_narrow) << lane;
    }

    /// A member says whether it has more than it has proposed.
    pub(super) fn hear_more(&mut self, member: MemberIndex, has_more: bool) {
        self.more.remove(member);
        self.more.insert_if(member, has_more);
    }
}

impl Replica {
    /// Whether the last outcome of the slot's lane forfeited a request proposed here.
    pub(super) fn is_narrow(&self, offset: usize) -> bool {
        self.lanes.is_narrow(self.config.lane(self.slot_at(offset)))
    }

    /// Whether a slot may start for its own sake: not after a forfeit of its lane, unless it is
    /// the lane's first.
    pub(super) fn is_wide(&self, offset: usize) -> bool {
        offset < self.config.lanes || !self.is_narrow(offset)
    }

    /// Whether a later slot, of another lane, is wanted for a request.
    pub(super) fn is_lane_waiting_behind(&self, offset: usize) -> bool {
        let last = self.config.window.min(offset + self.config.lanes);
        (offset + 1..last).any(|later| self.is_wide(later) && self.head(later, false).is_some())
    }

    /// Whether the owner of the slot's lane has not proposed in it and said it has more: to race
    /// it with NULL would cost its request the slot.
    pub(super) fn has_busy_owner(&self, offset: usize) -> bool {
        let slot = self.slot_at(offset);
        let everybody = self.config.everybody();
        let unheard = self.slots.get(offset).map_or(everybody, Instance::unheard);
        let busy = self.lanes.more & unheard & self.config.others();
        self.config.lanes > 1 && busy.iter().any(|member| self.config.is_for(slot, member))
    }
}
