//! What the machine puts out is performed, decided slots are applied, and what follows for the world is handed out.

use super::{Effects, Host};
use crate::api::{Flush, HostEvent};
use crate::decided::Located;
use crate::flaw::Flaw;
use crate::fragments::FragmentStore;
use crate::frame::Body;
use crate::gateway_results::GatewayResult;
use crate::log::Beside;
use crate::position::Position;
use crate::repair::Woken;
use crate::requests::NOBODY;
use crate::stall::may_seal;
use crate::storage::Storage;
use crate::timers::Timer;
use quorate_core::{
    Application, Entry, EntryId, Input, Lsn, Machine, Now, Output, Peers, ReplicaId, RequestId,
    Slot,
};

/// How long what nothing waits for may stay in memory when no flush comes to take it along, in ns.
const WRITE_BEHIND_NS: u64 = 20_000_000;

impl<M: Machine, A: Application> Host<M, A> {
    /// Everything that is to be done now.
    pub fn take_effects(&mut self, now: Now) -> Effects<A::Answer> {
        let flush = self.take_flush(now);
        Effects {
            flush,
            ..self.take_effects_but_flush()
        }
    }

    /// Everything that is to be done now, for a driver that cannot write at the moment.
    pub fn take_effects_but_flush(&mut self) -> Effects<A::Answer> {
        let frames = self
            .outbox
            .take_frames(&mut self.context, &mut self.payloads);
        let mut answers = Vec::new();
        if !self.outbox.is_silent() {
            std::mem::swap(&mut answers, &mut self.context.effects.answers);
            answers.retain(|(token, _)| *token != NOBODY);
        }
        let fragments = self.context.storage.fragments.as_mut();
        let (released_fragments, fragment_step) = match fragments {
            Some(fragments) => (fragments.take_release(), fragments.take_step()),
            None => (Vec::new(), None),
        };
        Effects {
            frames,
            answers,
            reads: std::mem::take(&mut self.context.effects.reads),
            events: std::mem::take(&mut self.context.effects.events),
            // Nothing that starts or stops one is executed ahead of its decision.
            countdowns: self.context.applier.app_mut().take_countdowns(),
            flush: None,
            fragment_step,
            coding: self.payloads.take_coding(),
            snapshot_writes: self.transfer.snapshots.take_writes(),
            snapshot_reads: self.transfer.snapshots.take_reads(),
            release: self.transfer.snapshots(&mut self.context).take_release(),
            released_fragments,
        }
    }

    /// What is to be written now; `None` while a flush is under way or there is nothing, or only
    /// what may wait.
    fn take_flush(&mut self, now: Now) -> Option<Flush> {
        let Storage { log, fragments, .. } = &mut self.context.storage;
        let log = log.as_mut()?;
        let flush = match fragments {
            Some(fragments) => fragments.take_flush(log),
            None => log.take_flush(&Beside::default()),
        };
        let Some(flush) = flush else {
            let unwritten = fragments.as_ref().map_or(0, FragmentStore::unwritten_bytes);
            let timers = &mut self.context.timers;
            if (log.has_unwritten() || unwritten > 0) && !timers.is_armed(Timer::WriteBehind) {
                timers.arm(Timer::WriteBehind, now.mono_ns + WRITE_BEHIND_NS);
            }
            return None;
        };
        self.outbox.flush_taken(flush.sync, now.mono_ns);
        self.payloads.settling_flushes(flush.sync);
        Some(flush)
    }

    /// Performs what the machine has put out.
    pub(super) fn perform(&mut self, now: Now) {
        let mut outputs = self.engine.take_outputs();
        for output in outputs.drain(..) {
            self.perform_one(now, output);
        }
        self.engine.give_back(outputs);
    }

