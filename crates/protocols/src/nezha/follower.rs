//! Following: making the own log that of the leader (paper, section 5.4).

use super::Replica;
use super::digest::Sums;
use super::log::Unsynced;
use super::messages::{Body, LogMod, Message, Placed};
use super::mutants::Fault;
use super::replica::Status;
use quorate_core::{EntryId, Event, MemberIndex, Out, ReplicaId, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Entries beyond the own log of which the places are kept.
const PLACED_MAX: u64 = 1 << 16;
/// Entries that may wait to be written with something else, at most.
const LAZY_MAX: usize = 64;

/// What a follower knows of its leader's log beyond its own, and has asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Following {
    /// What the leader's log holds beyond the own.
    pub(super) placed: BTreeMap<Slot, Placed>,
    /// What the leader placed waits to be written with something else.
    pub(super) is_lazy: bool,
    /// The leader's sums, where its log was this long.
    pub(super) sums_told: Option<(Slot, Sums)>,
    /// What follows the log was asked for since the timer was armed, where the log ended here.
    pub(super) fetched: Option<Slot>,
    /// The leader's sums were asked for since the timer was armed.
    pub(super) has_asked_sums: bool,
}

impl Following {
    /// What was asked for may be asked for again.
    pub(super) fn forget_questions(&mut self) {
        (self.fetched, self.has_asked_sums) = (None, false);
    }

    /// Drops what a log that ends at `end` holds already.
    fn drop_placed(&mut self, end: Slot) {
        while let Some(first) = self.placed.first_entry()
            && *first.key() < end
        {
            first.remove();
        }
    }

    /// Feeds what the rest of a run depends on, beside a log that ends at `end`.
    pub(super) fn fingerprint(&self, end: Slot, to: &mut impl Hasher) {
        (&self.placed, self.is_lazy, &self.sums_told).hash(to);
        (self.fetched == Some(end), self.has_asked_sums).hash(to);
    }
}

impl Replica {
    /// A member spoke in a view.
    pub(super) fn heard(&mut self, from: MemberIndex, view: u64) {
        if view == self.view && from == self.leader() {
            (self.watch.has_heard, self.watch.is_called) = (true, false);
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
                self.following.placed.insert(Slot(slot), *placed);
            }
        }
        if let Some(sums) = log_mod.sums
            && self.log.sums.is_none()
        {
            let at = Slot(first.0 + log_mod.entries.len() as u64);
            self.following.sums_told = Some((at, sums));
        }
        self.cp = self.cp.max(cp);
        let has_gap = first > self.end() && !self.following.placed.contains_key(&self.end());
        // What follows is asked for once, and again by a timer: the answer may have a gap, too, where the leader
        // has delivered what is asked for and its host gives it, and would be asked about for ever.
        let is_asked = self.following.fetched == Some(self.end());
        if has_gap && !is_asked && !self.config.faults.is(Fault::SyncWithGaps) {
            self.following.fetched = Some(self.end());
            self.fetch(out);
        } else if !has_gap && self.lacks_sums() && !self.following.has_asked_sums {
            // The host gave it what the leader's message was late with: it promises nothing until it has them, and
            // there is no fast path without it.
            out.emit(Event::Branch("sums asked for"));
            self.following.has_asked_sums = true;
            self.fetch(out);
        }
        self.following.is_lazy = self.may_wait();
        if !self.following.is_lazy {
            self.sync_further(out);
        }
    }

    fn lacks_sums(&self) -> bool {
        self.log.sums.is_none() && self.following.sums_told.is_none()
    }

    /// Whether what the leader placed may wait for the next flush: the followers next to the leader, who write
    /// at once, are enough for the slow path, it is where this replica has promised it, and nothing is before
    /// it that the leader does not have.
    fn may_wait(&self) -> bool {
        let n = self.config.n();
        let place = (self.config.me.position() + n - self.leader().position()) % n;
        let count = self.following.placed.len();
        let is_promised =
            |placed: &Placed| self.unsynced.deadline_of(placed.id) == Some(placed.deadline);
        let is_placed = |un: &Unsynced| {
            let mut placed = self.following.placed.values();
            placed.any(|placed| placed.id == un.item.tup.id)
        };
        self.config.lazy_ns > 0
            && place >= self.config.thresholds.slow
            && (1..=LAZY_MAX).contains(&count)
            && self.down.is_empty()
            && self.reads.count() == 0
            && self.following.placed.values().all(is_promised)
            && self.unsynced.iter().take(count).all(is_placed)
    }

    /// Something else is about to be written, or somebody waits.
    pub(super) fn sync_lazy(&mut self, out: &mut Out<Self>) {
        if self.following.is_lazy {
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
            wants_sums: self.log.sums.is_none(),
        };
        out.send_early(self.peer(member), fetch);
    }

    /// Takes in what the leader's log holds next, as far as its bodies are here.
    pub(super) fn sync_further(&mut self, out: &mut Out<Self>) {
        self.following.is_lazy = false;
        if !self.follows() || self.is_unvouched {
            return;
        }
        let mut gateways = BTreeSet::new();
        let end = self.end();
        self.following.drop_placed(end);
        while let Some((slot, placed)) = self.following.placed.first_key_value() {
            let (slot, placed) = (*slot, *placed);
            if slot > self.end() && !self.config.faults.is(Fault::SyncWithGaps) {
                break;
            }
            let Some(body) = self.body_of(placed.id).cloned() else {
                self.ask_missing(out);
                break;
            };
            self.following.placed.remove(&slot);
            if self.log.slots.contains_key(&placed.id) {
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

    /// Asks for the bodies of everything that is placed and not here.
    fn ask_missing(&mut self, out: &mut Out<Self>) {
        let ids = self.following.placed.values().map(|placed| placed.id);
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
        let before = self.unsynced.before(tup);
        let purged = before.filter(|un| un.item.body.footprint.conflicts(&footprint));
        let purged: Vec<EntryId> = purged.map(|un| un.item.tup.id).collect();
        for id in purged {
            out.emit(Event::Branch("overtaken while unsynced"));
            if let Some(body) = self.take_unsynced(id) {
                self.adopt(body);
            }
        }
    }

    /// The sums that the leader told, and what came after.
    fn take_sums(&mut self) {
        let Some((at, _)) = self.following.sums_told else {
            return;
        };
        if at > self.end() {
            return;
        }
        let Some((_, mut sums)) = self.following.sums_told.take() else {
            return;
        };
        if at < self.ap || self.log.sums.is_some() {
            return;
        }
        let items = self.log.items.range((at.0 - self.ap.0) as usize..);
        let items = items.chain(self.unsynced.iter().map(|un| &un.item));
        for item in items {
            sums.add(&item.body.footprint, item.hash);
        }
        self.log.sums = Some(sums);
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
            (self.bodies.are_asked_for, self.following.fetched) = (false, None);
            self.following.has_asked_sums = self.log.sums.is_none();
            self.back_off();
            self.fetch(out);
            self.sync_further(out);
            // Their gateways may be dead.
            let unsynced: Vec<Body> = self
                .unsynced
                .iter()
                .map(|un| un.item.body.clone())
                .collect();
            for body in unsynced {
                if self.config.faults.is(Fault::DropUnsynced) {
                    self.take_unsynced(body.entry.id);
                }
                self.adopt(body);
            }
            if !self.log.items.is_empty() {
                self.say_synced(self.config.members[self.leader()], out);
            }
        }
    }
}
