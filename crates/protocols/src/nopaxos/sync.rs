//! Synchronisation: the leader has its followers make their logs like its own, now and then. What a majority has alike,
//! durably, is decided, and delivered.
//!
//! Within a view a follower's log can differ from the leader's by its end, and by slots in which the leader has a
//! no-op and the follower has not heard of that. So it is enough to name the no-ops.

use super::Replica;
use super::config::Config;
use super::messages::{Message, Sync, Timer, View};
use super::replica::Written;
use crate::shared::claim::Claim;
use quorate_core::{Due, MemberIndex, MemberSet, Out, Slot, reached};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// What logs are compared by, in one view.
#[derive(Clone, Default, Debug)]
pub(super) struct Lead {
    /// What was delivered here when the view began is not spoken of.
    from: Slot,
    /// The log is the leader's up to before this slot.
    pub(super) matched: Slot,
    /// Every slot before this one is decided.
    pub(super) synced: Slot,
    /// Slots of this view that hold no-ops.
    pub(super) noops: BTreeSet<Slot>,
    /// As follower: how the leader's log was said to look, where it goes beyond the own one.
    pub(super) wanted: Option<Sync>,
    /// As leader: how far each member has the own log, durably.
    had_by: Vec<Slot>,
    /// As leader: the followers were told of all before this slot.
    pub(super) told: Slot,
}

impl Hash for Lead {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.from, self.matched, self.synced, self.told).hash(to);
        (&self.noops, &self.had_by).hash(to);
        self.wanted
            .as_ref()
            .map(|sync| (sync.from, sync.upto, &sync.noops))
            .hash(to);
    }
}

impl Lead {
    /// A view begins, or ends, where all before a slot is delivered.
    pub(super) fn at(config: &Config, from: Slot) -> Lead {
        Lead {
            from,
            matched: from,
            synced: from,
            had_by: vec![from; config.seating.members.len()],
            told: from,
            ..Lead::default()
        }
    }
}

impl Replica {
    /// Has followers compare their logs with the own one.
    pub(super) fn say_sync(&mut self, to: MemberSet, out: &mut Out<Self>) {
        let (view, upto) = (self.view, self.log.end());
        let from = self.log.next.0.saturating_sub(self.config.window);
        let from = self.lead.from.max(Slot(from));
        if self.lead.told < upto {
            self.lead.told = upto;
            self.disk.push(out.persisted(), Written::Log { view, upto });
        }
        let sync = Sync {
            view,
            from,
            upto,
            noops: self.lead.noops.range(from..upto).copied().collect(),
        };
        self.say(to, &Message::Sync(sync), out);
    }

    /// Forgets no-ops that the leader does not speak of any more.
    pub(super) fn forget_old_noops(&mut self) {
        let kept = Slot(self.log.next.0.saturating_sub(self.config.window));
        while self.lead.noops.first().is_some_and(|slot| *slot < kept) {
            self.lead.noops.pop_first();
        }
    }

    /// The leader says how its log looks.
    pub(super) fn on_sync(&mut self, sync: Sync) {
        let known = self.lead.wanted.as_ref();
        if known.is_none_or(|known| known.upto <= sync.upto) {
            self.lead.wanted = Some(sync);
        }
    }

    /// Makes the log like the leader's, once it is as long.
    pub(super) fn compare(&mut self, out: &mut Out<Self>) {
        let end = self.log.end();
        let Some(sync) = self.lead.wanted.take_if(|sync| sync.upto <= end) else {
            return;
        };
        let leader = self.leader();
        if sync.from > self.lead.matched.max(self.log.next) {
            // What is missing between is decided: the host fetches it.
            return self.note_claim(leader, sync.from);
        }
        for slot in sync.noops {
            self.void_all(slot, slot.next(), out);
        }
        self.lead.matched = self.lead.matched.max(sync.upto);
        let Sync { view, upto, .. } = sync;
        self.say(MemberSet::only(leader), &Message::SyncA { view, upto }, out);
    }

    /// A member has the own log up to before a slot, durably.
    pub(super) fn count_log(&mut self, member: MemberIndex, upto: Slot, out: &mut Out<Self>) {
        if upto > self.log.end() {
            return self.misbehaved(member, "a log that is longer than its leader's", out);
        }
        let had = &mut self.lead.had_by[member];
        *had = upto.max(*had);
        let (all, enough) = (
            self.lead.had_by.iter().copied(),
            self.config.thresholds.sync,
        );
        if let Some(synced) = reached(all, enough, self.lead.synced) {
            self.lead.synced = synced;
            self.say_synced(self.others(), out);
        }
    }

    /// Tells what is decided.
    pub(super) fn say_synced(&self, to: MemberSet, out: &mut Out<Self>) {
        let (view, upto) = (self.view, self.lead.synced);
        self.say_early(to, &Message::Synced { view, upto }, out);
    }

    /// Members that lack something of the own log.
    pub(super) fn behind(&self) -> MemberSet {
        let end = self.log.end();
        let has_all = |member: &MemberIndex| self.lead.had_by[*member] >= end;
        self.others()
            .iter()
            .filter(|member| !has_all(member))
            .collect()
    }

    /// Every slot before one is decided.
    pub(super) fn on_synced(
        &mut self,
        from: MemberIndex,
        view: View,
        upto: Slot,
        out: &mut Out<Self>,
    ) {
        self.note_claim(from, upto);
        if !self.is_silent && self.is_in(from, view, out) && !self.is_leader() {
            self.lead.synced = self.lead.synced.max(upto);
        }
    }

    /// A member has delivered every slot before this one.
    pub(super) fn note_claim(&mut self, at: MemberIndex, upto: Slot) {
        if self.claim.upto < upto {
            let at = Some(at);
            self.claim = Claim { at, upto };
        }
    }

    /// What is decided may become known here in a moment; if it does not, the host fetches it.
    pub(super) fn watch_claim(&mut self, out: &mut Out<Self>) {
        let (claimed, armed) = (self.claim.upto, &mut self.waits.armed.catch_up);
        if armed.is_none() && claimed > self.log.next {
            *armed = Some(claimed);
            let wait_ns = self.config.delays.learn_ns;
            out.arm(Timer::CatchUp, Due::After(wait_ns));
        }
    }

    pub(super) fn on_catch_up(&mut self, out: &mut Out<Self>) {
        let awaited = self.waits.armed.catch_up.take().unwrap_or_default();
        if self.log.next < awaited && self.claim.catch_up(&self.config.seating, out) {
            // An answer that is lost is asked for once more.
            self.waits.armed.catch_up = Some(self.claim.upto);
            let wait_ns = self.config.delays.repeat_max_ns;
            out.arm(Timer::CatchUp, Due::After(wait_ns));
        }
    }
}
