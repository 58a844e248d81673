//! Following: making the own log that of the leader (paper, section 5.4).

use super::Replica;
use super::digest::Tup;
use super::messages::{Body, LogMod, Message, Placed};
use super::mutants::Fault;
use super::replica::Status;
use quorate_core::{EntryId, Event, MemberIndex, Out, ReplicaId, Slot};
use std::collections::BTreeSet;

/// Entries beyond the own log of which the places are kept.
const PLACED_MAX: u64 = 1 << 16;
/// Entries that may wait to be written with something else, at most.
const LAZY_MAX: usize = 64;

impl Replica {
    /// A member spoke in a view.
    pub(super) fn heard(&mut self, from: MemberIndex, view: u64) {
        if view == self.view && from == self.leader() {
            (self.has_heard, self.is_called) = (true, false);
        }
    }

    pub(super) fn on_log_mod(&mut self, from: MemberIndex, log_mod: LogMod, out: &mut Out<Self>) {
        let LogMod {
            view, first, cp, ..
        } = log_mod;
        if from != self.config.leader_of(view) {
            return self.misbehaved(from, "a log modification of another than the leader", out);
        }
        if view > self.view && self.status != Status::Recovering {
            return self.start_change(view, out);
        }
        if view < self.view {
            return self.say_view_to(from, view, out);
        }
        if !self.follows() {
            return;
        }
        self.heard(from, view);
        self.merge_lives(&log_mod.cv, out);
        if self.is_unvouched && cp < self.ap {
            // Somebody has delivered what the leader of this view has not: is there a later one?
            return;
        }
        self.is_unvouched = false;
        for (placed, slot) in log_mod.entries.iter().zip(first.0..) {
            if slot >= self.end().0 && slot - self.end().0 < PLACED_MAX {
                self.placed.insert(Slot(slot), *placed);
            }
        }
        if let Some(sums) = log_mod.sums
            && self.sums.is_none()
        {
            let at = Slot(first.0 + log_mod.entries.len() as u64);
            self.sums_told = Some((at, sums));
        }
        self.cp = self.cp.max(cp);
        let has_gap = first > self.end() && !self.placed.contains_key(&self.end());
        // What follows is asked for once, and again by a timer: the answer may have a gap, too, where the leader
        // has delivered what is asked for and its host gives it, and would be asked about for ever.
        let is_asked = self.fetched == Some(self.end());
        if has_gap && !is_asked && !self.config.faults.is(Fault::SyncWithGaps) {
            self.fetched = Some(self.end());
            self.fetch(out);
        } else if !has_gap && self.lacks_sums() && !self.has_asked_sums {
            // The host gave it what the leader's message was late with: it promises nothing until it has them, and
            // there is no fast path without it.
            out.emit(Event::Branch("sums asked for"));
            self.has_asked_sums = true;
            self.fetch(out);
        }
        self.is_lazy = self.may_wait();
        if !self.is_lazy {
            self.sync_further(out);
        }
    }

    fn lacks_sums(&self) -> bool {
        self.sums.is_none() && self.sums_told.is_none()
    }

    /// Whether what the leader placed may wait for the next flush: the followers next to the leader, who write
    /// at once, are enough for the slow path, it is where this replica has promised it, and nothing is before
    /// it that the leader does not have.
    fn may_wait(&self) -> bool {
        let n = self.config.n();
        let place = (self.config.me.position() + n - self.leader().position()) % n;
        let count = self.placed.len();
        let is_promised = |placed: &Placed| self.un_of.get(&placed.id) == Some(&placed.deadline);
        let is_placed = |tup: &Tup| self.placed.values().any(|placed| placed.id == tup.id);
        self.config.lazy_ns > 0
            && place >= self.config.thresholds.slow
            && (1..=LAZY_MAX).contains(&count)
            && self.down.is_empty()
            && self.reads.count() == 0
            && self.placed.values().all(is_promised)
            && self.un.keys().take(count).all(is_placed)
    }

    /// Something else is about to be written, or somebody waits.
    pub(super) fn sync_lazy(&mut self, out: &mut Out<Self>) {
        if self.is_lazy {
            self.sync_further(out);
        }
    }

    /// Asks the leader for what follows.
    pub(super) fn fetch(&self, out: &mut Out<Self>) {
        self.fetch_from(self.leader(), out);
    }

    /// Asks a member, which knows of a later view if it does not lead this one.
    pub(super) fn fetch_from(&self, member: MemberIndex, out: &mut Out<Self>) {
        let fetch = Message::Fetch {
            view: self.view,
            from: self.end(),
            wants_sums: self.sums.is_none(),
        };
        out.send_early(self.peer(member), fetch);
    }

