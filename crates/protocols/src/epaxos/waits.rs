//! What a replica waits for, and what it does when that does not come.

use super::Replica;
use super::footprint;
use super::messages::{Accept, PreAccept, Record, Said, Timer, Validate};
use super::state::{Deps, Instance, Lead};
use quorate_core::{Due, EntryId, Event, MemberIndex, MemberSet, Out, ReplicaId};
use std::collections::BTreeSet;

/// Instances that one question names, at most. Each may be answered with an entry and all that is below it.
const ASKED_MAX: usize = 8;
/// Instances of which the same is said again at once, at most: others have their turn the next time. Where nothing was
/// decided for long, much is under way, each behind all the rest; said again at once, it would fill a slow link for
/// longer than it takes to be said again.
const REPEATED_MAX: usize = 8;
/// Instances that this replica recovers at once, at most.
const RECOVERED_MAX: usize = 8;
/// Retransmissions in vain after which they follow each other half as fast.
const REPEATS_PER_DOUBLING: u32 = 8;
/// How often the silence is doubled after which an instance is recovered, at most.
const DOUBLED_MAX: u64 = 6;

/// The timers that run, but for the one of patience and the one of the host's log.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(super) struct Armed {
    retransmit: bool,
    fast_wait: bool,
    mark: bool,
    /// Whether it is hurried, if it runs.
    recover: Option<bool>,
    /// Instances of living members that were made void here, less those that coordinators committed since: from 0 to
    /// `DOUBLED_MAX`.
    hasty: u64,
    /// Others were asked how far they are since the last retransmission.
    has_asked: bool,
}

/// The last instances that had their turn, where not all have one at once.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(super) struct Turns {
    recovered: Option<EntryId>,
    /// Something was said of it again.
    repeated: Option<EntryId>,
}

impl Armed {
    /// An instance was made void whose coordinator lives, and might have committed it if it had been given more time.
    pub(super) fn note_hasty(&mut self) {
        self.hasty = (self.hasty + 1).min(DOUBLED_MAX);
    }

    /// A coordinator had enough time to commit its entry.
    pub(super) fn note_patient(&mut self) {
        self.hasty = self.hasty.saturating_sub(1);
    }
}

