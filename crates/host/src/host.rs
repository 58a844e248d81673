//! The host: one machine, one application, and everything between them and the world.
//!
//! [`Host`] only routes. Its parts own their state and get the [`Context`] that they share; what follows for another
//! part comes back as a value.

mod doubt;
mod effects;
mod inputs;
mod look;
mod outputs;
mod reconfigure;

use crate::api::{Directive, HostConfig, HostEvent, Place, Request, Start, Token};
use crate::apply::first_state;
use crate::context::{Context, Membership};
use crate::engine::Engine;
use crate::epochs::Record;
use crate::flaw::Flaw;
use crate::fragments::FragmentStore;
use crate::frame::Body;
use crate::log::LogSource;
use crate::open::{self, Parts};
use crate::open_error::OpenError;
use crate::opened::Opened;
use crate::outbox::Outbox;
use crate::payloads::Payloads;
use crate::pending::Pending;
use crate::position::Position;
use crate::repair::Repair;
use crate::requests::{Requests, Withdrawn};
use crate::snapshot::Snapshots;
use crate::stall::{Resumed, Stall};
use crate::storage::Storage;
use crate::timers::{Timer, Timers};
use crate::transfer::Transfer;
use crate::version::{PeerVersions, WireVersion};
use bytes::Bytes;
pub use effects::{Completed, Effects};
pub use look::{Look, Queue};
use quorate_core::{
    Application, Input, Machine, Member, Now, Past, Peers, Refusal, ReplicaId, RequestId,
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
                effects: Pending::new(),
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
            Past::Lost { .. } => self.transition.distrust(self.context.storage.log.as_mut()),
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

    /// Something is done that the driver was asked to do.
    pub fn completed(&mut self, now: Now, completed: Completed) {
        match completed {
            Completed::Flush(through) => self.flushed(now, through),
            Completed::Read { token, bytes } => self.read_done(now, token, bytes),
            Completed::FragmentStep => self.fragments_stored(now),
            Completed::Coding(fragments) => {
                let mut payloads = self.payloads.with(&mut self.context);
                payloads.coding_done(fragments);
            }
            Completed::SnapshotPiece(bytes) => self.transfer.snapshots.written(bytes),
            Completed::Snapshot { slot, result } => self.snapshot_stored(now, slot, result),
            Completed::SnapshotRead { token, bytes } => {
                let mut snapshots = self.transfer.snapshots(&mut self.context);
                snapshots.read_done(token, bytes);
            }
        }
    }

    /// Has the replica do something that no client and no peer asked for.
    pub fn direct(&mut self, now: Now, directive: Directive) {
        match directive {
            Directive::HoldBack(holds_back) => self.requests.hold_back(holds_back),
            Directive::OrderDue(body) => {
                let waiting = self.waiting();
                let mut requests = self.requests.with(&mut self.context);
                requests.order_due(now, body, waiting);
            }
            Directive::WriteAll => self.context.storage.write_all(),
            Directive::Stall => {
                let mut stall = self.stall.with(&mut self.context, &mut self.requests);
                stall.begin();
            }
            Directive::TellStalled => {
                let mut stall = self.stall.with(&mut self.context, &mut self.requests);
                stall.ask_next_member();
            }
            Directive::Resume => self.resume(now),
            Directive::CompareStates => {
                self.transfer.divergence(&mut self.context).compare_states();
            }
            Directive::AskAround => self.context.ask_around(),
            Directive::AskProgress(peer) => self.context.ask_progress(peer),
            Directive::Volunteer => {
                let behind = self.transfer.catch_up.ahead_by(self.context.applied());
                self.transition.volunteer(&mut self.context, behind);
            }
        }
    }

    /// What can be seen of the replica.
    #[must_use]
    pub fn look(&self) -> Look<'_, M, A> {
        Look::at(self)
    }

    /// Requests that wait for an answer.
    fn waiting(&self) -> usize {
        self.requests.count() + self.payloads.readers()
    }

    /// A read of the log or of the fragments is done.
    fn read_done(&mut self, now: Now, token: u64, bytes: Result<Bytes, String>) {
        if FragmentStore::owns(token) {
            let mut payloads = self.payloads.with(&mut self.context);
            return payloads.fragment_read_done(token, bytes);
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
        let is_serving = self.engine.is_serving();
        self.transition
            .settle_doubt(now, is_serving, &mut self.context, &mut self.requests);
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

    fn fire(&mut self, now: Now, timer: Timer<M::Timer>) {
        match timer {
            Timer::Machine(timer) if self.context.storage.is_stalled => {
                self.stall.keep_timer(timer);
            }
            Timer::Machine(timer) => self.step(now, Input::Timer(timer)),
            Timer::Epochs => self.pass(now, crate::epochs::Input::Timer),
            timer => self.fire_own(now, timer),
        }
    }

    /// A timer of a part of the host is due.
    fn fire_own(&mut self, now: Now, timer: Timer<M::Timer>) {
        match timer {
            Timer::Mark => {
                let mut stall = self.stall.with(&mut self.context, &mut self.requests);
                stall.ask_for_mark_again(now);
            }
            Timer::Lag => self.transfer.catch_up(&mut self.context).look_for_lag(now),
            Timer::FetchTimeout => self
                .transfer
                .catch_up(&mut self.context)
                .fetch_timed_out(now),
            Timer::WriteBehind => self.context.storage.write_all(),
            Timer::ReadRepair => {
                let mut read_repair = self.transfer.read_repair(&mut self.context);
                read_repair.ask_next(now);
            }
            Timer::Claim => self.context.claim_again(),
            Timer::Note => self.context.note_progress(now),
            Timer::Ask => self.context.ask_again(now),
            Timer::Digests => {
                let mut divergence = self.transfer.divergence(&mut self.context);
                divergence.ask_digests(now);
            }
            Timer::Pull => self.transfer.snapshots(&mut self.context).pull_further(now),
            Timer::Forget => self
                .transfer
                .snapshots(&mut self.context)
                .forget_snapshot(now),
            Timer::Gather => self.payloads.with(&mut self.context).gather_further(now),
            Timer::Settle => {
                let order = self.payloads.with(&mut self.context).settle_further(now);
                if let Some(order) = order {
                    self.requests.with(&mut self.context).propose(now, &order);
                }
            }
            Timer::Beat => {
                self.context.post(Peers::All, &Body::Beat);
                self.context.timers.next_beat(now);
            }
            Timer::Machine(_) | Timer::Epochs => debug_assert!(false, "they are not the host's"),
        }
    }

    /// The flush that ends at `through` was performed.
    fn flushed(&mut self, now: Now, through: Position) {
        let storage = &mut self.context.storage;
        let log = storage.log.as_mut();
        let log = log.expect("only a replica with a log flushes");
        let promised_before = log.promised();
        if let Some(fragments) = &mut storage.fragments {
            fragments.flushed();
        }
        log.flushed(through);
        if let Some((durable, spent_ns)) = self.outbox.flushed(log, now.mono_ns) {
            let spent = HostEvent::Spent(Place::Log, spent_ns);
            self.context.effects.events.push(spent);
            self.step(now, Input::Durable(durable));
        }
        self.context.progress_flushed(now, promised_before);
        self.transition_flushed(now);
        self.payloads.settling_flushed();
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

    /// The step in writing long fragments that was taken last is on stable storage.
    fn fragments_stored(&mut self, now: Now) {
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

    /// The log can be written again.
    fn resume(&mut self, now: Now) {
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

    /// Gives the machine one input and performs what follows.
    fn step(&mut self, now: Now, input: Input<M>) {
        self.step_machine(now, input);
        self.run_to_fixpoint(now);
    }

    fn step_machine(&mut self, now: Now, input: Input<M>) {
        if self.context.storage.is_stalled {
            self.stall.keep(input);
        } else {
            self.engine.step(now, input);
        }
    }

    /// Starts the machine, and tells it what it would have heard before.
    fn start_machine(&mut self, config: &M::Config, past: Past<M>, now: Now) {
        self.context.membership.preferred = None;
        self.engine.start(config, past, now);
        let is_serving = self.engine.is_serving();
        self.payloads.with(&mut self.context).retain(is_serving);
        self.run_to_fixpoint(now);
    }

    /// Performs what the machine has put out, and gives it what follows from that, until nothing does.
    fn run_to_fixpoint(&mut self, now: Now) {
        loop {
            self.perform(now);
            let Some(input) = self.next_input() else {
                return;
            };
            self.step_machine(now, input);
        }
    }

    /// What follows for the machine from what it has put out.
    fn next_input(&mut self) -> Option<Input<M>> {
        let persisted = self.engine.persisted();
        let has_log = self.context.storage.log.is_some();
        // Without a log, what is persisted is as durable as it will ever be.
        if !has_log && self.outbox.persisted_without_log(persisted) {
            return Some(Input::Durable(persisted));
        }
        let is_stalled = self.context.storage.is_stalled;
        self.engine.machine().filter(|_| !is_stalled)?;
        if let Some(member) = self.context.membership.preferred.take() {
            return Some(Input::Prefer(member));
        }
        let (slot, entry, results) = self.context.applier.execute_ahead()?;
        Some(Input::Applied {
            slot,
            entry,
            results,
        })
    }
}
