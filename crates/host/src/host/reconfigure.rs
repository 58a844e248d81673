//! The way from one epoch to the next: performing what [`Succession`] decides.
//!
//! Where a seal is applied the machine ends, at once: whatever it decides behind the seal is void, and
//! what it promised stays in the log until the state through the seal is durable, so that a crash
//! before that brings it back. What it did not answer is asked again in the next epoch, under the same
//! ids. The driver makes the configuration for the next seat ([`Look::next_seat`](crate::Look::next_seat)) and
//! starts the machine ([`Host::begin_epoch`]).

use super::Host;
use super::doubt::Question;
use crate::api::HostEvent;
use crate::apply::Applier;
use crate::context::Context;
use crate::epochs::precheck;
use crate::epochs::{ANY_EPOCH, Input, Note, Output, Record, Standing, Succession};
use crate::flaw::Flaw;
use crate::frame::Body;
use crate::log::{Kind, LogWriter};
use crate::position::Position;
use crate::retained_records::RetainedRecords;
use crate::timers::Timer;
use quorate_core::{
    Application, Boot, Encoder, Epoch, Input as MachineInput, Machine, Member, Now, Past, Peers,
    Refusal, ReplicaId, Seat, Slot, Wire,
};
use std::collections::VecDeque;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A replica on its way through epochs.
#[derive(Debug)]
pub(crate) struct EpochTransition {
    /// The process's own; machines of later epochs have others, so that no name is given twice.
    boot: Boot,
    /// `None` only while it takes a step.
    succession: Option<Succession>,
    /// The newest epoch it had a part in before this start, and may have lost its promises of; [`ANY_EPOCH`] while
    /// nobody knows which that is.
    pub(super) started_before: u64,
    /// The read that bounds the epochs of which promises may be lost.
    pub(super) question: Question,
    /// Own records that are not durable yet, and where they end.
    writing: VecDeque<(Position, Record)>,
    /// The last own record, and where it is.
    last: Option<(Position, Record)>,
    /// The newest epoch waits for the driver to start its machine.
    is_due: bool,
    /// The member that was asked last to take this replica in.
    asked: Option<ReplicaId>,
}

impl EpochTransition {
    pub(crate) fn new(boot: Boot) -> EpochTransition {
        EpochTransition {
            boot,
            succession: None,
            started_before: 0,
            question: Question::Open,
            writing: VecDeque::new(),
            last: None,
            is_due: false,
            asked: None,
        }
    }

    /// What it knows of epochs; `None` only while it takes a step.
    pub(crate) fn succession(&self) -> Option<&Succession> {
        self.succession.as_ref()
    }

    /// The newest epoch's seat, while its machine waits to be started.
    pub(super) fn next_seat<M: Machine, A: Application>(
        &self,
        context: &Context<M, A>,
    ) -> Option<Seat> {
        let epoch = context.epoch();
        let number = epoch.number;
        let is_due = self.is_due && !context.rollback.is_waiting();
        // One that begins again in an epoch, after promises were lost, has another boot there.
        let losses = context.rollback.noted().losses;
        let seed = self.boot.0.wrapping_add(losses);
        is_due.then(|| Seat {
            boot: Boot(xxh3_64_with_seed(&number.to_le_bytes(), seed)),
            epoch: epoch.clone(),
            ..context.seat.clone()
        })
    }

    /// Offers to become a member, to one member after the other, once nearly everything is here: no more than `behind`
    /// slots are missing. The driver repeats it now and then; whoever is a member, or has left, says nothing.
    pub(super) fn volunteer<M: Machine, A: Application>(
        &mut self,
        context: &mut Context<M, A>,
        behind: u64,
    ) {
        let has_left = self.succession().is_none_or(Succession::has_left);
        let lag_max = precheck::Limits::default().lag_slots_max;
        if context.is_member() || has_left || behind > lag_max {
            return;
        }
        let epoch = context.epoch().number;
        let members = context.epoch().member_ids();
        let members = members.filter(|id| context.peer_versions.is_up(*id));
        let members: Vec<ReplicaId> = members.collect();
        if let Some(to) = self.asks_next(&members) {
            let incarnation = context.membership.me.incarnation;
            let note = Note::Ready { epoch };
            context.post(Peers::One(to), &Body::Note { incarnation, note });
        }
    }

