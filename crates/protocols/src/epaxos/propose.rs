//! The coordinator: its entries, from the commands of clients to a commit on the fast path or the slow one.

use super::Replica;
use super::footprint;
use super::messages::{Accept, PreAccept, Said};
use super::mutants::Fault;
use super::state::{Accepting, Deps, Lead, Phase, PreAccepting};
use crate::shared::admission::refusal;
use crate::shared::ballot::Ballot;
use crate::shared::lags::Probe;
use quorate_core::{
    Class, Command, Entry, EntryId, Machine, MemberIndex, MemberSet, Out, Outcome, Refusal,
};

impl Replica {
    /// Takes what waits, or refuses it.
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        for command in commands {
            let (room, is_read) = (self.room(), command.class == Class::Read);
            match refusal(&command, room) {
                Some(refusal) => out.reply(command.id, Outcome::Refused(refusal)),
                None if is_read => self.reads.wait(command.id),
                None if self.is_silent => {
                    out.reply(command.id, Outcome::Refused(Refusal::NotServing));
                }
                None => self.backlog.push(command),
            }
        }
    }

    /// Whether an entry may be formed now: of commands, or for reads.
    pub(super) fn wants_entry(&self) -> bool {
        let has_room = self.instances.len() < self.config.window;
        let may_begin = self.offers.len() < self.config.batches.outstanding;
        let has_commands = may_begin && !self.backlog.is_empty();
        self.may_propose() && has_room && (has_commands || self.reads.wants_query())
    }

    /// Whether this replica knows what was delivered well enough to begin instances.
    pub(super) fn may_propose(&self) -> bool {
        self.may_vote(self.floor())
    }

    /// Forms entries of what waits: under load an entry is what came while its predecessors were ordered.
    pub(super) fn propose_all(&mut self, out: &mut Out<Self>) {
        while self.wants_entry() {
            let (batches, stamp_ns) = (&self.config.batches, self.now.clock_ns);
            let may_begin = self.offers.len() < batches.outstanding;
            if may_begin && !self.backlog.is_empty() {
                let batch = self.backlog.fill(batches.commands_max, batches.bytes_max);
                let entry = batch.finish(self.names.next(), stamp_ns);
                self.offer(&entry);
                self.propose(entry, Deps::default(), out);
            } else {
                let id = self.names.next();
                self.reads.ask(id);
                self.propose(footprint::read_mark(id, stamp_ns), Deps::default(), out);
            }
        }
    }

    /// Begins an instance of an own entry, behind all that it conflicts with here, and behind others.
    pub(super) fn propose(&mut self, entry: Entry, mut deps: Deps, out: &mut Out<Self>) {
        deps.after = self.floor();
        match self.config.queueing {
            Some(queueing) => self.propose_held(entry, deps, queueing, out),
            None => self.propose_at_once(entry, deps, out),
        }
    }

    /// Begins an instance of an own entry that is not held.
    fn propose_at_once(&mut self, entry: Entry, mut deps: Deps, out: &mut Out<Self>) {
        let (id, me) = (entry.id, self.config.seating.me);
        let asked = self.asked_first(self.nearest_quorum());
        let unasked = self.config.seating.others() - asked;
        self.learn_entry(entry.clone());
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        instance.is_coordinating = true;
        if let Some(footprint) = &instance.footprint {
            let from = deps.after;
            deps.ids.extend(self.table.conflicting(id, footprint, from));
            deps.ids.remove(&id);
        }
        instance.unasked = unasked;
        instance.lead = Lead::PreAccepting(PreAccepting::default());
        let it = PreAccept::at_once(entry, deps, MemberSet::EMPTY);
        let early = self.fault(Fault::EarlyPreAccept);
        if early {
            self.say(asked, Said::PreAccept(it.clone()), out);
        }
        self.on_pre_accept(me, it.clone(), out);
        // An entry that others keep, and that this replica forgot, would speak against what it forms afterwards.
        if !early {
            self.say_to_behind_records(asked, Said::PreAccept(it), out);
        }
    }

    /// A member keeps an entry behind these.
    pub(super) fn on_pre_accept_a(
        &mut self,
        from: MemberIndex,
        id: EntryId,
        deps: Deps,
        probe: Probe,
        out: &mut Out<Self>,
    ) {
        if probe.sent_ns > 0 && from != self.config.seating.me {
            self.queue.lags.note(from, probe, self.now.clock_ns);
        }
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        if let Lead::PreAccepting(count) = &mut instance.lead {
            count.answers.insert(from, deps);
            self.count_pre_accepted(id, out);
        }
    }

    /// Members are asked to keep an entry that were not before.
    pub(super) fn note_asked(&mut self, id: EntryId, asked: MemberSet) {
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.unasked -= asked;
        }
    }

    /// Commits on the fast path if enough have nothing to add; else goes on with all that was said, once enough have
    /// answered and nothing is to be waited for.
    pub(super) fn count_pre_accepted(&mut self, id: EntryId, out: &mut Out<Self>) {
        let (thresholds, me) = (self.config.thresholds, self.config.seating.me);
        let Some(instance) = self.instances.get(&id) else {
            return;
        };
        let Lead::PreAccepting(count) = &instance.lead else {
            return;
        };
        let is_own = instance.ballot == Ballot::default() && instance.phase == Phase::PreAccepted;
        let heard = count.heard();
        let Some(initial) = instance.initial.as_ref() else {
            return;
        };
        if !is_own || !heard.contains(me) {
            return;
        }
        let (equal, quorum) = (count.equal(initial), instance.quorum);
        let (is_fast, differs) = match quorum.is_empty() {
            true => {
                let is_enough = equal.len() >= thresholds.fast;
                (is_enough && equal.contains(me), equal != heard)
            }
            // The others' answers count on the slow path alone.
            false => (quorum.is_subset(equal), !(quorum & heard).is_subset(equal)),
        };
        if is_fast {
            let deps = initial.clone();
            assert!(
                quorum
                    .iter()
                    .all(|member| count.answers.get(&member) == Some(&deps)),
                "all of the fast quorum found the same, {id:?} (E1)"
            );
            self.commit(id, deps, true, out);
        } else if heard.len() >= thresholds.slow && (differs || count.has_waited) {
            let (deps, entry) = (count.union(), instance.entry.clone());
            self.say_accept(id, Ballot::default(), entry, deps, out);
        }
    }

    /// Asks everybody to accept a value.
    pub(super) fn say_accept(
        &mut self,
        id: EntryId,
        ballot: Ballot,
        value: Option<Entry>,
        deps: Deps,
        out: &mut Out<Self>,
    ) {
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        instance.lead = Lead::Accepting(Accepting {
            ballot,
            accepted_by: MemberSet::EMPTY,
        });
        // Everybody gets the entry now.
        instance.unasked = MemberSet::EMPTY;
        let it = Accept {
            id,
            ballot,
            value,
            deps,
        };
        self.say(self.config.seating.others(), Said::Accept(it.clone()), out);
        self.on_accept(self.config.seating.me, it, out);
    }

    /// A member has accepted what was proposed here at this ballot, if anything was.
    pub(super) fn on_accept_a(
        &mut self,
        from: MemberIndex,
        id: EntryId,
        ballot: Ballot,
        out: &mut Out<Self>,
    ) {
        let enough = self.config.thresholds.slow;
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        let is_in_force = instance.ballot == ballot;
        if let Lead::Accepting(count) = &mut instance.lead
            && count.ballot == ballot
            && is_in_force
        {
            count.accepted_by.insert(from);
            if count.accepted_by.len() >= enough {
                let deps = instance.deps.clone();
                self.commit(id, deps, false, out);
            }
        }
    }

    /// An own entry is not ordered by its instance: its commands get another.
    pub(super) fn propose_again(&mut self, entry: &Entry) {
        let place = self.offers.iter().position(|offer| offer.id == entry.id);
        let Some(place) = place else {
            return;
        };
        self.offers.remove(place);
        if !self.fault(Fault::LoseVoid) {
            let commands = entry.commands().filter_map(Result::ok);
            commands.for_each(|command| self.backlog.push(command));
        }
    }
}