    fn perform_one(&mut self, now: Now, output: Output<M>) {
        // It has delivered its seal: what else it wants is void.
        if self.engine.machine().is_none() {
            return;
        }
        match output {
            Output::Send { to, message, after } => {
                let is_early = self.context.limits.flaw == Some(Flaw::SpeaksTooEarly);
                let after = if is_early { Lsn(0) } else { after };
                self.outbox.send(to, message, after);
            }
            Output::Persist { lsn, record } => {
                let mut payloads = self.payloads.with(&mut self.context);
                payloads.append_record(record, true);
                self.outbox.appended(lsn);
            }
            Output::Note(record) => {
                let mut payloads = self.payloads.with(&mut self.context);
                payloads.append_record(record, false);
            }
            Output::Arm { timer, due } => self.context.timers.arm_machine(now, timer, &due),
            Output::Disarm(timer) => self.context.timers.disarm(Timer::Machine(timer)),
            Output::CatchUp { from, through } => {
                self.transfer.catch_up.saw(from, through.next(), now);
                self.transfer
                    .catch_up(&mut self.context)
                    .fetch_from(now, from);
            }
            Output::Gather(entry) => {
                let mut payloads = self.payloads.with(&mut self.context);
                payloads.gather_for_machine(now, entry);
            }
            Output::Forget(entry) => {
                let mut payloads = self.payloads.with(&mut self.context);
                payloads.forget_undecided(entry);
            }
            Output::Inform { peer, from } => self.serve(now, peer, from, true),
            Output::Deliver { slot, entry } => self.deliver(now, slot, entry),
            Output::Execute { slot, entry } => self.context.applier.speculation.ask(slot, entry),
            Output::Retract { from } => self.context.applier.retract_from(from),
            Output::Tell {
                gateway,
                entry,
                requests,
            } => self.tell(gateway, entry, requests),
            Output::Reply { id, outcome } if self.transition.is_answer(id, &outcome) => {}
            Output::Reply { id, outcome } => {
                self.requests
                    .with(&mut self.context)
                    .reply(now, id, outcome);
            }
            Output::Emit(event) => {
                let events = &mut self.context.effects.events;
                events.push(HostEvent::Machine(event));
            }
        }
    }

    /// What came of an entry that is applied here.
    fn tell(&mut self, gateway: ReplicaId, entry: EntryId, requests: Vec<RequestId>) {
        let sessions = self.context.applier.sessions();
        let result = |id| (id, GatewayResult::of(sessions, id));
        let results = requests.into_iter().map(result).collect();
        let body = Body::GatewayResults { entry, results };
        self.context.post(Peers::One(gateway), &body);
    }

    /// The machine decided the next slot.
    fn deliver(&mut self, now: Now, slot: Slot, entry: Option<Entry>) {
        let storage = &mut self.context.storage;
        let located = storage.append_decided(slot, entry.as_ref());
        self.apply(now, slot, entry, located);
    }

    /// Moves past a decided slot: state, answers, and what peers are told.
    fn apply(&mut self, now: Now, slot: Slot, entry: Option<Entry>, located: Option<Located>) {
        let bytes_before = self.context.applier.bytes_total();
        let epoch_before = self.context.epoch().number;
        let named_before = self.context.applier.epochs().leader.id;
        let mut requests = self.requests.with(&mut self.context);
        requests.apply(now, slot, entry.as_ref());
        if let Some(entry) = &entry {
            self.payloads.with(&mut self.context).applied(now, entry);
        }
        let entry = entry.map(|entry| entry.with_share(None));
        self.context.advance(slot, entry, located);
        let named = self.context.applier.epochs().leader.id;
        if named != named_before {
            self.context.membership.preferred = named;
        }
        // First what follows from a seal: what is read behind it may be older than what the next epoch has
        // decided.
        self.passed(now, slot, epoch_before);
        self.requests.with(&mut self.context).answer_reads(now);
        self.transfer
            .snapshots(&mut self.context)
            .cut_if_due(bytes_before);
        self.context.effects.counters.slots += 1;
        self.context.timers.begin_beats(now);
    }

    /// Sends a peer decided slots, or offers it a snapshot that covers them.
    pub(super) fn serve(&mut self, now: Now, peer: ReplicaId, from: Slot, unasked: bool) {
        if self
            .transfer
            .catch_up(&mut self.context)
            .serve(now, peer, from, unasked)
        {
            self.transfer
                .snapshots(&mut self.context)
                .offer(now, peer, from);
        }
    }

