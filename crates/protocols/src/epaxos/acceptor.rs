//! What a member keeps, accepts and joins, and how it says so.

use super::Replica;
use super::messages::{Accept, Conflict, PreAccept, Said, Validate, Validated};
use super::mutants::Fault;
use super::state::{Deps, Instance, Lead, Phase};
use crate::shared::ballot::Ballot;
use crate::shared::lags::Probe;
use crate::shared::peers::Member;
use quorate_core::{ENTRY_BYTES_MAX, Entry, EntryId, Event, MemberIndex, MemberSet, Out};

/// No honest replica gets so far.
const ROUNDS_MAX: u64 = 1 << 48;

impl Replica {
    /// A new entry, from its coordinator.
    pub(super) fn on_pre_accept(&mut self, from: MemberIndex, it: PreAccept, out: &mut Out<Self>) {
        let id = it.entry.id;
        if !self.is_coordinator(from, id) || !may_be_ordered(&it.entry) || it.deps.ids.contains(&id)
        {
            return self.misbehaved(from, "an entry that is not its own", out);
        }
        if !self.may_name(from, it.quorum) {
            return self.misbehaved(from, "a fast quorum that is none", out);
        }
        match self.config.queueing {
            Some(_) => self.hold(from, it, out),
            None => self.keep(from, it, Probe::default(), out),
        }
    }

    /// Keeps a new entry behind all that it conflicts with here, if it is not too late for that.
    pub(super) fn keep(
        &mut self,
        from: MemberIndex,
        it: PreAccept,
        probe: Probe,
        out: &mut Out<Self>,
    ) {
        let (id, after) = (it.entry.id, it.deps.after);
        if !self.has_place_for(id, out) {
            return;
        }
        if !self.may_vote(after) {
            // It may once enough others are known to be as far.
            return self.ask_progress(out);
        }
        self.learn_entry(it.entry);
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        let is_open = instance.ballot == Ballot::default();
        match instance.phase {
            Phase::Committed => return self.say_commit(from, id, out),
            _ if !is_open => return self.say_nack(from, id, out),
            Phase::Unknown => {
                let mut deps = it.deps.clone();
                if let Some(footprint) = &instance.footprint {
                    self.table.extend(&mut deps, id, footprint);
                }
                let initial = match self.config.queueing {
                    Some(_) => deps.clone(),
                    None => it.deps,
                };
                (instance.initial, instance.deps) = (Some(initial), deps);
                instance.quorum = it.quorum;
                instance.phase = Phase::PreAccepted;
                instance.is_fresh = true;
                self.persist(id, out);
            }
            Phase::PreAccepted => instance.is_fresh = true,
            Phase::Accepted => return,
        }
        let deps = self.instances[&id].deps.clone();
        self.answer(from, Said::PreAcceptA(id, deps, probe), out);
    }

    /// A value at a ballot.
    pub(super) fn on_accept(&mut self, from: MemberIndex, it: Accept, out: &mut Out<Self>) {
        let Accept {
            id,
            ballot,
            value,
            deps,
        } = it;
        let is_fitting = value
            .as_ref()
            .is_none_or(|entry| entry.id == id && may_be_ordered(entry));
        if !self.may_propose_at(from, id, ballot) || !is_fitting {
            return self.misbehaved(from, "a value that is not its own", out);
        }
        if self.is_silent || !self.has_place_for(id, out) {
            return;
        }
        let is_void = value.is_none();
        if let Some(entry) = value {
            self.learn_entry(entry);
        }
        let instance = self.instances.entry(id).or_default();
        instance.is_fresh = true;
        if instance.is_committed() {
            return self.say_commit(from, id, out);
        }
        if ballot < instance.ballot {
            return self.say_nack(from, id, out);
        }
        let is_known = instance.phase == Phase::Accepted && instance.accepted == ballot;
        if !is_known {
            instance.phase = Phase::Accepted;
            (instance.ballot, instance.accepted) = (ballot, ballot);
            (instance.is_void, instance.deps) = (is_void, deps);
            instance.lose_lead(ballot);
            self.persist(id, out);
        }
        self.answer(from, Said::AcceptA(id, ballot), out);
    }

    /// A member finishes an instance at a ballot of its own.
    pub(super) fn on_recover(
        &mut self,
        from: MemberIndex,
        id: EntryId,
        ballot: Ballot,
        out: &mut Out<Self>,
    ) {
        if !self.may_recover_at(from, ballot) {
            return self.misbehaved(from, "a ballot of another", out);
        }
        if self.is_silent || !self.has_place_for(id, out) {
            return;
        }
        let instance = self.instances.entry(id).or_default();
        instance.is_fresh = true;
        if instance.is_committed() {
            return self.say_commit(from, id, out);
        }
        if ballot < instance.ballot {
            return self.say_nack(from, id, out);
        }
        if ballot > instance.ballot {
            instance.ballot = ballot;
            if self.config.faults.is(Fault::OneBallot) {
                instance.accepted = ballot;
            }
            instance.lose_lead(ballot);
            self.persist(id, out);
        }
        let shown = self.instances[&id].show(id);
        self.answer(from, Said::RecoverA(shown), out);
    }

