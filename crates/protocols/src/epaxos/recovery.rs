//! Finishing an instance of which nothing is heard (the recovery of EPaxos\*).
//!
//! Members that join a higher ballot show what they know. A decision or a value that somebody accepted goes on. If the
//! coordinator is among them and has not committed, it never will at its own ballot (so it makes a fast commit durable
//! before others know of it, and can say that after a restart, too); and if fewer than `|Q| - e` kept the
//! entry with its initial dependencies, nobody can have: the instance is void. Else it may have been committed on the
//! fast path, and the members look for what contradicts that: a conflicting instance with neither before the other.

use super::Replica;
use super::messages::{Said, Shown, Validate, Validated};
use super::mutants::Fault;
use super::state::{Deps, Instance, Known, Lead, Phase, Validating};
use super::toq::Candidate;
use crate::shared::ballot::Ballot;
use quorate_core::{EntryId, Event, MemberIndex, MemberSet, Out};
use std::collections::{BTreeMap, BTreeSet};

impl Replica {
    /// Finishes an instance at a new ballot.
    pub(super) fn recover_instance(&mut self, id: EntryId, out: &mut Out<Self>) {
        let me = self.config.seating.me;
        let node = self.config.seating.my_id();
        self.end_hold(id);
        let instance = self.instances.entry(id).or_default();
        if instance.is_committed() {
            return;
        }
        out.emit(Event::Branch("instance recovered"));
        let round = instance.ballot.round.max(instance.leads_at.round) + 1;
        let ballot = Ballot { round, node };
        instance.leads_at = ballot;
        instance.lead = Lead::Recovering(BTreeMap::new());
        self.on_recover(me, id, ballot, out);
        // No later start may use the ballot again: it is durable before anybody hears of it.
        self.say_behind_records(Said::Recover(id, ballot), out);
    }

    /// A member has joined a ballot, and shows what it knows.
    pub(super) fn on_recover_a(&mut self, from: MemberIndex, shown: Shown, out: &mut Out<Self>) {
        let id = shown.id;
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        if shown.ballot != instance.leads_at || instance.ballot != instance.leads_at {
            return;
        }
        instance.is_fresh = true;
        match &mut instance.lead {
            Lead::Recovering(answers) => {
                answers.insert(from, Known(shown));
                if answers.len() >= self.config.thresholds.slow {
                    self.choose(id, out);
                }
            }
            // One more than were waited for: with it, more may be certain.
            Lead::Validating(it) if it.is_waiting && !it.quorum.contains(from) => {
                let mut answers = std::mem::take(&mut it.answers);
                answers.insert(from, Known(shown));
                instance.lead = Lead::Recovering(answers);
                self.choose(id, out);
            }
            _ => {}
        }
    }

    /// Enough members have joined the ballot: goes on with what they know.
    fn choose(&mut self, id: EntryId, out: &mut Out<Self>) {
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        let Lead::Recovering(answers) = std::mem::take(&mut instance.lead) else {
            return;
        };
        let ballot = instance.leads_at;
        let shown = || answers.values().map(|known| &known.0);
        let accepted = shown().filter(|shown| shown.phase == Phase::Accepted);
        if let Some(latest) = accepted.max_by_key(|shown| shown.accepted) {
            let value = latest.entry.clone().filter(|_| !latest.is_void);
            if value.is_some() || latest.is_void {
                let deps = latest.deps.clone();
                out.emit(Event::Branch("accepted value goes on"));
                return self.say_accept(id, ballot, value, deps, out);
            }
        }
        let coordinator = self.config.seating.member(id.origin);
        let of_coordinator = coordinator.and_then(|member| answers.get(&member));
        // It commits on the fast path only what it keeps as it came, durably, and makes that durable before others
        // know: so it has not, if it says so or lacks the entry, and never will.
        let is_certain = |known: &Known| known.0.is_coordinating || !is_as_it_came(&known.0);
        if of_coordinator.is_some_and(is_certain) {
            self.armed.note_hasty();
            return self.make_void(id, ballot, out);
        }
        let candidate = match self.config.queueing {
            Some(_) => self.unanimous(&answers),
            None => self.kept_as_it_came(&answers),
        };
        let Some(candidate) = candidate else {
            return self.make_void(id, ballot, out);
        };
        let Candidate {
            entry,
            deps,
            kept_by,
        } = candidate;
        if self.fault(Fault::NoValidate) {
            return self.say_accept(id, ballot, Some(entry), deps, out);
        }
        let it = Validate {
            ballot,
            entry,
            deps,
        };
        self.validate(answers, kept_by, it, out);
    }

