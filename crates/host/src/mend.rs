//! Damage that is found while this replica runs: the entry of a decided slot cannot be read from the
//! own log any more. A peer has it; it is appended again.

use crate::api::HostEvent;
use crate::frame::Body;
use crate::host::Host;
use crate::log::Position;
use crate::timers::Timer;
use quorate_core::{Application, Entry, Machine, Now, Peers, ReplicaId, Slot};
use std::collections::BTreeSet;

/// How long to wait for a peer before another is asked, in ns.
const ASK_AGAIN_NS: u64 = 1_000_000_000;

/// Slots whose entries are to be fetched again.
#[derive(Debug, Default)]
pub(crate) struct Mending {
    slots: BTreeSet<Slot>,
    /// Who was asked last.
    asked: Option<ReplicaId>,
}

impl<M: Machine, A: Application> Host<M, A> {
    /// The entry of a decided slot cannot be read; says whether that is news.
    pub(crate) fn found_damage(&mut self, now: Now, slot: Slot, at: Position, why: String) -> bool {
        let is_new = self.mending.slots.insert(slot);
        if is_new {
            self.events.push(HostEvent::Damaged { at, slot, why });
        }
        if !self.is_armed(Timer::Mend) {
            self.mend_next(now);
        }
        is_new
    }

    /// Asks the next peer for the first slot that is damaged.
    pub(crate) fn mend_next(&mut self, now: Now) {
        let released = self.decided.first();
        self.mending.slots = self.mending.slots.split_off(&released);
        let (Some(slot), Some(peer)) = (
            self.mending.slots.first().copied(),
            self.catch_up.next_peer(self.mending.asked),
        ) else {
            return;
        };
        self.mending.asked = Some(peer);
        self.arm(Timer::Mend, now.mono_ns + ASK_AGAIN_NS);
        self.post(Peers::One(peer), &Body::Fetch { from: slot });
    }

    /// A decided slot came from a peer: if it is damaged here, it is appended again.
    pub(crate) fn mend(&mut self, slot: Slot, entry: Option<&Entry>) {
        if !self.mending.slots.remove(&slot) {
            return;
        }
        if let Some(located) = self.append_decided(slot, entry) {
            self.decided.relocate(slot, located);
        }
        self.events.push(HostEvent::Mended { slot });
    }
}
