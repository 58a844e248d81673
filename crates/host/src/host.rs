//! The host: one machine, one application, and everything between them and the world.
//!
//! [`Host`] only routes. Its parts own their state and get the [`Context`] that they share; what follows for another
//! part comes back as a value.

mod explain;
mod group;
mod inputs;
mod look;
mod outputs;
mod queues;
mod reconfigure;

use crate::api::{
    Answer, Flush, Frame, HostConfig, HostEvent, LogRead, Place, Request, Start, Token, Write,
};
use crate::apply::first_state;
use crate::context::{Context, Membership};
use crate::effects::Effects;
use crate::engine::Engine;
use crate::epochs::Record;
use crate::flaw::Flaw;
use crate::fragments::FragmentStore;
use crate::frame::Body;
use crate::log::{LogSource, Position};
use crate::open::{self, Parts};
use crate::opened::{OpenError, Opened};
use crate::outbox::Outbox;
use crate::payloads::{Coding, Fragments, Payloads};
use crate::repair::Repair;
use crate::requests::{NOBODY, Requests, Withdrawn};
use crate::snapshot::{Release, SnapshotRead, SnapshotWrite, Snapshots};
use crate::stall::{Resumed, Stall};
use crate::storage::Storage;
use crate::timers::{Timer, Timers};
use crate::transfer::Transfer;
use crate::version::{PeerVersions, WireVersion};
use bytes::Bytes;
pub use queues::Queue;
use quorate_core::{
    Application, Countdown, Input, Machine, Member, Now, Past, Peers, Refusal, ReplicaId,
    RequestId, Slot,
};
use reconfigure::{EpochTransition, places};

/// A replica of one group, without I/O.
pub struct Host<M: Machine, A: Application> {
    /// What all parts may touch.
    context: Context<M, A>,
    engine: Engine<M>,
    /// Messages of the machine on their way out.
    outbox: Outbox<M>,
    requests: Requests<A::Query>,
    /// What waits while the log cannot be written.
    stall: Stall<M>,
    payloads: Payloads<M>,
    /// Decided state from peers and for them.
    transfer: Transfer<M, A>,
    /// The way from one epoch to the next.
    transition: EpochTransition,
}

/// How long what nothing waits for may stay in memory when no flush comes to take it along, in ns.
const WRITE_BEHIND_NS: u64 = 20_000_000;

impl<M: Machine, A: Application> Host<M, A> {
    /// Opens a host from what its snapshots and its log hold.
    ///
    /// # Errors
    /// [`OpenError`] when the disk cannot be read, or the log is another replica's or newer than this
    /// program. Damage is no error: what is lost is fetched from peers ([`Opened::missing`]), and a
    /// replica that may have lost promises recovers before it votes ([`Opened::lost_promises`]).
    pub fn open(
        config: HostConfig<M::Config>,
        start: Start,
        log: &mut dyn LogSource,
        app: A,
        now: Now,
    ) -> Result<(Self, Opened), OpenError> {
        let (parts, opened) = open::read(&config, start, log, app)?;
        Ok((Host::assemble(&config, parts, now), opened))
    }

    /// The parts in their places.
    fn assemble(config: &HostConfig<M::Config>, parts: Parts<M, A>, now: Now) -> Self {
        let seat = config.seat.clone();
        let limits = config.limits;
        let mut fragments = parts.fragments;
        if let Some(fragments) = &mut fragments {
            fragments.put_behind(limits.long_bytes_min, limits.long_step_bytes);
        }
        // Without a disk there is no place for fragments.
        let rule = fragments.as_ref().and(M::payloads(&config.machine));
        let place = places(&parts.applier, seat.me);
        let me = Member {
            id: seat.me,
            incarnation: config.listed_as,
        };
        let mut snapshots =
            Snapshots::new(config.cluster, first_state(&config.genesis), parts.kept);
        snapshots.note_ragged(parts.ragged);
        let mut host = Host {
            engine: Engine::new(limits.check_steps),
            outbox: Outbox::new(parts.log.is_some()),
            requests: Requests::new(seat.me, seat.boot),
            stall: Stall::new(),
            payloads: Payloads::new(place, rule, limits.payload_cache_bytes_max),
            transfer: Transfer::new(snapshots, Repair::new(parts.ahead, parts.missing)),
            transition: EpochTransition::new(seat.boot),
            context: Context {
                seat,
                limits,
                membership: Membership::new(me),
                applier: parts.applier,
                base: parts.base,
                storage: Storage {
                    log: parts.log,
                    fragments,
                    decided: parts.decided,
                    retained: parts.retained,
                    is_stalled: false,
                },
                rollback: parts.rollback,
                peer_versions: PeerVersions::new(config.supported),
                timers: Timers::new(config.jitter_seed),
                effects: Effects::new(),
            },
        };
        host.begin(config, parts.past, &parts.epochs, now);
        host
    }

