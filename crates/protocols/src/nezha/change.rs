//! From one view to the next.

use super::Replica;
use super::leader::Lead;
use super::log::Item;
use super::messages::{Body, Message, NO_VIEW, Placed, Record, StartView, Vc};
use super::mutants::Fault;
use super::repeats::Repeat;
use super::replica::Status;
use quorate_core::{Event, MemberIndex, Out, Peers, ReplicaId, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// What a replica knows of the view it waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct ViewChange {
    /// Of its leader to be: the last word of each member, its own aside.
    pub(super) said: BTreeMap<MemberIndex, Vc>,
    /// A log that something is missing for.
    pub(super) pending: Option<(MemberIndex, StartView)>,
}

impl Hash for ViewChange {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for (from, vc) in &self.said {
            (from, vc.lnv, vc.first, &vc.log, &vc.un, &vc.cv).hash(to);
        }
        let pending = self.pending.as_ref();
        pending
            .map(|(from, start)| (from, start.view, &start.log))
            .hash(to);
    }
}

impl Replica {
    /// Leaves its view: nothing is promised in it any more.
    pub(super) fn start_change(&mut self, view: u64, out: &mut Out<Self>) {
        debug_assert!(view > self.view);
        out.emit(Event::Branch("view change"));
        if self.leads() {
            out.retract(self.ap);
            self.lead = Lead::new(&self.config, self.end());
            self.disk.forget_log();
        }
        self.watch.in_vain += 1;
        self.views_told.fill(Repeat::default());
        self.change = ViewChange::default();
        self.status = Status::ViewChange;
        self.view = view;
        for body in self.early.drain() {
            self.bodies.insert(body);
        }
        self.following.placed.clear();
        self.following.sums_told = None;
        self.bodies.are_asked_for = false;
        self.reads.start_over();
        self.disarm_all(out);
        out.persist(Record::View { view });
        self.say_change(out);
        self.try_start(out);
    }

    /// Tells all that it left, and the leader to be what it has promised.
    fn say_change(&mut self, out: &mut Out<Self>) {
        let (view, cv) = (self.view, self.cv.clone());
        if self.config.n() > 1 {
            out.send(Peers::All, Message::VcReq { view, cv });
        }
        self.say_vc(out);
    }

    fn say_vc(&mut self, out: &mut Out<Self>) {
        if self.leader() != self.config.me {
            let vc = self.vc();
            out.send(self.peer(self.leader()), Message::Vc(vc));
        }
    }

    /// All that this replica has promised.
    pub(super) fn vc(&self) -> Vc {
        let unsynced = |un: &super::log::Unsynced| un.item.placed();
        Vc {
            view: self.view,
            lnv: self.lnv,
            first: self.ap,
            log: self.log.items.iter().map(Item::placed).collect(),
            un: self.unsynced.iter().map(unsynced).collect(),
            cv: self.cv.clone(),
        }
    }

    /// To who speaks in another view.
    pub(super) fn say_view_to(&mut self, to: MemberIndex, view: u64, out: &mut Out<Self>) {
        if self.status == Status::Recovering {
            return;
        }
        if view > self.view {
            return self.start_change(view, out);
        }
        if view < self.view {
            let (view, cv) = (self.view, self.cv.clone());
            if self.views_told[to].is_due(self.now.mono_ns, self.config.rtx_min_ns) {
                out.send(self.peer(to), Message::VcReq { view, cv });
            }
        }
    }

    /// Tells a member that left earlier views the log of this one.
    fn say_start_again(&mut self, to: MemberIndex, out: &mut Out<Self>) {
        if self.lead.starts[to].is_due(self.now.mono_ns, self.config.rtx_min_ns) {
            self.say_start(to, 0, out);
        }
    }