impl Replica {
    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        let waits = &self.config.waits;
        self.fetcher
            .watch(self.next, Timer::CatchUp, waits.learn_ns, out);
        let are_waiting = self.has_requests();
        let patience_ns = waits.patience_ns;
        self.patience
            .watch(are_waiting, Timer::Patience, patience_ns, out);
        let is_asking = self.is_silent && self.reads.is_asking();
        if !self.armed.retransmit && (is_asking || self.is_waiting()) {
            self.armed.retransmit = true;
            let doubled = u64::from(self.backoff.repeats() / REPEATS_PER_DOUBLING).min(DOUBLED_MAX);
            let due = self
                .backoff
                .due(waits.rtx_min_ns, waits.rtx_max_ns << doubled);
            out.arm(Timer::Retransmit, due);
        }
        if self.is_silent {
            return;
        }
        if !self.armed.mark && self.instances.values().any(Instance::wants_root) {
            self.armed.mark = true;
            let rank = self.config.seating.me.position() as u64;
            let due = Due::After(waits.mark_ns + rank * waits.mark_step_ns);
            out.arm(Timer::Mark, due);
        }
        self.watch_fast_path(out);
        self.watch_instances(out);
    }

    /// Whether clients of this replica wait.
    fn has_requests(&self) -> bool {
        !self.backlog.is_empty() || !self.offers.is_empty() || self.reads.count() > 0
    }

    /// Whether something may have to be said again.
    fn is_waiting(&self) -> bool {
        if self.is_silent {
            return !self.instances.is_empty();
        }
        let is_stuck = self.has_requests() && !self.may_propose();
        let mut all = self.instances.values();
        is_stuck
            || self.armed.has_asked
            || all.any(|instance| instance.is_led() || instance.lacks_entry())
    }

    /// Has a timer run while enough have answered for the slow path, and not for the fast one.
    fn watch_fast_path(&mut self, out: &mut Out<Self>) {
        let slow = self.config.thresholds.slow;
        let waits = |instance: &Instance| match &instance.lead {
            Lead::PreAccepting(count) => count.heard().len() >= slow && !count.has_waited,
            _ => false,
        };
        if !self.armed.fast_wait && self.instances.values().any(waits) {
            self.armed.fast_wait = true;
            out.arm(Timer::FastWait, Due::After(self.config.waits.fast_wait_ns));
        }
    }

    /// Has the recovery timer run while something is not committed: for less long where the connection to its
    /// coordinator is down.
    fn watch_instances(&mut self, out: &mut Out<Self>) {
        if self.armed.recover == Some(true) {
            return;
        }
        let mut open = self.instances.iter().filter(|(_, it)| !it.is_committed());
        let is_new = self.armed.recover.is_none();
        let hurries = !self.down.is_empty()
            && open.clone().any(|(id, _)| {
                let coordinator = self.config.seating.member(id.origin);
                coordinator.is_some_and(|member| self.down.contains(member))
            });
        if hurries || is_new && open.next().is_some() {
            let waits = &self.config.waits;
            let ns = match hurries {
                true => waits.hurried_ns,
                false => waits.recover_ns,
            };
            if is_new {
                for instance in self.instances.values_mut() {
                    instance.is_fresh = false;
                }
            }
            self.armed.recover = Some(hurries);
            out.arm(Timer::Recover, Due::Within(ns..=2 * ns));
        }
    }

    /// Nothing was heard for long: what has not been heard of is recovered.
    pub(super) fn on_recover_timer(&mut self, out: &mut Out<Self>) {
        let waits = &self.config.waits;
        let passed_ns = match self.armed.recover.take() {
            Some(true) => waits.hurried_ns,
            _ => waits.recover_ns,
        };
        let (seating, down, hasty) = (&self.config.seating, self.down, self.armed.hasty);
        let stale = self.instances.iter_mut().filter_map(|(id, instance)| {
            let is_fresh = std::mem::take(&mut instance.is_fresh);
            instance.silent_ns = if is_fresh {
                0
            } else {
                instance.silent_ns + passed_ns
            };
            let coordinator = seating.member(id.origin);
            let is_down = coordinator.is_some_and(|member| down.contains(member));
            let once_ns = if is_down {
                waits.hurried_ns
            } else {
                waits.recover_ns
            };
            // Where messages take longer than that, members that do the same at every silence end each other's ballots
            // and entries, and nothing is ever decided. So each ballot of an instance gets twice as long as the one
            // before.
            let doubled = instance.ballot.round.saturating_add(hasty);
            let patience_ns = once_ns << doubled.min(DOUBLED_MAX);
            // Its coordinator says it again as long as it takes.
            let is_own = matches!(instance.lead, Lead::PreAccepting(_));
            let is_due = instance.silent_ns >= patience_ns && !is_own;
            (is_due && !instance.is_committed()).then_some(*id)
        });
        let mut stale: Vec<EntryId> = stale.collect();
        let busy = self.instances.iter();
        let busy =
            busy.filter(|(id, instance)| instance.is_recovered_here() && !stale.contains(id));
        let many = RECOVERED_MAX.saturating_sub(busy.count());
        take_turn(&mut stale, &mut self.turns.recovered, many);
        for id in stale {
            self.recover_instance(id, out);
        }
    }

    /// Answers that the fast path lacks were waited for.
    pub(super) fn on_fast_wait(&mut self, out: &mut Out<Self>) {
        self.armed.fast_wait = false;
        let slow = self.config.thresholds.slow;
        let mut all = Vec::new();
        for (id, instance) in &mut self.instances {
            if let Lead::PreAccepting(count) = &mut instance.lead
                && count.heard().len() >= slow
            {
                count.has_waited = true;
                all.push(*id);
            }
        }
        for id in all {
            self.count_pre_accepted(id, out);
        }
    }

    /// Committed entries have waited for a root: proposes a mark behind them, unless there is one.
    pub(super) fn on_mark(&mut self, out: &mut Out<Self>) {
        self.armed.mark = false;
        if !self.may_propose() {
            return self.ask_progress(out);
        }
        let roots = self
            .instances
            .iter()
            .filter(|(_, instance)| instance.is_root());
        let mut left: Vec<EntryId> = roots.map(|(id, _)| *id).collect();
        let mut covered: BTreeSet<EntryId> = BTreeSet::new();
        while let Some(id) = left.pop() {
            if covered.insert(id)
                && let Some(instance) = self.instances.get(&id)
            {
                left.extend(&instance.deps.ids);
            }
        }
        let open = self
            .instances
            .iter()
            .filter(|(id, instance)| instance.wants_root() && !covered.contains(*id));
        let ids: BTreeSet<EntryId> = open.map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return;
        }
        out.emit(Event::Branch("mark proposed"));
        let entry = footprint::mark(self.names.next(), self.now.clock_ns);
        let deps = Deps {
            ids,
            ..Deps::default()
        };
        self.propose(entry, deps, out);
    }

    /// Says again what went unanswered since the last time.
    pub(super) fn on_retransmit(&mut self, out: &mut Out<Self>) {
        (self.armed.retransmit, self.armed.has_asked) = (false, false);
        self.ask_elsewhere_again(out);
        let is_still = self.backoff.is_still();
        if is_still && self.is_silent {
            // Whoever has delivered them gives it the log.
            let open: Vec<EntryId> = self.instances.keys().copied().take(ASKED_MAX).collect();
            self.say(self.config.seating.others(), Said::Ask(open), out);
        } else if is_still {
            self.say_again(self.config.seating.others(), REPEATED_MAX, out);
        }
    }

    /// Says to some members again what they may not have heard: of so many instances at once, at most.
    fn say_again(&mut self, to: MemberSet, many: usize, out: &mut Out<Self>) {
        let others = self.config.seating.others() & to;
        let all = self.instances.iter();
        let unanswered = all.filter(|(_, instance)| instance.unanswered(others).intersects(others));
        let mut unanswered: Vec<EntryId> = unanswered.map(|(id, _)| *id).collect();
        take_turn(&mut unanswered, &mut self.turns.repeated, many);
        for id in unanswered {
            if let Some(instance) = self.instances.get(&id)
                && let Some(said) = instance.asked(id)
            {
                let lacking = instance.unanswered(others);
                self.note_asked(id, lacking);
                self.say(lacking, said, out);
            }
        }
        let lacking = self
            .instances
            .iter()
            .filter(|(_, instance)| instance.lacks_entry());
        let lacking: Vec<EntryId> = lacking.map(|(id, _)| *id).take(ASKED_MAX).collect();
        if !lacking.is_empty() {
            self.say(to, Said::Ask(lacking), out);
        }
        if !self.may_propose() {
            self.ask_progress(out);
        }
    }

    /// Wants to know how far others are: this replica does not know what they delivered.
    pub(super) fn ask_progress(&mut self, out: &mut Out<Self>) {
        if !self.is_silent && !std::mem::replace(&mut self.armed.has_asked, true) {
            out.emit(Event::Branch("table lacking"));
            self.persist_record(Record::Delivered(self.next), out);
            self.say_behind_records(Said::Progress(true), out);
        }
    }

    /// A member says how far it is, and may want to know the same.
    pub(super) fn on_progress(
        &mut self,
        from: MemberIndex,
        is_question: bool,
        out: &mut Out<Self>,
    ) {
        if is_question && !self.is_silent {
            self.persist_record(Record::Delivered(self.next), out);
            self.answer(from, Said::Progress(false), out);
        }
    }

    /// Slots decided elsewhere have not come by themselves.
    pub(super) fn on_catch_up(&mut self, out: &mut Out<Self>) {
        let again_ns = self.config.waits.rtx_max_ns;
        let seating = &self.config.seating;
        self.fetcher
            .on_timer(self.next, seating, Timer::CatchUp, again_ns, out);
    }

    /// Requests have waited long. If none was served meanwhile, those in no entry are refused: they will not be
    /// executed.
    pub(super) fn on_patience(&mut self, out: &mut Out<Self>) {
        if self.patience.is_over() {
            self.reads.refuse_with(&mut self.backlog, out);
        }
    }

    /// A link came up: says at once what may have been lost. Or it went down.
    pub(super) fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        let Some(member) = self.config.seating.peer(peer) else {
            return;
        };
        if up {
            self.down.remove(member);
            self.say_again(MemberSet::only(member), usize::MAX, out);
        } else {
            self.down.insert(member);
        }
    }
}

