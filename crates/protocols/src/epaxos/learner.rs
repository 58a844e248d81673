//! What is decided, what is delivered, and what the host brought from elsewhere.

use super::Replica;
use super::footprint::stand_in_of;
use super::messages::{Commit, Record, Said};
use super::mutants::Fault;
use super::order::Graph;
use super::state::{Deps, Instance, Lead, Phase};
use crate::shared::ballot::Ballot;
use crate::shared::decided::{DecidedSet, void};
use crate::shared::peers::Member;
use quorate_core::{Base, Entry, EntryId, Event, MemberIndex, MemberSet, Out, Slot};
use std::collections::BTreeSet;

/// Names of notices that make instances void begin here: they follow from the names of the instances, so that they
/// are the same everywhere, and no replica forms so many entries.
const VOID_SEQ: u64 = 1 << 62;
/// Decided instances in the answer to one question, at most: who asks, asks again.
const TOLD_MAX: usize = 64;

impl Replica {
    /// An instance is decided by the count of this replica. On the fast path nobody else can tell, unless the
    /// coordinator is known not to have done so: it writes it down before others know, for itself to know after a
    /// restart.
    pub(super) fn commit(&mut self, id: EntryId, deps: Deps, is_fast: bool, out: &mut Out<Self>) {
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        instance.counted = Some(is_fast);
        let is_void = !is_fast && instance.is_void;
        if is_fast && !self.config.faults.is(Fault::CoordinatorForgets) {
            instance.is_unsettled = true;
            (instance.phase, instance.deps) = (Phase::Committed, deps);
            (instance.lead, instance.is_coordinating) = (Lead::None, false);
            self.persist(id, out);
            let commit = self.told(id, false);
            if let Some(commit) = commit {
                self.answer(self.config.seating.me, Said::Commit(commit), out);
            }
        } else {
            self.decide(id, is_void, deps, out);
            self.tell_commit(id, out);
        }
    }

    /// Tells all others what is decided: with the entry those who were not asked to keep it.
    fn tell_commit(&self, id: EntryId, out: &mut Out<Self>) {
        let known = self.instances.get(&id);
        let unasked = known.map_or(MemberSet::EMPTY, |known| known.unasked);
        let asked = self.config.seating.others() - unasked;
        for (to, with_entry) in [(asked, false), (unasked, true)] {
            if let Some(commit) = self.told(id, with_entry).filter(|_| !to.is_empty()) {
                self.say(to, Said::Commit(commit), out);
            }
        }
    }

    /// What is decided of an instance, with or without its entry.
    fn told(&self, id: EntryId, with_entry: bool) -> Option<Commit> {
        let instance = self.instances.get(&id)?;
        let entry = instance.entry.clone();
        instance.is_committed().then(|| Commit {
            id,
            is_void: instance.is_void,
            entry: entry.filter(|_| with_entry && !instance.is_void),
            deps: instance.deps.clone(),
        })
    }

    /// Tells a member what is decided.
    pub(super) fn say_commit(&self, to: MemberIndex, id: EntryId, out: &mut Out<Self>) {
        let is_settled = self
            .instances
            .get(&id)
            .is_some_and(|known| !known.is_unsettled);
        if to != self.config.seating.me
            && is_settled
            && let Some(commit) = self.told(id, true)
        {
            self.say(MemberSet::only(to), Said::Commit(commit), out);
        }
    }

    /// What is decided, at whatever ballot.
    pub(super) fn on_commit(&mut self, from: MemberIndex, it: Commit, out: &mut Out<Self>) {
        if it.entry.as_ref().is_some_and(|entry| entry.id != it.id) {
            return self.misbehaved(from, "the entry of another instance", out);
        }
        let id = it.id;
        if let Some(instance) = self.instances.get_mut(&id)
            && std::mem::take(&mut instance.is_unsettled)
        {
            // This replica says so to itself, or others have found out.
            self.has_committed = true;
            self.tell_commit(id, out);
        }
        let is_known = self.instances.get(&id).is_some_and(Instance::is_committed);
        let has_learnt = it.entry.is_some_and(|entry| self.learn_entry(entry));
        if !is_known {
            self.decide(id, it.is_void, it.deps, out);
        } else if has_learnt {
            self.note(id, out);
        }
        let is_lacking = self.instances.get(&id).is_some_and(Instance::lacks_entry);
        if is_lacking && !is_known {
            self.say(MemberSet::only(from), Said::Ask(vec![id]), out);
        }
    }