    /// Takes in what the leader's log holds next, as far as its bodies are here.
    pub(super) fn sync_further(&mut self, out: &mut Out<Self>) {
        self.is_lazy = false;
        if !self.follows() || self.is_unvouched {
            return;
        }
        let mut gateways = BTreeSet::new();
        self.drop_placed();
        while let Some((slot, placed)) = self.placed.first_key_value() {
            let (slot, placed) = (*slot, *placed);
            if slot > self.end() && !self.config.faults.is(Fault::SyncWithGaps) {
                break;
            }
            let Some(body) = self.body_of(placed.id).cloned() else {
                self.ask_missing(out);
                break;
            };
            self.placed.remove(&slot);
            if self.slots.contains_key(&placed.id) {
                continue;
            }
            self.sync(slot, self.item(body, placed.deadline), out);
            gateways.insert(placed.id.origin);
        }
        self.take_sums();
        if !gateways.is_empty() {
            gateways.insert(self.config.members[self.leader()]);
            gateways.into_iter().for_each(|to| self.say_synced(to, out));
        }
    }

    /// What the own log holds is in its place.
    fn drop_placed(&mut self) {
        let end = self.end();
        while let Some(first) = self.placed.first_entry()
            && *first.key() < end
        {
            first.remove();
        }
    }

    /// Asks for the bodies of everything that is placed and not here.
    fn ask_missing(&mut self, out: &mut Out<Self>) {
        let ids = self.placed.values().map(|placed| placed.id);
        let missing: Vec<EntryId> = ids.filter(|id| self.body_of(*id).is_none()).collect();
        self.ask_bodies(self.peer(self.leader()), missing, out);
    }

    /// One entry, as the leader has it: whatever deadline it had here counts no more, nor does what
    /// conflicts and should have been before.
    fn sync(&mut self, slot: Slot, item: super::log::Item, out: &mut Out<Self>) {
        let id = item.tup.id;
        if !self.config.faults.is(Fault::KeepOtherVersions) {
            self.take_unsynced(id);
            self.early.remove(id);
        }
        self.bodies.remove(id);
        self.write_item(slot, &item, out);
        let (tup, footprint) = (item.tup, item.body.footprint.clone());
        self.push(item);
        let before = self.un.range(..tup);
        let purged = before.filter(|(_, un)| un.item.body.footprint.conflicts(&footprint));
        let purged: Vec<Tup> = purged.map(|(tup, _)| *tup).collect();
        for tup in purged {
            out.emit(Event::Branch("overtaken while unsynced"));
            if let Some(body) = self.take_unsynced(tup.id) {
                self.adopt(body);
            }
        }
    }

    /// The sums that the leader told, and what came after.
    fn take_sums(&mut self) {
        let Some((at, _)) = self.sums_told else {
            return;
        };
        if at > self.end() {
            return;
        }
        let Some((_, mut sums)) = self.sums_told.take() else {
            return;
        };
        if at < self.ap || self.sums.is_some() {
            return;
        }
        let items = self.log.range((at.0 - self.ap.0) as usize..);
        let items = items.chain(self.un.values().map(|un| &un.item));
        for item in items {
            sums.add(&item.body.footprint, item.hash);
        }
        self.sums = Some(sums);
    }

    /// Says how far the own log is the leader's: once that is durable.
    pub(super) fn say_synced(&mut self, to: ReplicaId, out: &mut Out<Self>) {
        if self.is_unvouched {
            return;
        }
        let Some(owd) = self.owd_from(to) else {
            return;
        };
        let synced = Message::Synced {
            view: self.view,
            upto: self.end(),
            owd,
        };
        self.say_to(to, synced, out);
    }

    /// What should have come did not.
    pub(super) fn on_poll(&mut self, out: &mut Out<Self>) {
        if self.follows() {
            (self.has_asked, self.fetched) = (false, None);
            self.has_asked_sums = self.sums.is_none();
            self.back_off();
            self.fetch(out);
            self.sync_further(out);
            // Their gateways may be dead.
            let unsynced: Vec<Body> = self.un.values().map(|un| un.item.body.clone()).collect();
            for body in unsynced {
                if self.config.faults.is(Fault::DropUnsynced) {
                    self.take_unsynced(body.entry.id);
                }
                self.adopt(body);
            }
            if !self.log.is_empty() {
                self.say_synced(self.config.members[self.leader()], out);
            }
        }
    }
}