    /// Decided slots came: applies those that continue the own log.
    pub(super) fn learn(
        &mut self,
        now: Now,
        peer: ReplicaId,
        from: Slot,
        entries: Vec<Option<Entry>>,
    ) {
        let before = self.context.applied();
        let told = from..Slot(from.0.saturating_add(entries.len().max(1) as u64));
        let skipped = usize::from(self.context.limits.flaw == Some(Flaw::SkipsSlot));
        for (index, entry) in entries.into_iter().skip(skipped).enumerate() {
            let slot = Slot(from.0.saturating_add(index as u64));
            let mut read_repair = self.transfer.read_repair(&mut self.context);
            read_repair.mend(slot, entry.as_ref());
            if slot != self.context.applied() {
                continue;
            }
            let storage = &mut self.context.storage;
            let located = if !storage.is_stalled {
                storage.append_decided(slot, entry.as_ref())
            } else if entry.as_ref().is_some_and(may_seal) {
                break;
            } else {
                Some(self.transfer.read_repair.leave_unwritten(slot))
            };
            self.apply(now, slot, entry, located);
        }
        let mut read_repair = self.transfer.read_repair(&mut self.context);
        read_repair.ask_for_more(now);
        let learned = self.context.applied().0 - before.0;
        if learned > 0 {
            self.context.effects.counters.caught_up += learned;
            self.installed(now);
            self.go_on_from_own_log(now);
        }
        self.transfer
            .catch_up(&mut self.context)
            .learned(now, peer, &told, learned);
    }

    /// The host caught up: the machine goes on from here.
    fn installed(&mut self, now: Now) {
        let (next, base) = (self.context.applied(), self.context.base.clone());
        self.step(now, Input::Installed { next, base });
    }

    /// Applies what the own log holds behind what was missing, and starts the machine once nothing
    /// is missing any more.
    pub(super) fn go_on_from_own_log(&mut self, now: Now) {
        if !self.transfer.repair.is_under_way() {
            return;
        }
        let before = self.context.applied();
        while let Some(known) = self.transfer.repair.take_next(self.context.applied()) {
            let slot = self.context.applied();
            self.apply(now, slot, known.entry, Some(known.located));
        }
        let next = self.context.applied();
        self.transfer.repair.forget_before(next);
        if next > before {
            self.installed(now);
        }
        if let Some(Woken { config, past }) = self.transfer.repair.wake(&mut self.context) {
            self.start_machine(&config, past, now);
            self.tell_links(now);
        }
        if let Some(slots) = self.transfer.repair.take_missing() {
            let repaired = HostEvent::Repaired { next, slots };
            self.context.effects.events.push(repaired);
        }
    }

    /// The fetched snapshot is as durable as it will ever be: installs it, unless this replica has
    /// got beyond it meanwhile.
    pub(super) fn install_pulled(&mut self, now: Now) {
        let Some((id, loaded)) = self.transfer.snapshots.take_pulled() else {
            return;
        };
        if id.slot <= self.context.applied() {
            return;
        }
        self.transfer.snapshots(&mut self.context).release_cut();
        let epoch_before = self.context.epoch().number;
        let (applier, base) = loaded.into_applier(&self.context.applier);
        (self.context.applier, self.context.base) = (applier, base);
        self.transfer.snapshots(&mut self.context).installed(id);
        self.requests.with(&mut self.context).skipped();
        if self.context.epoch().number > epoch_before {
            self.note_seal(now);
        }
        let is_serving = self.engine.is_serving();
        self.payloads.with(&mut self.context).installed(is_serving);
        self.installed(now);
        self.go_on_from_own_log(now);
        self.requests.with(&mut self.context).answer_reads(now);
        self.context.timers.begin_beats(now);
        self.transfer
            .catch_up(&mut self.context)
            .fetch_if_behind(now, None);
    }

    /// The snapshot of this slot is durable under its name; or writing it failed, at whatever
    /// place. After a failure the driver ignores writes up to the next [`SnapshotWrite::Begin`].
    pub(super) fn snapshot_stored(&mut self, now: Now, slot: Slot, result: Result<(), String>) {
        if result.is_ok() && self.transfer.snapshots.is_pulled(slot) {
            return self.install_pulled(now);
        }
        let mut snapshots = self.transfer.snapshots(&mut self.context);
        match result {
            Err(why) => snapshots.not_stored(now, slot, why),
            Ok(()) => {
                if let Some(first) = snapshots.own_stored(now, slot) {
                    self.release_log(first);
                }
            }
        }
    }

    /// Has the log begin at this segment, for what was before is covered by snapshots: what is still needed of that is
    /// appended again.
    fn release_log(&mut self, first: u64) {
        let end = Position {
            segment: first,
            offset: 0,
        };
        if let Some(log) = &mut self.context.storage.log {
            self.transition.carry_on(log, end);
        }
        self.context.carry_on_note(end);
        self.payloads.with(&mut self.context).carry_on(end);
        self.transfer
            .snapshots(&mut self.context)
            .release_log(first);
    }
}