    fn decide(&mut self, id: EntryId, is_void: bool, deps: Deps, out: &mut Out<Self>) {
        let unknown: Vec<EntryId> = deps.ids.iter().copied().collect();
        let instance = self.instances.entry(id).or_default();
        instance.phase = Phase::Committed;
        (instance.is_void, instance.deps) = (is_void, deps);
        (instance.lead, instance.is_coordinating) = (Lead::None, false);
        let is_of_coordinator = instance.ballot == Ballot::default();
        let (entry, footprint) = (instance.entry.clone(), instance.footprint.clone());
        if is_of_coordinator {
            self.armed.note_patient();
        }
        self.has_committed = true;
        self.note(id, out);
        if is_void {
            if let Some(footprint) = footprint {
                self.table.remove(id, &footprint);
            }
            self.note_void(id, entry.as_ref(), out);
        }
        for dep in unknown {
            if !self.done.entries.contains(dep) {
                self.instances.entry(dep).or_default();
            }
        }
    }

    /// An entry is not ordered by its instance.
    fn note_void(&mut self, id: EntryId, entry: Option<&Entry>, out: &mut Out<Self>) {
        self.end_errands(id, None, out);
        if let Some(entry) = entry {
            self.propose_again(entry);
        }
        self.ask_again_behind(id);
    }

    /// Whether an instance is delivered as void.
    pub(super) fn is_void(&self, id: EntryId) -> bool {
        self.done.entries.contains(notice_of(id))
    }

    /// Writes what is decided, for the next start. Nothing rests on it.
    fn note(&mut self, id: EntryId, out: &mut Out<Self>) {
        self.has_committed = true;
        if let Some(instance) = self.instances.get_mut(&id) {
            out.note(Record::Instance(instance.keep(id)));
        }
        self.forget_stand_in(id, out);
    }

    /// Delivers all that has its place; says whether anything was decided since, or delivered.
    pub(super) fn deliver_all(&mut self, out: &mut Out<Self>) -> bool {
        let mut has_looked = false;
        while std::mem::take(&mut self.has_committed) {
            has_looked = true;
            let run = self.next_run();
            for id in run {
                self.deliver(id, out);
            }
        }
        has_looked
    }

    fn next_run(&self) -> Vec<EntryId> {
        let gone = BTreeSet::new();
        let graph = self.graph(&gone);
        match self.fault(Fault::AnyRoot) {
            true => {
                let roots: Vec<EntryId> = self.table.roots().collect();
                let mut runs = roots.into_iter().rev().map(|root| graph.run_to(root));
                runs.find_map(|run| run).unwrap_or_default()
            }
            false => graph.next_run(self.table.roots()),
        }
    }

    /// What is decided of what is not delivered, where these are taken to be delivered.
    pub(super) fn graph<'a>(&'a self, gone: &'a BTreeSet<EntryId>) -> Graph<'a> {
        Graph {
            instances: &self.instances,
            done: &self.done,
            next: self.next,
            gone,
        }
    }

