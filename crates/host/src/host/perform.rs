//! Performing what the machine wants done.

use super::{Host, Outgoing};
use crate::api::{Answer, HostEvent, Place};
use crate::apply::Applied;
use crate::decided::Located;
use crate::flaw::Flaw;
use crate::frame::Body;
use crate::gateway_results::GatewayResult;
use crate::requests::{OwnSession, Waiting};
use crate::timers::{Timer, draw};
use bytes::Bytes;
use quorate_core::{
    Application, Base, Command, Entry, EntryId, Input, Lsn, Machine, Now, Output, Peers, Refusal,
    ReplicaId, RequestId, Slot,
};

impl<M: Machine, A: Application> Host<M, A> {
    /// Performs the machine's outputs.
    pub(super) fn run_to_fixpoint(&mut self, now: Now) {
        self.perform(now);
        loop {
            // Without a log, what is persisted is as durable as it will ever be.
            if self.log.is_none() && self.durable < self.out.persisted() {
                self.durable = self.out.persisted();
                self.step_machine(now, Input::Durable(self.durable));
            } else if let Some((slot, entry, results)) = self.execute_ahead() {
                let applied = Input::Applied {
                    slot,
                    entry,
                    results,
                };
                self.step_machine(now, applied);
            } else {
                return;
            }
            self.perform(now);
        }
    }

    /// Executes the next entry ahead of its decision, if that can be; says what it came to, the first
    /// time.
    fn execute_ahead(&mut self) -> Option<(Slot, EntryId, Vec<Bytes>)> {
        self.machine.as_ref().filter(|_| !self.is_stalled())?;
        self.applier.execute_ahead()
    }

    pub(super) fn perform(&mut self, now: Now) {
        let mut outputs = std::mem::take(&mut self.output_buffer);
        self.out.swap(&mut outputs);
        for output in outputs.drain(..) {
            self.perform_one(now, output);
        }
        self.output_buffer = outputs;
    }

    fn perform_one(&mut self, now: Now, output: Output<M>) {
        // It has delivered its seal: what else it wants is void.
        if self.machine.is_none() {
            return;
        }
        match output {
            Output::Send {
                to,
                message,
                after: Lsn(0),
            } => self.early.push((to, message)),
            Output::Send { to, message, .. } if self.limits.flaw == Some(Flaw::SpeaksTooEarly) => {
                self.early.push((to, message));
            }
            Output::Send { to, message, after } => {
                self.gated.push_back(Outgoing { to, message, after });
            }
            Output::Persist { lsn, record } => {
                self.append_record(record, true);
                self.appended = lsn;
            }
            Output::Note(record) => self.append_record(record, false),
            Output::Arm { timer, due } => {
                let at_ns = now
                    .mono_ns
                    .saturating_add(draw(&mut self.jitter_seed, &due));
                self.timers.arm(Timer::Machine(timer), at_ns);
            }
            Output::Disarm(timer) => self.timers.disarm(Timer::Machine(timer)),
            Output::CatchUp { from, through } => {
                self.catch_up.saw(from, through.next(), now);
                self.fetch_from(now, from);
            }
            Output::Gather(entry) => self.gather_for_machine(now, entry),
            Output::Forget(entry) => self.forget_undecided(entry),
            Output::Inform { peer, from } => self.serve(now, peer, from, true),
            Output::Deliver { slot, entry } => self.deliver(now, slot, entry),
            Output::Execute { slot, entry } => self.applier.speculation.ask(slot, entry),
            Output::Retract { from } => self.applier.retract_from(from),
            Output::Tell {
                gateway,
                entry,
                requests,
            } => self.tell(gateway, entry, requests),
            Output::Reply { id, outcome } => self.reply(now, id, outcome),
            Output::Emit(event) => self.events.push(HostEvent::Machine(event)),
        }
    }

    /// What came of an entry that is applied here.
    fn tell(&mut self, gateway: ReplicaId, entry: EntryId, requests: Vec<RequestId>) {
        let sessions = self.applier.sessions();
        let results = requests
            .into_iter()
            .map(|id| (id, GatewayResult::of(sessions, id)))
            .collect();
        self.post(
            Peers::One(gateway),
            &Body::GatewayResults { entry, results },
        );
    }

