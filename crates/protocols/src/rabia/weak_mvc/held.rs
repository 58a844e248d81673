//! What only its holders propose, and what is made void (Racos, `merged`).
//!
//! Where a decision is to prove that payloads are kept, an entry with payloads is proposed by those that hold
//! theirs of them ([`Replica::admit`]). Others may know it, so that they can deliver it, and propose NULL.
//!
//! An entry that too few hold, and that nobody can give to others any more, would be proposed in vain for ever. So
//! the log makes it void: an entry that says so is decided in some slot, from which on the named ones count
//! as decided ([`crate::shared::decided::DecidedSet`]) on every replica, whether it delivers that slot or skips it. One that has a slot
//! behind that is skipped there. What it names and was decided before has had its effect.

use super::Replica;
use super::config::Fault;
use super::messages::Timer;
use crate::shared::decided::voided_by;
use quorate_core::{Base, Due, Entry, EntryId, MemberSet, Now, Out};

/// Waits after proposals in vain double up to this many times.
const DOUBLINGS_MAX: u32 = 10;

impl Replica {
    /// An entry whose payloads are kept here, and whose record is written: it may be proposed.
    pub(crate) fn admit(&mut self, now: Now, entry: Entry, out: &mut Out<Self>) {
        let id = entry.id;
        let Some(origin) = self.config.member(id.origin) else {
            return;
        };
        if self.pool.holds(id) {
            self.pool.release(id);
        } else {
            self.needs.forget(id);
            self.see_stamp(now, entry.stamp_ns);
            let rank_ns = self.rank_ns(now, entry.stamp_ns);
            self.pool.insert(entry, rank_ns, origin, true);
        }
        let is_new = origin == self.config.me && id.boot == self.config.boot;
        if is_new && self.offers.iter().all(|offer| offer.id != id) {
            self.offer_foreign(id);
        }
        self.run_to_fixpoint(now, out);
    }

    /// Members that are known to have proposed an own entry.
    pub(crate) fn proposers(&self, id: EntryId) -> MemberSet {
        let offer = self.offers.iter().find(|offer| offer.id == id);
        offer.map_or(MemberSet::EMPTY, |offer| offer.held_by)
    }

    /// Members lost what they held.
    pub(crate) fn discredit(&mut self, members: MemberSet) {
        let offers = self.offers.iter_mut();
        offers.for_each(|offer| offer.held_by -= members);
    }

    /// A proposal was in vain. Others may lack what goes with it, for long if its origin is away: the next
    /// slot that is only for this entry is started later each time.
    pub(super) fn pause_after_forfeit(&mut self, id: EntryId, out: &mut Out<Self>) {
        let has_bulk = |entry: &Entry| entry.bulk_len() > 0;
        if !self.config.holders_propose || !self.pool.get(id).is_some_and(has_bulk) {
            return;
        }
        if let Some(before) = self.pool.count_forfeit(id) {
            self.pool.freeze(id);
            let wait_ns = self.config.adopt_wait_ns << before.min(DOUBLINGS_MAX);
            out.arm(Timer::Thaw(id), Due::After(wait_ns));
        }
    }

    /// Moves past a decided slot, and lets go of what that makes void.
    pub(super) fn pass_over(&mut self, entry: Option<&Entry>) {
        let is_open = |id: &EntryId| !self.done.entries.contains(*id);
        let mut voided = entry.map(voided_by).unwrap_or_default();
        voided.retain(is_open);
        if !self.config.faults.is(Fault::IgnoreVoids) {
            self.done.advance(self.ap, entry);
        } else if let Some(entry) = entry {
            self.done.entries.insert(entry.id);
        }
        for id in &voided {
            self.pool.remove(*id);
            self.needs.forget(*id);
            self.offers.retain(|offer| offer.id != *id);
        }
        self.voided.extend(voided);
    }

    /// What was made void since this was last asked.
    pub(crate) fn take_voided(&mut self) -> Vec<EntryId> {
        std::mem::take(&mut self.voided)
    }
}