    pub(super) fn on_vc_req(
        &mut self,
        from: MemberIndex,
        view: u64,
        cv: &[u64],
        out: &mut Out<Self>,
    ) {
        if self.status == Status::Recovering || !self.is_of_last_life(from, cv, out) {
            return;
        }
        if view > self.view {
            return self.start_change(view, out);
        }
        if view < self.view {
            return self.say_view_to(from, view, out);
        }
        match self.status {
            Status::Normal if self.leads() => self.say_start_again(from, out),
            // A follower never answers with its own log.
            Status::Normal | Status::Recovering => {}
            Status::ViewChange if from == self.leader() => self.say_vc(out),
            Status::ViewChange => {}
        }
    }

    pub(super) fn on_vc(&mut self, from: MemberIndex, vc: Vc, out: &mut Out<Self>) {
        if self.status == Status::Recovering || !self.is_of_last_life(from, &vc.cv, out) {
            return;
        }
        if vc.view < self.view {
            return self.say_view_to(from, vc.view, out);
        }
        if vc.view > self.view {
            self.start_change(vc.view, out);
        }
        if self.leader() != self.config.me {
            return;
        }
        match self.status {
            Status::Normal if !self.config.faults.is(Fault::StartTwice) => {
                self.say_start_again(from, out)
            }
            Status::Normal => self.start_again(from, vc, out),
            Status::Recovering => {}
            Status::ViewChange => {
                self.change.said.insert(from, vc);
                self.try_start(out);
            }
        }
    }

    /// A mutant: who is late changes the log of the view.
    fn start_again(&mut self, from: MemberIndex, vc: Vc, out: &mut Out<Self>) {
        self.status = Status::ViewChange;
        self.lnv = vc.lnv;
        self.change.said.insert(from, vc);
        self.try_start(out);
    }

    /// The log as it is now: whoever was late begins with it.
    pub(super) fn say_start(&mut self, to: MemberIndex, nonce: u64, out: &mut Out<Self>) {
        let start = self.start_view(nonce);
        out.send(self.peer(to), Message::StartView(start));
    }

    pub(super) fn start_view(&self, nonce: u64) -> StartView {
        StartView {
            view: self.view,
            nonce,
            first: self.ap,
            log: self.log.items.iter().map(Item::placed).collect(),
            sums: self.log.sums.clone().unwrap_or_default(),
            cp: self.cp,
            cv: self.cv.clone(),
        }
    }

    pub(super) fn on_start_view(
        &mut self,
        from: MemberIndex,
        start: StartView,
        out: &mut Out<Self>,
    ) {
        let me = self.config.me;
        if from != self.config.leader_of(start.view) || from == me {
            return self.misbehaved(from, "the log of a view from another than its leader", out);
        }
        if !self.is_awaited(&start) || !self.is_of_last_life(from, &start.cv, out) {
            return;
        }
        if start.first.0 + (start.log.len() as u64) < self.ap.0 {
            // It is older than what is decided here.
            return;
        }
        if start.first > self.ap {
            out.emit(Event::Branch("behind the view"));
            out.catch_up(self.config.members[from], Slot(start.first.0 - 1));
            self.change.pending = Some((from, start));
            return;
        }
        let skipped = (self.ap.0 - start.first.0) as usize;
        let log = &start.log[skipped..];
        let missing = log.iter().map(|placed| placed.id);
        let missing: Vec<_> = missing.filter(|id| self.body_of(*id).is_none()).collect();
        if !missing.is_empty() {
            self.ask_bodies(self.peer(from), missing, out);
            self.change.pending = Some((from, start));
            return;
        }
        let log = log.to_vec();
        self.adopt_start(start, &log, out);
    }

    /// Whether this replica waits for that log.
    fn is_awaited(&self, start: &StartView) -> bool {
        match self.status {
            Status::Recovering => self.rejoin.as_ref().is_some_and(|rejoin| {
                let is_bound = !self.config.faults.is(Fault::HeedFormerAnswers);
                (start.nonce == rejoin.nonce || !is_bound) && rejoin.wants(start.view)
            }),
            // Said to an earlier life.
            _ if start.nonce != 0 => false,
            Status::ViewChange => start.view >= self.view,
            // Once in a view, its beginning is over.
            Status::Normal => {
                let again = start.view == self.view && self.config.faults.is(Fault::StartAgain);
                start.view > self.view || again && self.follows()
            }
        }
    }