    /// Starts the machine, or has it wait for what is missing.
    fn begin(
        &mut self,
        config: &HostConfig<M::Config>,
        past: Past<M>,
        epochs: &[(Position, Record)],
        now: Now,
    ) {
        let goes_on = self.recover_transition(now, &config.genesis, epochs);
        match &past {
            Past::Lost { .. } => self.transition.distrust(),
            _ => self.context.wait_for_memory(now),
        }
        match past {
            _ if !goes_on => {}
            Past::Intact { next, records, .. }
                if next > self.context.applied() || self.context.rollback.is_waiting() =>
            {
                let machine = config.machine.clone();
                self.transfer.repair.wait(machine, records, next);
            }
            past => self.start_machine(&config.machine, past, now),
        }
        self.payloads.with(&mut self.context).watch_settling(now);
    }

    /// Takes a request; it is ordered at the next turn. A refusal comes as an answer.
    pub fn submit(&mut self, now: Now, token: Token, request: Request<A::Query>) {
        let waiting = self.waiting();
        let mut requests = self.requests.with(&mut self.context);
        match request {
            Request::Peek(query) => requests.peek(token, &query),
            Request::Payload(id, payload) => match requests.refusal_of(0, false, waiting) {
                Some(refusal) => self.context.effects.refuse([(token, refusal)]),
                None => {
                    let mut payloads = self.payloads.with(&mut self.context);
                    payloads.read_payload(now, token, id, &payload);
                }
            },
            request => requests.submit(now, token, request, waiting),
        }
    }

    /// Drops the requests that nobody waits for any more, as far as the machine has offered them to nobody; they are
    /// answered [`Refusal::Withdrawn`]. What is offered may be executed yet: the machine's bounds say how much that
    /// is. To be called whenever somebody who waited has been told that it took too long, or has left.
    pub fn withdraw(&mut self, now: Now, is_wanted: impl Fn(Token) -> bool) {
        let Withdrawn { gone, taken } = self.requests.withdraw(is_wanted);
        self.context.effects.refuse(gone);
        if taken.is_empty() {
            return;
        }
        if self.context.limits.flaw == Some(Flaw::WithdrawsWhatIsOffered) {
            let withdrawn = |id: &RequestId| self.requests.take_refused(*id, Refusal::Withdrawn);
            let gone = taken.iter().filter_map(withdrawn);
            return self.context.effects.refuse(gone);
        }
        self.step(now, Input::Withdraw(taken));
    }

    /// Whether the machine gets nothing for now. A driver says so while it reaches too few members: what cannot be
    /// decided would be offered all the same, and be decided long after whoever asked was told otherwise.
    pub fn hold_back(&mut self, holds_back: bool) {
        self.requests.hold_back(holds_back);
    }

    /// Orders what a countdown has come to (see [`crate::Countdowns`]), if it can be ordered here and does not
    /// wait already. Nobody is told what becomes of it.
    pub fn order_due(&mut self, now: Now, body: Bytes) {
        let waiting = self.waiting();
        let mut requests = self.requests.with(&mut self.context);
        requests.order_due(now, body, waiting);
    }

    /// Takes a frame from a peer. What cannot be used is dropped and reported.
    pub fn frame(&mut self, now: Now, from: ReplicaId, frame: Bytes) {
        if let Err(why) = self.take_frame(now, from, frame) {
            let events = &mut self.context.effects.events;
            events.push(HostEvent::BadFrame { peer: from, why });
        }
    }

    /// The connection to a peer came up, in a version agreed on, or went down.
    pub fn link(&mut self, now: Now, peer: ReplicaId, version: Option<WireVersion>) {
        self.context.peer_versions.agree(peer, version);
        let up = version.is_some();
        self.step(now, Input::Link { peer, up });
        if up {
            self.context.post(Peers::One(peer), &Body::Beat);
            self.context.ask_memory(peer);
        } else if !peer.is_gateway() {
            self.transfer
                .catch_up(&mut self.context)
                .fetch_lost(now, peer);
            self.payloads
                .with(&mut self.context)
                .gather_elsewhere(now, peer);
        }
    }