    /// A value that may have been committed on the fast path: says what contradicts.
    pub(super) fn on_validate(&mut self, from: MemberIndex, it: Validate, out: &mut Out<Self>) {
        let Validate {
            ballot,
            entry,
            deps,
        } = it;
        let id = entry.id;
        if !self.may_recover_at(from, ballot) || !may_be_ordered(&entry) {
            return self.misbehaved(from, "a value that nobody has kept", out);
        }
        if self
            .instances
            .get(&id)
            .is_none_or(|known| known.ballot != ballot)
        {
            return;
        }
        if self.next < deps.after || !self.may_vote(deps.after) {
            return self.ask_progress(out);
        }
        self.learn_entry(entry);
        let after = deps.after.max(self.table.since());
        let conflicts = self.conflicts_of(id, &deps);
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        instance.is_fresh = true;
        if instance.is_committed() {
            return self.say_commit(from, id, out);
        }
        if instance.initial.as_ref() != Some(&deps) {
            instance.initial = Some(deps);
            self.persist(id, out);
        }
        let said = Validated {
            id,
            ballot,
            conflicts,
            after,
        };
        self.answer(from, Said::ValidateA(said), out);
    }

    /// Instances of which neither goes before the other.
    fn conflicts_of(&self, id: EntryId, deps: &Deps) -> Vec<Conflict> {
        let instance = self.instances.get(&id);
        let Some(footprint) = instance.and_then(|known| known.footprint.as_ref()) else {
            return Vec::new();
        };
        let from = deps.after.max(self.table.since());
        let all = self.table.conflicting(id, footprint, from);
        let others = all.into_iter().filter(|other| *other != id);
        let others = others.filter(|other| !deps.ids.contains(other));
        others
            .filter_map(|other| {
                // What is delivered does not depend on what is not.
                let is_delivered = self.table.is_delivered(other);
                let known = self.instances.get(&other);
                let is_committed = is_delivered || known.is_some_and(Instance::is_committed);
                let behind = match known {
                    Some(known) if known.is_committed() => Some(&known.deps),
                    Some(known) => Some(known.initial.as_ref()?),
                    None => None,
                };
                let is_behind = behind.is_some_and(|deps| deps.ids.contains(&id));
                (!is_behind).then_some(Conflict {
                    id: other,
                    is_committed,
                })
            })
            .collect()
    }

    /// A member uses a ballot that is too low. That promises nothing.
    fn say_nack(&mut self, to: MemberIndex, id: EntryId, out: &mut Out<Self>) {
        let ballot = self.instances[&id].ballot;
        if to != self.config.seating.me {
            self.say(MemberSet::only(to), Said::Nack(id, ballot), out);
        }
    }

    /// Whether there may be more instances, if this one is new.
    fn has_place_for(&self, id: EntryId, out: &mut Out<Self>) -> bool {
        let has_place =
            self.instances.len() < self.config.instances_max || self.instances.contains_key(&id);
        if !has_place {
            out.emit(Event::Branch("too many instances"));
        }
        has_place
    }

    /// Whether a member formed an entry.
    pub(super) fn is_coordinator(&self, member: MemberIndex, id: EntryId) -> bool {
        self.config.seating.members[member] == id.origin
    }

    /// Whether a value at this ballot may come from a member.
    fn may_propose_at(&self, from: MemberIndex, id: EntryId, ballot: Ballot) -> bool {
        match ballot == Ballot::default() {
            true => self.is_coordinator(from, id),
            false => self.may_recover_at(from, ballot),
        }
    }

    /// Whether a ballot is one of a member's own.
    fn may_recover_at(&self, from: MemberIndex, ballot: Ballot) -> bool {
        (1..ROUNDS_MAX).contains(&ballot.round) && ballot.node == self.config.seating.members[from]
    }
}

impl Instance {
    /// A ballot is used: what this replica did at a lower one is over.
    fn lose_lead(&mut self, ballot: Ballot) {
        let is_own = match &self.lead {
            Lead::None => true,
            Lead::PreAccepting(_) => false,
            Lead::Accepting(accepting) => accepting.ballot == ballot,
            Lead::Recovering(_) | Lead::Validating(_) => self.leads_at == ballot,
        };
        if !is_own {
            self.lead = Lead::None;
        }
    }
}

/// Whether an entry can be ordered.
fn may_be_ordered(entry: &Entry) -> bool {
    entry.body_len() <= ENTRY_BYTES_MAX && entry.bulk_len() == 0
}