    fn adopt_start(&mut self, start: StartView, log: &[Placed], out: &mut Out<Self>) {
        if self.leads() {
            out.retract(self.ap);
        }
        let items = self.items(log);
        self.view = start.view;
        let orphans = self.enter(items, out);
        self.log.sums = Some(start.sums);
        self.cp = self.cp.max(start.cp);
        self.rejoined(out);
        for body in orphans {
            self.adopt(body);
        }
        self.watch.has_heard = true;
        // So that gateways and the leader know.
        let members = self.config.members.clone().into_iter();
        let origins = self.log.items.iter().map(|item| item.tup.id.origin);
        let all: BTreeSet<ReplicaId> = members.chain(origins).collect();
        all.into_iter().for_each(|to| self.say_synced(to, out));
    }

    /// The entries of a log, whose bodies are all here.
    pub(super) fn items(&self, log: &[Placed]) -> Vec<Item> {
        let item = |placed: &Placed| {
            let body = self.body_of(placed.id)?.clone();
            Some(self.item(body, placed.deadline))
        };
        log.iter().filter_map(item).collect()
    }

    /// Normal operation begins with this log. Gives back what was written down here and is not in it.
    pub(super) fn enter(&mut self, items: Vec<Item>, out: &mut Out<Self>) -> Vec<Body> {
        let in_log: BTreeSet<_> = items.iter().map(|item| item.tup.id).collect();
        let mine = self
            .log
            .items
            .drain(..)
            .chain(self.unsynced.iter().map(|un| un.item.clone()));
        let orphans = mine.filter(|item| !in_log.contains(&item.tup.id));
        let orphans: Vec<Body> = orphans.map(|item| item.body).collect();
        self.unsynced.clear();
        self.log.slots.clear();
        self.following.placed.clear();
        self.log.sums = None;
        self.following.sums_told = None;
        self.is_unvouched = false;
        self.lead = Lead::new(&self.config, self.ap);
        self.disk.forget_log();
        self.views_told.fill(Repeat::default());
        self.status = Status::Normal;
        self.lnv = self.view;
        for item in items {
            let id = item.tup.id;
            self.early.remove(id);
            self.bodies.remove(id);
            // Its place is in the record below. A crash may keep this one and lose that; the view begins once more
            // then, with another log, in which this entry has no place.
            if self.written.insert(id) {
                out.persist(Record::Unsynced {
                    view: NO_VIEW,
                    deadline: item.tup.deadline,
                    body: item.body.clone(),
                });
            }
            self.push(item);
        }
        out.persist(Record::Start {
            view: self.view,
            first: self.ap,
            log: self.log.items.iter().map(Item::placed).collect(),
        });
        self.change = ViewChange::default();
        self.bodies.are_asked_for = false;
        self.following.forget_questions();
        // In this view's log other slots may hold what commutes.
        self.reads.start_over();
        self.disarm_all(out);
        orphans
    }

    /// What was said about the next view may be lost.
    pub(super) fn on_change(&mut self, out: &mut Out<Self>) {
        self.bodies.are_asked_for = false;
        self.back_off();
        match self.status {
            Status::Normal => {}
            Status::ViewChange => {
                self.say_change(out);
                self.go_on(out);
            }
            Status::Recovering => {
                self.say_rejoin(out);
                self.go_on(out);
            }
        }
    }

    /// The view does not start: its leader may be dead.
    pub(super) fn on_give_up(&mut self, out: &mut Out<Self>) {
        if self.status == Status::ViewChange {
            self.start_change(self.view + 1, out);
        }
    }

    /// The leader was silent while something waited for it.
    pub(super) fn on_suspect(&mut self, out: &mut Out<Self>) {
        if !std::mem::take(&mut self.watch.has_heard) && self.follows() {
            out.emit(Event::Branch("leader suspected"));
            self.start_change(self.view + 1, out);
        }
    }
}