    /// A read of the log or of the fragments is done.
    pub fn read_done(&mut self, now: Now, token: u64, bytes: Result<Bytes, String>) {
        if FragmentStore::owns(token) {
            let mut payloads = self.payloads.with(&mut self.context);
            return payloads.bulk_read_done(token, bytes);
        }
        let entry_at = |at, bytes: &Bytes| self.context.applier.entry_at(at, bytes);
        let Some(done) = self.transfer.catch_up.read_done(token, bytes, entry_at) else {
            return;
        };
        let is_known = done.damaged.is_some_and(|(slot, at, why)| {
            let mut read_repair = self.transfer.read_repair(&mut self.context);
            !read_repair.found_damage(now, slot, at, why)
        });
        if let Some(body) = done.answer {
            let mut catch_up = self.transfer.catch_up(&mut self.context);
            catch_up.answer(now, done.peer, &body);
        }
        if is_known {
            // Nobody seems to have it: a snapshot may lead beyond it.
            let mut snapshots = self.transfer.snapshots(&mut self.context);
            snapshots.offer(now, done.peer, done.slot);
        }
    }

    /// Ends a turn: fires the timers that are due and gives the machine what waits.
    pub fn turn(&mut self, now: Now) {
        while let Some(timer) = self.context.timers.pop_due(now.mono_ns) {
            self.fire(now, timer);
        }
        self.context.note_soon(now);
        let mut divergence = self.transfer.divergence(&mut self.context);
        divergence.look_into_difference(now);
        self.go_on_from_own_log(now);
        while let Some(entry) = self.payloads.take_held() {
            self.step(now, Input::Held(entry));
        }
        self.payloads.with(&mut self.context).rebuild_further(now);
        if self.context.storage.is_stalled {
            let mut stall = self.stall.with(&mut self.context, &mut self.requests);
            stall.ask_for_mark(now);
        } else if self.requests.may_be_taken() {
            let (room, keeps_payloads) = (self.engine.room(), self.payloads.min().is_some());
            let mut requests = self.requests.with(&mut self.context);
            let commands = requests.take(now, room, keeps_payloads);
            if !commands.is_empty() {
                self.step(now, Input::Submit(commands));
            }
        }
    }

    /// The flush that ends at `through` was performed.
    pub fn flushed(&mut self, now: Now, through: Position) {
        let storage = &mut self.context.storage;
        let log = storage.log.as_mut();
        let log = log.expect("only a replica with a log flushes");
        let promised_before = log.promised();
        log.flushed(through, storage.fragments.as_mut());
        if let Some((durable, spent_ns)) = self.outbox.flushed(log, now.mono_ns) {
            let spent = HostEvent::Spent(Place::Log, spent_ns);
            self.context.effects.events.push(spent);
            self.step(now, Input::Durable(durable));
        }
        self.context.progress_flushed(now, promised_before);
        self.transition_flushed(now);
        self.payloads.settling_flushed();
    }