/// Leaves so many names, of those behind the last one that had its turn first.
fn take_turn(ids: &mut Vec<EntryId>, last: &mut Option<EntryId>, many: usize) {
    let is_behind = |id: &EntryId| last.is_none_or(|last| *id > last);
    let turn = ids.iter().position(is_behind).unwrap_or(0);
    ids.rotate_left(turn);
    ids.truncate(many);
    *last = ids.last().copied().or(*last);
}

impl Instance {
    /// Who of these has not answered what was said of it last.
    fn unanswered(&self, of: MemberSet) -> MemberSet {
        match &self.lead {
            Lead::None => MemberSet::EMPTY,
            Lead::PreAccepting(count) => of - count.heard(),
            Lead::Accepting(accepting) => of - accepting.accepted_by,
            Lead::Recovering(answers) => of - answers.keys().copied().collect(),
            Lead::Validating(validating) => (validating.quorum - validating.heard) & of,
        }
    }

    /// What this replica wants to have answered of it, if anything.
    fn asked(&self, id: EntryId) -> Option<Said> {
        Some(match &self.lead {
            Lead::None => return None,
            Lead::PreAccepting(_) => Said::PreAccept(PreAccept::at_once(
                self.entry.clone()?,
                self.initial.clone()?,
                self.quorum,
            )),
            Lead::Accepting(accepting) => Said::Accept(Accept {
                id,
                ballot: accepting.ballot,
                value: self.entry.clone().filter(|_| !self.is_void),
                deps: self.deps.clone(),
            }),
            Lead::Recovering(_) => Said::Recover(id, self.leads_at),
            Lead::Validating(validating) => Said::Validate(Validate {
                ballot: self.leads_at,
                entry: self.entry.clone()?,
                deps: validating.deps.clone(),
            }),
        })
    }

    /// Whether it is decided, and needs a root behind it to be delivered.
    fn wants_root(&self) -> bool {
        self.is_committed() && !self.is_root()
    }
}