    /// The member to ask next, of these, ascending.
    fn asks_next(&mut self, members: &[ReplicaId]) -> Option<ReplicaId> {
        let mut later = members.iter().filter(|id| Some(**id) > self.asked);
        self.asked = later.next().or(members.first()).copied();
        self.asked
    }

    /// Has the log say that promises of any epoch may be lost.
    pub(super) fn note_doubt(&mut self, log: &mut LogWriter) {
        let record = Record::Started { epoch: ANY_EPOCH };
        self.last = Some((append(log, record), record));
    }

    /// Writes an own record, which is acted upon once it is durable.
    pub(super) fn write_record(&mut self, log: &mut LogWriter, record: Record) {
        self.last = Some((append(log, record), record));
        self.writing.push_back((log.tail(), record));
        if self.is_in_doubt() && matches!(record, Record::Started { .. }) {
            self.note_doubt(log);
        }
    }

    /// The last own record goes on in the log, of which everything before `end` is released.
    pub(super) fn carry_on(&mut self, log: &mut LogWriter, end: Position) {
        if let Some((_, record)) = self.last.take_if(|(at, _)| *at < end) {
            self.last = Some((append(log, record), record));
        }
    }
}

impl<M: Machine, A: Application> Host<M, A> {
    /// Starts the machine of the newest epoch, in the seat that was asked for.
    pub fn begin_epoch(&mut self, now: Now, seat: Seat, config: &M::Config) {
        if !self.transition.is_due || seat.epoch != *self.context.applier.newest() {
            return;
        }
        self.transition.is_due = false;
        let number = seat.epoch.number;
        let rule = self
            .context
            .storage
            .fragments
            .as_ref()
            .and(M::payloads(config));
        self.payloads
            .enter(places(&self.context.applier, seat.me), rule);
        let first = seat.epoch.first_slot;
        self.context.seat = seat;
        self.outbox.begin_epoch();
        let (next, base) = (self.context.applied(), self.context.base.clone());
        let past = if number <= self.transition.started_before {
            Past::Lost { next, base }
        } else if next == first {
            Past::Fresh
        } else {
            let records = Vec::new();
            Past::Intact {
                next,
                base,
                records,
            }
        };
        self.context
            .effects
            .events
            .push(HostEvent::Began { epoch: number });
        self.start_machine(config, past, now);
        self.payloads.with(&mut self.context).watch_settling(now);
        self.tell_links(now);
    }

    /// Tells a machine that starts late which peers it cannot reach.
    pub(crate) fn tell_links(&mut self, now: Now) {
        for peer in self.context.membership.peers.clone() {
            if !self.context.peer_versions.is_up(peer) {
                let up = false;
                self.step(now, MachineInput::Link { peer, up });
            }
        }
    }

    /// Finds where this replica is after a start; says whether the newest epoch's machine goes on.
    pub(crate) fn recover_transition(
        &mut self,
        now: Now,
        genesis: &Epoch,
        written: &[(Position, Record)],
    ) -> bool {
        let me = self.context.membership.me;
        // The driver starts the first epoch, and keeps a note of that itself.
        let epoch = genesis.number;
        let first = genesis.has(me).then_some(Record::Started { epoch });
        let records: Vec<Record> = first
            .into_iter()
            .chain(written.iter().map(|(_, record)| *record))
            .collect();
        let mut started = records.iter().filter_map(|record| match record {
            Record::Started { epoch } => Some(*epoch),
            Record::Retired { .. } => None,
        });
        // In the order written: one that says in which epochs nothing was lost ends the doubt before it.
        self.transition.started_before = started.next_back().unwrap_or(0);
        self.transition.last = written.last().copied();
        self.meet_peers();
        let mut outputs = Vec::new();
        let standing = standing(&self.context);
        let succession = Succession::recover(me, &records, &standing, &mut outputs);
        self.transition.succession = Some(succession);
        let goes_on = outputs
            .iter()
            .any(|output| matches!(output, Output::Start { again: true, .. }));
        self.perform_transition(now, outputs);
        goes_on
    }