    /// Whether nothing has left since the start: what is applied may be gone after a power failure, and
    /// nobody has seen it.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.outbox.is_silent()
    }

    /// Frames that may leave now.
    pub fn take_frames(&mut self) -> Vec<Frame> {
        self.outbox
            .take_frames(&mut self.context, &mut self.payloads)
    }

    /// Answers since the last call.
    pub fn take_answers(&mut self) -> Vec<(Token, Answer<A::Answer>)> {
        if self.outbox.is_silent() {
            return Vec::new();
        }
        let mut answers = std::mem::take(&mut self.context.effects.answers);
        answers.retain(|(token, _)| *token != NOBODY);
        answers
    }

    /// Reads of the log to perform.
    pub fn take_reads(&mut self) -> Vec<LogRead> {
        std::mem::take(&mut self.context.effects.reads)
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<HostEvent> {
        std::mem::take(&mut self.context.effects.events)
    }

    /// What is to be written now; `None` while a flush is under way or there is nothing, or only
    /// what may wait.
    pub fn take_flush(&mut self, now: Now) -> Option<Flush> {
        let Storage { log, fragments, .. } = &mut self.context.storage;
        let log = log.as_mut()?;
        let Some(flush) = log.take_flush(fragments.as_mut()) else {
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

    /// Has the next flush take everything there is: before an orderly end.
    pub fn write_all(&mut self) {
        self.context.storage.write_all();
    }

    /// The countdowns the application wants started or stopped since the last call.
    pub fn take_countdowns(&mut self) -> Vec<Countdown> {
        // Nothing that starts or stops one is executed ahead of its decision.
        self.context.applier.app_mut().take_countdowns()
    }

    /// Takes a piece of the snapshot under way, and lets the application do a small piece of work
    /// it has put off; says whether there is more. To be called at least once a turn, or a
    /// snapshot does not end under load.
    pub fn tidy(&mut self) -> bool {
        let more = self.transfer.snapshots(&mut self.context).cut_piece();
        let is_serving = self.engine.is_serving();
        let more = self.payloads.with(&mut self.context).tidy(is_serving) || more;
        self.context.applier.app_mut().tidy() || more
    }

    /// Segments of the store of fragments that may be deleted or recycled, in any order.
    pub fn take_bulk_release(&mut self) -> Vec<u64> {
        let fragments = self.context.storage.fragments.as_mut();
        fragments.map_or_else(Vec::new, FragmentStore::take_release)
    }

    /// A step in writing long fragments: to be written and synced apart from the log, then reported
    /// ([`Host::bulk_stored`]). `None` while one is under way, or nothing is to be done.
    pub fn take_bulk_step(&mut self) -> Option<Write> {
        self.context.storage.fragments.as_mut()?.take_step()
    }

    /// The step that was taken last is on stable storage.
    pub fn bulk_stored(&mut self, now: Now) {
        let fragments = self.context.storage.fragments.as_mut();
        fragments.expect("a step was taken of it").stepped();
        loop {
            let mut payloads = self.payloads.with(&mut self.context);
            let Some((from, message)) = payloads.take_stored() else {
                return;
            };
            self.step(now, Input::Message { from, message });
        }
    }

    /// Payloads of which the driver is to make fragments, in any order.
    pub fn take_coding(&mut self) -> Vec<Coding> {
        self.payloads.take_coding()
    }

    /// Fragments that were asked for are made: what waits for them leaves.
    pub fn coding_done(&mut self, fragments: Fragments) {
        self.payloads.with(&mut self.context).coding_done(fragments);
    }

    /// What to do to snapshot files, in order.
    pub fn take_snapshot_writes(&mut self) -> Vec<SnapshotWrite> {
        self.transfer.snapshots.take_writes()
    }

    /// So many bytes of [`SnapshotWrite::Piece`]s were written (not synced), or will never be.
    pub fn snapshot_written(&mut self, bytes: u64) {
        self.transfer.snapshots.written(bytes);
    }

    /// The snapshot of this slot is durable under its name; or writing it failed, at whatever
    /// place. After a failure the driver ignores writes up to the next [`SnapshotWrite::Begin`].
    pub fn snapshot_stored(&mut self, now: Now, slot: Slot, result: Result<(), String>) {
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

    /// Reads of stored snapshots to perform.
    pub fn take_snapshot_reads(&mut self) -> Vec<SnapshotRead> {
        self.transfer.snapshots.take_reads()
    }

    /// A read of a stored snapshot is done. Fewer bytes than asked for are an error.
    pub fn snapshot_read_done(&mut self, _now: Now, token: u64, bytes: Result<Bytes, String>) {
        let mut snapshots = self.transfer.snapshots(&mut self.context);
        snapshots.read_done(token, bytes);
    }

    /// What may be deleted. To be asked for after every flush; each supersedes those before.
    pub fn take_release(&mut self) -> Option<Release> {
        self.transfer.snapshots(&mut self.context).take_release()
    }

    /// The log cannot be written, and too much waits for it: from now on this replica reads and learns, and promises
    /// nothing.
    pub fn stall(&mut self) {
        self.stall
            .with(&mut self.context, &mut self.requests)
            .begin();
    }

    /// Has a member know that this replica is stalled: its own machine cannot order that the group is told.
    pub fn tell_stalled(&mut self) {
        let mut stall = self.stall.with(&mut self.context, &mut self.requests);
        stall.ask_next_member();
    }

    /// The log can be written again.
    pub fn resume(&mut self, now: Now) {
        let mut stall = self.stall.with(&mut self.context, &mut self.requests);
        let Some(Resumed { inputs, timers }) = stall.end() else {
            return;
        };
        for input in inputs {
            self.step(now, input);
        }
        for timer in timers {
            self.context.timers.arm(Timer::Machine(timer), now.mono_ns);
        }
        self.transfer.read_repair(&mut self.context).ask_next(now);
    }

    /// Asks all members for their digests of what is applied here. What that comes to is an event.
    pub fn compare_states(&mut self) {
        self.transfer.divergence(&mut self.context).compare_states();
    }
}