    fn deliver(&mut self, id: EntryId, out: &mut Out<Self>) {
        let Some(mut instance) = self.instances.remove(&id) else {
            return;
        };
        let slot = self.next;
        if !instance.is_written && !instance.is_void {
            out.note(Record::Instance(instance.keep(id)));
        }
        if instance.has_stand_in {
            out.forget(stand_in_of(id));
        }
        let is_next = self.ahead.front() == Some(&id);
        if is_next {
            self.ahead.pop_front();
        } else if !self.ahead.is_empty() {
            self.ahead.clear();
            out.retract(slot);
        }
        let Some(entry) = instance.in_its_place(id) else {
            return;
        };
        if let Some(fast) = instance.counted {
            out.emit(Event::Decided {
                slot,
                fast,
                noop: instance.is_void,
                delays: if fast { 2 } else { 4 },
            });
        }
        self.done.advance(slot, Some(&entry));
        self.next = slot.next();
        self.has_committed = true;
        if instance.is_void {
            out.forget(id);
        } else if let Some(footprint) = instance.footprint {
            match self.fault(Fault::DropAtDelivery) {
                true => self.table.remove(id, &footprint),
                false => self.table.deliver(slot, id, footprint),
            }
        }
        self.table.trim(self.floor());
        out.deliver(slot, Some(entry));
        self.backoff.moved();
        self.note_delivered(id, slot, out);
    }

    /// The host caught up: everything before `next` is delivered.
    pub(super) fn on_installed(&mut self, next: Slot, base: DecidedSet, out: &mut Out<Self>) {
        if next <= self.next {
            return;
        }
        out.emit(Event::Branch("installed"));
        (self.next, self.done) = (next, base);
        self.table.restart(next);
        self.end_holds_of_delivered();
        if !self.ahead.is_empty() {
            self.ahead.clear();
            out.retract(next);
        }
        let done = &self.done;
        let gone = self.instances.extract_if(.., |id, _| done.contains(*id));
        let gone: Vec<(EntryId, Instance)> = gone.collect();
        for (id, instance) in gone {
            if let Some(footprint) = &instance.footprint {
                self.table.remove(id, footprint);
            }
            if instance.has_stand_in {
                out.forget(stand_in_of(id));
            }
            if self.is_void(id) {
                out.forget(id);
                self.note_void(id, instance.entry.as_ref(), out);
            }
            self.note_delivered(id, next, out);
        }
        self.has_committed = true;
        self.backoff.moved();
        if !self.is_silent {
            // That others know how far this replica is, lets it vote again.
            self.persist_record(Record::Delivered(next), out);
            self.say_behind_records(Said::Progress(true), out);
        }
    }

    /// A peer asks what is decided.
    pub(super) fn on_ask(&mut self, from: MemberIndex, ids: Vec<EntryId>, out: &mut Out<Self>) {
        for id in ids.into_iter().take(TOLD_MAX) {
            match self.done.entries.contains(id) {
                true => self.inform(from, out),
                false => self.say_commit(from, id, out),
            }
        }
    }

    /// Something was said about an instance that is delivered here: whoever does not know is given the log.
    pub(super) fn say_delivered(&mut self, to: MemberIndex, said: &Said, out: &mut Out<Self>) {
        let is_settled = matches!(
            said,
            Said::Commit(_) | Said::PreAcceptA(..) | Said::AcceptA(..) | Said::Nack(..)
        );
        if !is_settled {
            self.inform(to, out);
        }
    }

    /// Has the host give a member the log.
    fn inform(&self, to: MemberIndex, out: &mut Out<Self>) {
        if to != self.config.seating.me {
            let from = self.heard_delivered[to];
            out.inform(self.config.seating.members[to], from);
        }
    }
}

impl Instance {
    /// Whether it is decided that the entry is ordered, and the entry is not here.
    pub(super) fn lacks_entry(&self) -> bool {
        self.is_committed() && !self.is_void && self.entry.is_none()
    }

    /// What is delivered in its place: the entry, or what makes it void.
    pub(super) fn in_its_place(&self, id: EntryId) -> Option<Entry> {
        match self.is_void {
            true => Some(void(notice_of(id), &[id])),
            false => self.entry.clone(),
        }
    }
}

/// The name of the notice that makes an instance void.
fn notice_of(id: EntryId) -> EntryId {
    EntryId {
        seq: id.seq | VOID_SEQ,
        ..id
    }
}
