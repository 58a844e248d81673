//! Smaller codes while members are away.
//!
//! A value that is cut into `k` needs `k + f` holders, and where `k > n - 2f` those are more than `n - f`: with
//! `f` members down nothing would be announced any more. So an origin that waited in vain cuts the value anew,
//! for so many as have answered, and goes on with that code until the others answer again.
//!
//! Nobody's word that a member is up or down is trusted. The value has another name then, and what was
//! spread before can never be announced: it is out of `spreading`, has no candidate bit, and the roster of a
//! new life, which begins for that, leaves it out (`roster.rs`). Nor would it matter if both were decided, for
//! the commands in them are the same, and a session executes each once. What may have been announced in a
//! former life, before a disk was lost, keeps its name and its code.

use super::Replica;
use super::messages::Manifest;
use super::mutants::Fault;
use quorate_core::{EntryId, Event, Now, Out};

impl Replica {
    /// The code of a new value: as fine as the members that are not known to be silent can hold.
    pub(super) fn next_code(&self, out: &mut Out<Self>) -> u8 {
        let finest = self.config.code;
        if !self.config.adaptive {
            return finest;
        }
        let others = (self.config.others() - self.silent).len();
        let code = self.code_for(1 + others).unwrap_or(1).min(finest);
        if code < finest {
            out.emit(Event::Branch("value in fewer segments"));
        }
        code
    }

    /// The finest code that so many members can hold, if there is any.
    fn code_for(&self, members: usize) -> Option<u8> {
        let code = members.checked_sub(self.config.thresholds.spare)?;
        u8::try_from(code).ok().filter(|code| *code > 0)
    }

    /// Cuts values anew that too few members acknowledge, although enough do for a smaller code.
    pub(super) fn adapt(&mut self, now: Now, out: &mut Out<Self>) {
        if !self.config.adaptive {
            return;
        }
        let late = self.spreading.iter().filter_map(|(id, spreading)| {
            let is_late =
                !spreading.is_announced && spreading.is_late(self.now.mono_ns, &self.config);
            let reached = self.code_for(spreading.holders(self.durable))?;
            let is_coarser = reached < spreading.manifest.code;
            // It may have been announced, under this name.
            let is_open =
                !self.orphans.contains(id) || self.config.faults.is(Fault::AbandonOrphans);
            (is_late && is_coarser && is_open).then_some((*id, reached))
        });
        let late: Vec<(EntryId, u8)> = late.collect();
        if late.is_empty() {
            return;
        }
        let manifests: Vec<Manifest> = late
            .into_iter()
            .filter_map(|(id, code)| self.abandon(id, code, out))
            .collect();
        if !self.config.faults.is(Fault::KeepAbandonedSecret) {
            // Its roster leaves out what was abandoned.
            self.begin_life(self.life.next(), out);
        }
        for mut manifest in manifests {
            out.emit(Event::Branch("value cut anew"));
            let entry = &mut manifest.entry;
            let name = self.mvc.name_entry(now);
            (entry.id, entry.stamp_ns) = (name.id, name.stamp_ns);
            manifest.life = self.life;
            self.spread_own(manifest, out);
        }
    }

    /// Gives a value up that was never announced, and remembers who said nothing of it.
    fn abandon(&mut self, id: EntryId, code: u8, out: &mut Out<Self>) -> Option<Manifest> {
        let spreading = self.spreading.remove(&id)?;
        self.silent |= self.config.others() - spreading.acks;
        self.forget_value(id, out);
        Some(Manifest {
            code,
            ..spreading.manifest
        })
    }
}