    fn reply(&mut self, now: Now, id: quorate_core::RequestId, outcome: quorate_core::Outcome) {
        match outcome {
            quorate_core::Outcome::ReadAt(slot) => {
                if let Some((peer, number)) = self.requests.take_peer_read(id) {
                    return self.post(Peers::One(peer), &Body::Mark { number, slot });
                }
                let is_early = self.limits.flaw == Some(Flaw::ReadsTooEarly);
                let slot = if is_early { Slot(0) } else { slot };
                self.requests.locate(id, slot);
                self.answer_reads(now);
            }
            quorate_core::Outcome::Applied(slot, result) => {
                if let Some(waiting) = self.requests.take_early(id) {
                    spent(&mut self.events, now, waiting);
                    let answer = Answer::Applied(slot, result);
                    self.answers.push((waiting.token, answer));
                }
            }
            quorate_core::Outcome::Decided => self.requests.decided(id),
            quorate_core::Outcome::Refused(refusal) if self.requests.is_opening(id) => {
                self.requests.set_session(OwnSession::Closed);
                if refusal == Refusal::NotServing {
                    let held = self.requests.take_held(refusal);
                    self.refuse(held);
                }
            }
            quorate_core::Outcome::Refused(refusal) => {
                self.requests.take_peer_read(id);
                let read = self.requests.take_read(id);
                let read = read.map(|read| (read.waiting.token, refusal));
                let refused = read.or_else(|| self.requests.take_refused(id, refusal));
                self.refuse(refused);
            }
        }
    }

    /// The machine decided the next slot.
    fn deliver(&mut self, now: Now, slot: Slot, entry: Option<Entry>) {
        let located = self.append_decided(slot, entry.as_ref());
        self.apply(now, slot, entry, located);
    }

    /// Moves past a decided slot: state, answers, and what peers are told.
    pub(crate) fn apply(
        &mut self,
        now: Now,
        slot: Slot,
        entry: Option<Entry>,
        located: Option<Located>,
    ) {
        let bytes_before = self.applier.bytes_total();
        let epoch_before = self.applier.newest().number;
        let (requests, answers, events) = (&mut self.requests, &mut self.answers, &mut self.events);
        let (follow, entry_id) = (self.limits.follow, entry.as_ref().map(|entry| entry.id));
        self.applier.apply(slot, entry.as_ref(), |id, applied| {
            if requests.is_opening(id) {
                requests.set_session(OwnSession::Open);
                return;
            }
            if applied == Applied::Refused(Refusal::NoSession) {
                requests.session_lost(id.client);
            }
            requests.decided(id);
            if let Some(waiting) = requests.take_write(id) {
                spent(events, now, waiting);
                if follow {
                    let (token, entry) = (waiting.token, entry_id);
                    events.push(HostEvent::Applied {
                        token,
                        id,
                        slot,
                        entry,
                    });
                }
                answers.push((waiting.token, answer(applied)));
            }
        });
        if let Some(entry) = &entry {
            self.payloads_applied(now, entry);
        }
        let entry = entry.map(|entry| entry.with_share(None));
        self.base.advance(slot, entry.as_ref());
        self.retained.decided(slot, entry_id);
        self.decided.push(slot, entry, located);
        // First what follows from a seal: what is read behind it may be older than what the next epoch has
        // decided.
        self.passed(now, slot, epoch_before);
        self.answer_reads(now);
        self.cut_if_due(bytes_before);
        self.counters.slots += 1;
        self.arm_beat(now, 0);
    }

    pub(super) fn report_ordered(&mut self, commands: &[Command]) {
        for command in commands {
            let id = command.id;
            if let Some(token) = self.requests.token_of(id) {
                self.events.push(HostEvent::Ordered { token, id });
            }
        }
    }

    pub(crate) fn answer_reads(&mut self, now: Now) {
        let next = self.applier.next();
        let due = self.requests.take_located(next);
        if !due.is_empty() {
            self.applier.take_back();
        }
        for read in due {
            spent(&mut self.events, now, read.waiting);
            let answer = Answer::Read(next, self.applier.app().query(&read.query));
            self.answers.push((read.waiting.token, answer));
        }
    }
}

pub(crate) fn answer<Q>(applied: Applied) -> Answer<Q> {
    match applied {
        Applied::Result(slot, result) => Answer::Applied(slot, result),
        Applied::Refused(refusal) => Answer::Refused(refusal),
    }
}

fn spent(events: &mut Vec<HostEvent>, now: Now, waiting: Waiting) {
    let ordered_ns = waiting.ordered_ns.max(waiting.submitted_ns);
    let now_ns = now.mono_ns.max(ordered_ns);
    events.push(HostEvent::Spent(
        Place::Ring,
        ordered_ns - waiting.submitted_ns,
    ));
    events.push(HostEvent::Spent(Place::Order, now_ns - ordered_ns));
    events.push(HostEvent::Spent(
        Place::Total,
        now_ns - waiting.submitted_ns,
    ));
}