    /// What may have been committed on the fast path: if enough kept the entry as it came.
    fn kept_as_it_came(&self, answers: &BTreeMap<MemberIndex, Known>) -> Option<Candidate> {
        let shown = answers.values().map(|known| &known.0);
        let kept: Vec<&Shown> = shown.filter(|shown| is_as_it_came(shown)).collect();
        let needed = answers.len() - self.config.thresholds.fast_failures;
        let first = kept.first().filter(|_| kept.len() >= needed)?;
        Some(Candidate {
            entry: first.entry.clone()?,
            deps: first.initial.clone()?,
            kept_by: kept.len(),
        })
    }

    /// Asks those who joined the ballot whether a value can have been committed on the fast path.
    fn validate(
        &mut self,
        answers: BTreeMap<MemberIndex, Known>,
        kept_by: usize,
        it: Validate,
        out: &mut Out<Self>,
    ) {
        out.emit(Event::Branch("value validated"));
        let (id, me) = (it.entry.id, self.config.seating.me);
        let quorum: MemberSet = answers.keys().copied().collect();
        self.learn_entry(it.entry.clone());
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.lead = Lead::Validating(Validating {
                answers,
                quorum,
                heard: MemberSet::EMPTY,
                kept_by,
                after: it.deps.after,
                deps: it.deps.clone(),
                conflicts: BTreeSet::new(),
                is_waiting: false,
            });
        }
        self.say(
            quorum - MemberSet::only(me),
            Said::Validate(it.clone()),
            out,
        );
        if quorum.contains(me) {
            self.on_validate(me, it, out);
        }
    }

    /// A member says what contradicts.
    pub(super) fn on_validate_a(&mut self, from: MemberIndex, it: Validated, out: &mut Out<Self>) {
        let id = it.id;
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        let is_in_force = it.ballot == instance.leads_at && it.ballot == instance.ballot;
        let Lead::Validating(validating) = &mut instance.lead else {
            return;
        };
        if !is_in_force || validating.is_waiting || !validating.quorum.contains(from) {
            return;
        }
        instance.is_fresh = true;
        validating.heard.insert(from);
        validating.after = validating.after.max(it.after);
        let is_refuted = it.conflicts.iter().any(|conflict| conflict.is_committed);
        validating
            .conflicts
            .extend(it.conflicts.iter().map(|conflict| conflict.id));
        if is_refuted {
            return self.make_void(id, it.ballot, out);
        }
        if validating.heard == validating.quorum {
            self.judge(id, it.ballot, out);
        }
    }

    /// Everybody has said what contradicts.
    fn judge(&mut self, id: EntryId, ballot: Ballot, out: &mut Out<Self>) {
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        let (entry, Lead::Validating(validating)) = (instance.entry.clone(), &mut instance.lead)
        else {
            return;
        };
        if validating.conflicts.is_empty() {
            let deps = validating.value();
            return self.say_accept(id, ballot, entry, deps, out);
        }
        let (quorum, kept_by) = (validating.quorum, validating.kept_by);
        let deps = validating.deps.clone();
        let is_least = self.config.queueing.is_none()
            && kept_by == quorum.len() - self.config.thresholds.fast_failures;
        let seating = &self.config.seating;
        let is_absent = |other: &EntryId| {
            let coordinator = seating.member(other.origin);
            coordinator.is_none_or(|member| !quorum.contains(member))
        };
        if is_least && validating.conflicts.iter().any(is_absent) {
            return self.make_void(id, ballot, out);
        }
        out.emit(Event::Branch("recovery waits"));
        validating.is_waiting = true;
        let others: Vec<EntryId> = validating.conflicts.iter().copied().collect();
        for other in others {
            if !self.done.entries.contains(other) {
                self.instances.entry(other).or_default();
            }
        }
        let kept_by = kept_by as u64;
        self.on_waiting(id, kept_by, &deps);
        self.say(
            self.config.seating.others(),
            Said::Waiting(id, kept_by, deps),
            out,
        );
    }

    /// Somebody recovers an instance and waits for others: so many members had kept the entry as it came.
    pub(super) fn on_waiting(&mut self, id: EntryId, kept_by: u64, deps: &Deps) {
        let behind = match self.fault(Fault::AnyWaiting) {
            true => BTreeSet::new(),
            false => deps.ids.clone(),
        };
        let is_held = self.config.queueing.is_some();
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.waiting = instance.waiting.max(kept_by);
            if is_held {
                instance.note_waits_behind(behind);
            }
            instance.is_fresh = true;
        }
    }

    /// Ends what waits for others, once those say enough.
    pub(super) fn wait_for_what_contradicts(&mut self, out: &mut Out<Self>) {
        let waiting = self.instances.iter().filter(|(_, instance)| {
            matches!(&instance.lead, Lead::Validating(validating) if validating.is_waiting)
        });
        let waiting: Vec<EntryId> = waiting.map(|(id, _)| *id).collect();
        for id in waiting {
            self.end_waiting(id, out);
        }
    }

    fn end_waiting(&mut self, id: EntryId, out: &mut Out<Self>) {
        let Some(instance) = self.instances.get(&id) else {
            return;
        };
        let Lead::Validating(validating) = &instance.lead else {
            return;
        };
        let ballot = instance.leads_at;
        let thresholds = self.config.thresholds;
        let is_held = self.config.queueing.is_some();
        let many = thresholds.slow.saturating_sub(thresholds.fast_failures) as u64;
        let (mut is_void, mut is_open) = (false, false);
        for other in &validating.conflicts {
            match self.instances.get(other) {
                // It went first, without this one; or it is void, and contradicts nothing.
                None => is_void |= self.done.entries.contains(*other) && !self.is_void(*other),
                Some(known) if known.is_committed() => {
                    is_void |= !known.is_void && !known.deps.ids.contains(&id);
                }
                Some(known) => {
                    is_void |= match is_held {
                        true => known.rules_out(id),
                        false => known.waiting > many,
                    };
                    is_open = true;
                }
            }
        }
        if is_void {
            self.make_void(id, ballot, out);
        } else if !is_open {
            let (deps, entry) = (validating.value(), instance.entry.clone());
            self.say_accept(id, ballot, entry, deps, out);
        }
    }

    /// The entry is not ordered by this instance.
    fn make_void(&mut self, id: EntryId, ballot: Ballot, out: &mut Out<Self>) {
        out.emit(Event::Branch("instance made void"));
        self.say_accept(id, ballot, None, Deps::default(), out);
    }

    /// A member has joined a higher ballot than the one used here.
    pub(super) fn on_nack(
        &mut self,
        _: MemberIndex,
        id: EntryId,
        ballot: Ballot,
        out: &mut Out<Self>,
    ) {
        let is_ballot = self.config.seating.member(ballot.node).is_some();
        let Some(instance) = self.instances.get_mut(&id).filter(|_| is_ballot) else {
            return;
        };
        if ballot > instance.leads_at && ballot.round < u64::from(u32::MAX) {
            instance.leads_at.round = instance.leads_at.round.max(ballot.round);
            if !instance.is_committed() {
                out.emit(Event::Branch("recovery lost"));
                instance.lead = Lead::None;
                instance.is_fresh = true;
            }
        }
    }
}

/// Whether a member keeps the entry with its initial dependencies and no others.
fn is_as_it_came(shown: &Shown) -> bool {
    shown.phase == Phase::PreAccepted && shown.initial.as_ref() == Some(&shown.deps)
}

impl Instance {
    /// Whether this replica does something to have it committed.
    pub(super) fn is_led(&self) -> bool {
        !matches!(self.lead, Lead::None)
    }

    /// Whether this replica recovers it, and does not wait for others that contradict.
    pub(super) fn is_recovered_here(&self) -> bool {
        match &self.lead {
            Lead::None | Lead::PreAccepting(_) => false,
            Lead::Accepting(accepting) => accepting.ballot != Ballot::default(),
            Lead::Recovering(_) => true,
            Lead::Validating(validating) => !validating.is_waiting,
        }
    }
}

impl Validating {
    /// The dependencies that are proposed: the initial ones, behind all that may be delivered unknown to some.
    fn value(&self) -> Deps {
        Deps {
            after: self.after,
            ..self.deps.clone()
        }
    }
}