    /// A slot was applied. `before` was the newest epoch until then.
    pub(super) fn passed(&mut self, now: Now, slot: Slot, before: u64) {
        let newest = self.context.applier.newest();
        let is_sealed = newest.number > before;
        if is_sealed {
            self.context.base = M::Base::default();
            self.note_seal(now);
        } else if slot == newest.first_slot {
            // Whoever decided it holds the state before it: the epoch is open.
            self.pass(now, Input::Progress);
        }
    }

    /// The state has become that of a later epoch.
    pub(crate) fn note_seal(&mut self, now: Now) {
        let number = self.context.applier.newest().number;
        if let Some(log) = &mut self.context.storage.log {
            log.enter(number);
            log.want_sync();
        }
        self.transition.is_due = false;
        self.transition.question = Question::Open;
        // Whatever is appended from here on, as what a release carries on, is of the new epoch, and
        // durable no sooner than the seal.
        self.forget_promises();
        self.context.rollback.meet(self.context.applier.newest());
        self.meet_peers();
        let next = self.context.applied();
        self.context.effects.events.push(HostEvent::Sealed {
            next,
            epoch: number,
        });
        self.pass(now, Input::Progress);
    }

    /// A flush was performed.
    pub(super) fn transition_flushed(&mut self, now: Now) {
        while let Some(log) = &self.context.storage.log
            && let Some((end, record)) = self.transition.writing.front().copied()
            && let Some(whole) = self.transfer.read_repair.whole_at()
            && log.is_durable(end.max(whole))
        {
            self.transition.writing.pop_front();
            self.pass(now, Input::Durable(record));
        }
    }

    /// A peer says something about epochs.
    pub(super) fn hear_note(&mut self, now: Now, from: Member, note: Note) {
        match note {
            Note::Ready { .. } if !self.context.epoch().has(from) => {
                self.context
                    .effects
                    .events
                    .push(HostEvent::Volunteered { member: from });
            }
            Note::Safe { epoch } => self.payloads.with(&mut self.context).hear_safe(from, epoch),
            _ => {}
        }
        self.pass(now, Input::Heard { from, note });
    }

    /// A peer speaks in an epoch that is over.
    pub(super) fn hear_late(&mut self, now: Now, from: ReplicaId) {
        if let Some(from) = self.last_life(from) {
            self.pass(now, Input::Late { from });
        }
    }

    /// The life in which a replica was last a member.
    fn last_life(&self, id: ReplicaId) -> Option<Member> {
        let epochs = self.context.applier.epochs().chain.lineage();
        let mut lives = epochs.flat_map(|epoch| &epoch.members);
        lives.find(|member| member.id == id).copied()
    }

    /// Takes a step.
    pub(crate) fn pass(&mut self, now: Now, input: Input) {
        let Some(mut succession) = self.transition.succession.take() else {
            return;
        };
        let mut outputs = Vec::new();
        succession.step(&standing(&self.context), input, &mut outputs);
        self.transition.succession = Some(succession);
        self.perform_transition(now, outputs);
    }

