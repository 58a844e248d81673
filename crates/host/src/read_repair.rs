//! Decided slots that are to be fetched once more and appended to the own log: those whose entries cannot be read from it
//! any more, which damage is found to have taken while this replica runs, and those that were applied while it could not
//! be written.

use crate::api::HostEvent;
use crate::catch_up::CatchUp;
use crate::context::Context;
use crate::decided::Located;
use crate::frame::Body;
use crate::position::Position;
use crate::timers::Timer;
use quorate_core::{Application, Entry, Machine, Now, Peers, ReplicaId, Slot};
use std::collections::BTreeSet;

/// How long to wait for a peer before another is asked, in ns.
const ASK_AGAIN_NS: u64 = 1_000_000_000;

/// Slots whose entries are to be fetched again.
#[derive(Debug, Default)]
pub(crate) struct ReadRepair {
    damaged: BTreeSet<Slot>,
    unwritten: BTreeSet<Slot>,
    /// Where the last of those that were not written ends in the log.
    written: Position,
    /// Who was asked last, and for which slot.
    asked: Option<(ReplicaId, Slot)>,
}

impl ReadRepair {
    /// A decided slot is applied and cannot be written; says where it is.
    pub(crate) fn leave_unwritten(&mut self, slot: Slot) -> Located {
        self.unwritten.insert(slot);
        Located::UNWRITTEN
    }

    fn first(&self) -> Option<Slot> {
        let firsts = [self.damaged.first(), self.unwritten.first()];
        firsts.into_iter().flatten().min().copied()
    }

    /// Where the log must be durable to for all that is applied to be in it; `None` while something is missing there.
    pub(crate) fn whole_at(&self) -> Option<Position> {
        self.unwritten.is_empty().then_some(self.written)
    }
}

/// What read repair works on, beside its own state.
pub(crate) struct ReadRepairHandler<'a, M: Machine, A: Application> {
    context: &'a mut Context<M, A>,
    read_repair: &'a mut ReadRepair,
    catch_up: &'a CatchUp,
}

impl ReadRepair {
    /// Lends what read repair works on.
    pub(crate) fn with<'a, M: Machine, A: Application>(
        &'a mut self,
        context: &'a mut Context<M, A>,
        catch_up: &'a CatchUp,
    ) -> ReadRepairHandler<'a, M, A> {
        ReadRepairHandler {
            context,
            read_repair: self,
            catch_up,
        }
    }
}

impl<M: Machine, A: Application> ReadRepairHandler<'_, M, A> {
    /// The entry of a decided slot cannot be read; says whether that is news.
    pub(crate) fn found_damage(&mut self, now: Now, slot: Slot, at: Position, why: String) -> bool {
        let is_new = self.read_repair.damaged.insert(slot);
        if is_new {
            self.context
                .effects
                .events
                .push(HostEvent::Damaged { at, slot, why });
        }
        if !self.context.timers.is_armed(Timer::ReadRepair) {
            self.ask_next(now);
        }
        is_new
    }

    /// Asks the next peer for the first slot that is to be appended again.
    pub(crate) fn ask_next(&mut self, now: Now) {
        let released = self.context.storage.decided.first();
        for slots in [
            &mut self.read_repair.damaged,
            &mut self.read_repair.unwritten,
        ] {
            *slots = slots.split_off(&released);
        }
        let last = self.read_repair.asked.map(|(peer, _)| peer);
        let (Some(slot), Some(peer)) = (self.read_repair.first(), self.catch_up.next_peer(last))
        else {
            self.read_repair.asked = None;
            return;
        };
        if self.context.storage.is_stalled {
            return;
        }
        self.read_repair.asked = Some((peer, slot));
        self.context
            .timers
            .arm(Timer::ReadRepair, now.mono_ns + ASK_AGAIN_NS);
        self.context
            .post(Peers::One(peer), &Body::Fetch { from: slot });
    }

    /// Asks for more at once if what was asked for last has come.
    pub(crate) fn ask_for_more(&mut self, now: Now) {
        let first = self.read_repair.first();
        if let Some((_, slot)) = self.read_repair.asked
            && first.is_none_or(|first| first > slot)
        {
            self.ask_next(now);
        }
    }

    /// A decided slot came from a peer: if it is to be appended again, it is.
    pub(crate) fn mend(&mut self, slot: Slot, entry: Option<&Entry>) {
        if self.context.storage.is_stalled {
            return;
        }
        let was_damaged = self.read_repair.damaged.remove(&slot);
        let was_unwritten = self.read_repair.unwritten.remove(&slot);
        if !was_damaged && !was_unwritten {
            return;
        }
        if let Some(located) = self.context.storage.append_decided(slot, entry) {
            self.context.storage.decided.relocate(slot, located);
        }
        if was_damaged {
            self.context.effects.events.push(HostEvent::Mended { slot });
        }
        if let Some(log) = self.context.storage.log.as_mut().filter(|_| was_unwritten) {
            log.want_sync();
            self.read_repair.written = log.tail();
        }
    }
}
