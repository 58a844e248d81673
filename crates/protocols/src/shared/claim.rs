//! What members said of how far the cluster has decided.

use crate::shared::seating::Seating;
#[cfg(feature = "yardsticks")]
use quorate_core::Due;
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

/// Has the host fetch what was decided elsewhere and has not come by itself.
#[cfg(feature = "yardsticks")]
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(crate) struct Fetcher {
    claim: Claim,
    /// The slot before which everything should be delivered when the timer comes due, if it runs.
    awaited: Option<Slot>,
}

#[cfg(feature = "yardsticks")]
impl Fetcher {
    /// A member has delivered every slot before this one.
    pub(crate) fn note(&mut self, at: MemberIndex, upto: Slot) {
        if upto > self.claim.upto {
            self.claim = Claim { at: Some(at), upto };
        }
    }

    /// Every slot before this one is decided, as far as it was said here.
    pub(crate) fn upto(&self) -> Slot {
        self.claim.upto
    }

    /// Has a timer run for so many ns while a member has more than is delivered here, which is what is before
    /// `next`: it may come in a moment.
    pub(crate) fn watch<M: Machine>(
        &mut self,
        next: Slot,
        timer: M::Timer,
        after_ns: u64,
        out: &mut Out<M>,
    ) {
        if next < self.claim.upto && self.awaited.is_none() {
            self.awaited = Some(self.claim.upto);
            out.arm(timer, Due::After(after_ns));
        }
    }

    /// The timer came due: what has not come is fetched, and is fetched again after so many ns.
    pub(crate) fn on_timer<M: Machine>(
        &mut self,
        next: Slot,
        seating: &Seating,
        timer: M::Timer,
        again_ns: u64,
        out: &mut Out<M>,
    ) {
        let awaited = self.awaited.take();
        if awaited.is_some_and(|awaited| next < awaited) && self.claim.catch_up(seating, out) {
            self.watch(next, timer, again_ns, out);
        }
    }
}