    fn perform_transition(&mut self, now: Now, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Seal { .. } => self.end_machine(true),
                Output::Stop { .. } => {
                    // Who leaves may do so before it has applied the seal, or before its machine began.
                    self.transition.is_due = false;
                    self.end_machine(false);
                    self.forget_promises();
                }
                Output::Persist(record) => self.write_epoch_record(now, record),
                Output::Start { again, .. } => self.transition.is_due = !again,
                Output::Propose(order) => {
                    self.requests.with(&mut self.context).propose(now, &order);
                }
                Output::Send { to, note } => {
                    let incarnation = self.context.membership.me.incarnation;
                    self.context
                        .post(Peers::One(to.id), &Body::Note { incarnation, note });
                }
                Output::Fetch { from } => {
                    let mut catch_up = self.transfer.catch_up(&mut self.context);
                    catch_up.fetch_from(now, from.id);
                }
                Output::Arm { after_ns } => self
                    .context
                    .timers
                    .arm(Timer::Epochs, now.mono_ns + after_ns),
                Output::Leave => self.leave(),
            }
        }
    }

    /// The machine has done its part. `is_sealed`: the seal of its epoch is applied here, and what it left undecided
    /// is void.
    fn end_machine(&mut self, is_sealed: bool) {
        if self.context.limits.flaw != Some(Flaw::AppliesBehindSeal) {
            self.engine.stop();
        }
        self.context.applier.retract_from(Slot(0));
        self.transfer.repair.forget_machine();
        self.outbox.clear();
        self.payloads.forget_messages();
        self.engine.forget_outputs();
        self.context.timers.disarm_machine();
        if self.context.limits.flaw != Some(Flaw::AsksNoneAgain) {
            // Of a seal that is too old to be known, everything is behind.
            let seal = self
                .context
                .epochs()
                .chain
                .seal_of(self.context.seat.epoch.number);
            let next = seal.map_or(Slot(0), Slot::next);
            let withdrawn = self.requests.start_over(next, is_sealed);
            self.context.effects.refuse(withdrawn);
        }
        if !self.context.membership.is_member {
            self.refuse_all(Refusal::NotServing);
        }
    }

    /// The machine that runs, or waits to, begins again in its epoch as one that lost its promises.
    pub(super) fn restart_without_promises(&mut self) {
        if let Some(log) = &mut self.context.storage.log {
            self.outbox.fall_silent(log);
        }
        self.transition.distrust(self.context.storage.log.as_mut());
        let newest = self.context.epoch().number;
        let running = self.transition.succession().and_then(Succession::running);
        self.end_machine(false);
        self.forget_promises();
        self.transition.is_due |= running == Some(newest);
    }

    /// Nobody will order here what waits.
    fn refuse_all(&mut self, refusal: Refusal) {
        let refused = self.requests.take_all(refusal);
        self.context.effects.refuse(refused);
    }

    /// The group needs this replica no longer. It may not know what became of its last slots.
    fn leave(&mut self) {
        self.context.membership.is_member = false;
        self.refuse_all(Refusal::Unknown);
        self.context.effects.events.push(HostEvent::Left);
    }

    /// The state through the seal is durable: nobody needs the promises of the sealed epoch, nor what
    /// it left undecided.
    fn forget_promises(&mut self) {
        self.context.storage.retained = RetainedRecords::new();
        self.payloads.release();
    }

    fn write_epoch_record(&mut self, now: Now, record: Record) {
        let Some(log) = &mut self.context.storage.log else {
            return self.pass(now, Input::Durable(record));
        };
        self.transition.write_record(log, record);
    }

    /// Finds out whom to talk to.
    fn meet_peers(&mut self) {
        let state = self.context.applier.epochs();
        // Payloads may lie with those who left since they are on their way.
        let since = state.unsettled.unwrap_or(state.chain.newest().number);
        let epochs = state.chain.lineage();
        let epochs = epochs.take_while(|epoch| epoch.number + 1 >= since);
        let members = epochs.flat_map(|epoch| epoch.member_ids());
        let mut peers: Vec<ReplicaId> = members.filter(|id| *id != self.context.seat.me).collect();
        peers.sort_unstable();
        peers.dedup();
        self.context.membership.is_member = self
            .context
            .applier
            .newest()
            .has(self.context.membership.me);
        self.transfer.catch_up.meet(&peers);
        self.context.peer_versions.meet(&peers);
        self.context.membership.peers = peers;
    }
}

/// The place of a replica, and how many there may be. Whoever is no member has none, and no fragments
/// of its own.
pub(crate) fn places<A: Application>(applier: &Applier<A>, me: ReplicaId) -> (u8, u8) {
    let places = &applier.epochs().places;
    let last = places.values().max().copied().unwrap_or(0);
    (places.get(&me).copied().unwrap_or(0), last + 1)
}

/// Appends a record that concerns all slots; says where it is.
fn append(log: &mut LogWriter, record: Record) -> Position {
    let mut body = Encoder::new();
    record.encode(&mut body);
    log.count();
    log.append(Kind::Epoch, body, true).0
}

/// Where this replica is among the epochs.
pub(crate) fn standing<M: Machine, A: Application>(context: &Context<M, A>) -> Standing<'_> {
    let applied = context.applied();
    Standing {
        state: context.applier.epochs(),
        failures: context.applier.failures(),
        applied,
        // The log is one sequence: whatever is written behind a seal is durable no sooner than it,
        // and nothing is done without being written first. That goes for taking part in the next
        // epoch, for leaving, and for the release of what the sealed one promised.
        durable: applied,
    }
}
