//! The host: one machine, one application, and everything between them and the world.

use crate::api::{
    Answer, Counters, Flush, Frame, HostConfig, HostEvent, Limits, LogRead, Place, Request, Token,
};
use crate::apply::{Applied, Applier};
use crate::catch_up::CatchUp;
use crate::decided::{DecidedLog, Located, Lookup};
use crate::frame::{self, Body, Header};
use crate::log::{LogWriter, Position};
use crate::pins::Pins;
use crate::requests::{OwnSession, Requests, Waiting};
use crate::snapshot::{Kept, Snapshots};
use crate::timers::{Timer, Timers};
use bytes::Bytes;
use quorate_core::{
    Application, Base, Command, Countdown, Decoder, Due, Entry, EntryId, Input, Lsn, Machine, Now,
    Out, Output, Peers, Refusal, ReplicaId, Seat, Slot, Wire,
};
use std::collections::VecDeque;

/// A message that waits for records to become durable.
#[derive(Debug)]
struct Outgoing<M: Machine> {
    to: Peers,
    message: M::Message,
    after: Lsn,
}

/// What opening a host rebuilds.
pub(crate) struct Parts<M: Machine, A: Application> {
    pub(crate) machine: M,
    /// What the machine wanted done when it recovered.
    pub(crate) out: Out<M>,
    pub(crate) base: M::Base,
    pub(crate) applier: Applier<A>,
    pub(crate) decided: DecidedLog,
    pub(crate) pins: Pins<M::Record>,
    pub(crate) log: Option<LogWriter>,
    /// Snapshots on the disk, ascending.
    pub(crate) kept: VecDeque<Kept>,
}

/// A replica of one group, without I/O.
pub struct Host<M: Machine, A: Application> {
    pub(crate) seat: Seat,
    pub(crate) limits: Limits,
    pub(crate) machine: M,
    pub(crate) base: M::Base,
    out: Out<M>,
    spare: Vec<Output<M>>,
    pub(crate) applier: Applier<A>,
    pub(crate) decided: DecidedLog,
    pub(crate) pins: Pins<M::Record>,
    pub(crate) snapshots: Snapshots<M, A>,
    /// `None` for a diskless replica.
    pub(crate) log: Option<LogWriter>,
    /// The last machine record in the log's buffer, in the flush under way, and on the disk.
    appended: Lsn,
    flushing: Lsn,
    durable: Lsn,
    flush_began_ns: u64,
    /// Nothing leaves before the first flush: what was recovered, and counted as durable, may
    /// until then be no more than what a killed process left in the page cache.
    silent: bool,
    gated: VecDeque<Outgoing<M>>,
    early: Vec<(Peers, M::Message)>,
    timers: Timers<M::Timer>,
    pub(crate) requests: Requests<A::Query>,
    pub(crate) catch_up: CatchUp,
    dice: u64,
    beats: u32,
    frames: Vec<Frame>,
    pub(crate) answers: Vec<(Token, Answer<A::Answer>)>,
    reads: Vec<LogRead>,
    pub(crate) events: Vec<HostEvent>,
    counters: Counters,
}

/// How long after the last news peers are told how far this replica is, the first time; each
/// further time takes four times as long.
const BEAT_NS: u64 = 200_000_000;
/// How often, before a quiet replica falls silent.
const BEATS: u32 = 3;

impl<M: Machine, A: Application> Host<M, A> {
    /// The parts in their places.
    pub(crate) fn assemble(config: &HostConfig<M::Config>, parts: Parts<M, A>, now: Now) -> Self {
        let seat = config.seat.clone();
        let Parts {
            machine,
            out,
            base,
            applier,
            decided,
            pins,
            log,
            kept,
        } = parts;
        let mut host = Host {
            requests: Requests::new(seat.me, seat.boot),
            catch_up: CatchUp::new(&seat),
            limits: config.limits,
            seat,
            machine,
            base,
            out,
            spare: Vec::new(),
            applier,
            decided,
            pins,
            snapshots: Snapshots::new(config.cluster, kept),
            silent: log.is_some(),
            log,
            appended: Lsn(0),
            flushing: Lsn(0),
            durable: Lsn(0),
            flush_began_ns: 0,
            gated: VecDeque::new(),
            early: Vec::new(),
            timers: Timers::new(),
            dice: config.dice,
            beats: 0,
            frames: Vec::new(),
            answers: Vec::new(),
            reads: Vec::new(),
            events: Vec::new(),
            counters: Counters::default(),
        };
        host.settle(now);
        host
    }

    /// Takes a request; it is ordered at the next turn. A refusal comes as an answer.
    pub fn submit(&mut self, now: Now, token: Token, request: Request<A::Query>) {
        if let Request::Peek(query) = &request {
            let answer = Answer::Read(self.applier.next(), self.applier.app().query(query));
            return self.answers.push((token, answer));
        }
        if let Some(refusal) = self.refusal(&request) {
            return self.answers.push((token, Answer::Refused(refusal)));
        }
        let waiting = Waiting {
            token,
            submitted_ns: now.mono_ns,
            ordered_ns: 0,
        };
        match request {
            Request::Write { body, principal } => self.requests.write(waiting, body, principal),
            Request::Read(query) => self.requests.read(waiting, query),
            Request::Command(command) => match self.applier.result(command.id) {
                // Executed here before: no need to order it again.
                Some((slot, result)) => self.answers.push((token, Answer::Applied(slot, result))),
                None => self.requests.command(waiting, command),
            },
            Request::Peek(_) => unreachable!("answered above"),
        }
    }

    /// Takes a frame from a peer. What cannot be used is dropped and reported.
    pub fn frame(&mut self, now: Now, from: ReplicaId, frame: Bytes) {
        if let Err(why) = self.take_frame(now, from, frame) {
            self.events.push(HostEvent::BadFrame { peer: from, why });
        }
    }

    /// The connection to a peer came up or went down.
    pub fn link(&mut self, now: Now, peer: ReplicaId, up: bool) {
        self.step(now, Input::Link { peer, up });
        if up {
            self.post(Peers::One(peer), &Body::Beat);
        }
    }

    /// A read of the log is done.
    pub fn read_done(&mut self, _now: Now, token: u64, bytes: Result<Bytes, String>) {
        if let Some((peer, body)) = self.catch_up.read_done::<M>(token, bytes, &mut self.events) {
            self.post(Peers::One(peer), &body);
        }
    }

    /// Ends a turn: fires the timers that are due and gives the machine what waits.
    pub fn turn(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono_ns) {
            self.fire(now, timer);
        }
        if self.requests.has_queued() {
            let commands = self.requests.take(self.machine.room(), now.mono_ns);
            if !commands.is_empty() {
                if self.limits.follow {
                    self.report_ordered(&commands);
                }
                self.step(now, Input::Submit(commands));
            }
        }
    }

    /// The flush that ends at `through` was performed.
    pub fn flushed(&mut self, now: Now, through: Position) {
        let log = self
            .log
            .as_mut()
            .expect("only a replica with a log flushes");
        log.flushed(through);
        self.silent = false;
        if self.flushing > self.durable {
            self.durable = self.flushing;
            let spent = now.mono_ns.saturating_sub(self.flush_began_ns);
            self.events.push(HostEvent::Spent(Place::Log, spent));
            self.step(now, Input::Durable(self.durable));
        }
    }

    /// Frames that may leave now.
    pub fn take_frames(&mut self) -> Vec<Frame> {
        if self.silent {
            return Vec::new();
        }
        self.release_gated();
        self.pack_messages();
        self.counters.frames += self.frames.len() as u64;
        std::mem::take(&mut self.frames)
    }

    /// Answers since the last call.
    pub fn take_answers(&mut self) -> Vec<(Token, Answer<A::Answer>)> {
        if self.silent {
            Vec::new()
        } else {
            std::mem::take(&mut self.answers)
        }
    }

    /// Reads of the log to perform.
    pub fn take_reads(&mut self) -> Vec<LogRead> {
        std::mem::take(&mut self.reads)
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<HostEvent> {
        std::mem::take(&mut self.events)
    }

    /// What is to be written now; `None` while a flush is under way or there is nothing.
    pub fn take_flush(&mut self, now: Now) -> Option<Flush> {
        let flush = self.log.as_mut()?.take_flush()?;
        self.flushing = if flush.sync {
            self.appended
        } else {
            self.flushing
        };
        self.flush_began_ns = now.mono_ns;
        Some(flush)
    }

    /// The countdowns the application wants started or stopped since the last call.
    pub fn take_countdowns(&mut self) -> Vec<Countdown> {
        self.applier.app_mut().take_countdowns()
    }

    /// Takes a piece of the snapshot under way, and lets the application do a small piece of work
    /// it has put off; says whether there is more. To be called at least once a turn, or a
    /// snapshot does not end under load.
    pub fn tidy(&mut self) -> bool {
        let more = self.cut_piece();
        self.applier.app_mut().tidy() || more
    }

    /// When the next timer is due, on the monotonic clock in ns.
    #[must_use]
    pub fn next_wake(&self) -> Option<u64> {
        self.timers.next()
    }

    /// The first slot not applied.
    #[must_use]
    pub fn applied(&self) -> Slot {
        self.applier.next()
    }

    /// The application.
    #[must_use]
    pub fn app(&self) -> &A {
        self.applier.app()
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Requests that wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.requests.count()
    }

    /// Totals since the host was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let log = self.log.as_ref();
        let (snapshots, installed) = self.snapshots.totals();
        Counters {
            noops: self.applier.noops_total,
            commands: self.applier.commands_total,
            duplicates: self.applier.duplicates_total,
            syncs: log.map_or(0, LogWriter::syncs_total),
            log_bytes: log.map_or(0, LogWriter::bytes_total),
            snapshots,
            installed,
            ..self.counters
        }
    }

    /// What an applied slot was decided for, while that is in memory: `Some(None)` is a no-op.
    #[must_use]
    pub fn decided(&self, slot: Slot) -> Option<Option<EntryId>> {
        match self.decided.lookup(slot) {
            Lookup::Ready(entry) => Some(entry.map(|entry| entry.id)),
            Lookup::OnDisk(_) | Lookup::Absent => None,
        }
    }

    /// The first slot not applied, and a digest chained over everything applied before it and its
    /// results: equal on replicas that applied the same slots.
    #[must_use]
    pub fn digest(&self) -> (Slot, u64) {
        (self.applier.next(), self.applier.digest())
    }

    fn refusal(&self, request: &Request<A::Query>) -> Option<Refusal> {
        let body = match request {
            Request::Write { body, .. } => body.len(),
            Request::Command(command) => command.body.len(),
            Request::Read(_) | Request::Peek(_) => 0,
        };
        if body > self.limits.command_bytes_max {
            return Some(Refusal::TooLarge);
        }
        (self.requests.count() >= self.limits.requests_max).then_some(Refusal::Overloaded)
    }

    /// Gives the machine one input and performs what follows.
    fn step(&mut self, now: Now, input: Input<M>) {
        self.machine.step(now, input, &mut self.out);
        self.settle(now);
    }

    /// Performs the machine's outputs.
    fn settle(&mut self, now: Now) {
        self.perform(now);
        // Without a log, what is persisted is as durable as it will ever be.
        while self.log.is_none() && self.durable < self.out.persisted() {
            self.durable = self.out.persisted();
            self.machine
                .step(now, Input::Durable(self.durable), &mut self.out);
            self.perform(now);
        }
    }

    fn perform(&mut self, now: Now) {
        let mut outputs = std::mem::take(&mut self.spare);
        self.out.swap(&mut outputs);
        for output in outputs.drain(..) {
            self.perform_one(now, output);
        }
        self.spare = outputs;
    }

    fn perform_one(&mut self, now: Now, output: Output<M>) {
        match output {
            Output::Send {
                to,
                message,
                after: Lsn(0),
            } => self.early.push((to, message)),
            Output::Send { to, message, after } => {
                self.gated.push_back(Outgoing { to, message, after });
            }
            Output::Persist { lsn, record } => {
                self.append_record(record, true);
                self.appended = lsn;
            }
            Output::Note(record) => self.append_record(record, false),
            Output::Arm { timer, due } => {
                let at_ns = now.mono_ns.saturating_add(self.draw(&due));
                self.timers.arm(Timer::Machine(timer), at_ns);
            }
            Output::Disarm(timer) => self.timers.disarm(Timer::Machine(timer)),
            Output::CatchUp { from, through } => {
                self.catch_up.saw(from, through.next());
                self.fetch_from(now, from);
            }
            Output::Inform { peer, from } => self.serve(now, peer, from, true),
            Output::Deliver { slot, entry } => self.deliver(now, slot, entry),
            Output::Reply { id, outcome } => self.reply(now, id, outcome),
            Output::Emit(event) => self.events.push(HostEvent::Machine(event)),
        }
    }

    fn reply(&mut self, now: Now, id: quorate_core::RequestId, outcome: quorate_core::Outcome) {
        match outcome {
            quorate_core::Outcome::ReadAt(slot) => {
                self.requests.locate(id, slot);
                self.answer_reads(now);
            }
            quorate_core::Outcome::Refused(refusal) if self.requests.is_opening(id) => {
                self.requests.set_session(OwnSession::Closed);
                if refusal == Refusal::NotServing {
                    let held = self.requests.take_held();
                    let refused = held.iter().map(|w| (w.token, Answer::Refused(refusal)));
                    self.answers.extend(refused);
                }
            }
            quorate_core::Outcome::Refused(refusal) => {
                let read = self.requests.take_read(id).map(|read| read.waiting);
                if let Some(waiting) = read.or_else(|| self.requests.take_write(id)) {
                    self.answers.push((waiting.token, Answer::Refused(refusal)));
                }
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
        self.base.advance(slot, entry.as_ref());
        self.pins.decided(slot, entry_id);
        self.decided.push(slot, entry, located);
        self.cut_if_due(bytes_before);
        self.counters.slots += 1;
        self.answer_reads(now);
        self.arm_beat(now, 0);
    }

    fn report_ordered(&mut self, commands: &[Command]) {
        for command in commands {
            let id = command.id;
            if let Some(token) = self.requests.token_of(id) {
                self.events.push(HostEvent::Ordered { token, id });
            }
        }
    }

    pub(crate) fn answer_reads(&mut self, now: Now) {
        let next = self.applier.next();
        for read in self.requests.take_located(next) {
            spent(&mut self.events, now, read.waiting);
            let answer = Answer::Read(next, self.applier.app().query(&read.query));
            self.answers.push((read.waiting.token, answer));
        }
    }

    fn take_frame(&mut self, now: Now, from: ReplicaId, frame: Bytes) -> Result<(), String> {
        if from == self.seat.me || self.seat.epoch.index_of(from).is_none() {
            return Err(format!("replica {from} is not a peer in this epoch"));
        }
        let (header, body) = frame::decode(frame).map_err(|e| e.to_string())?;
        if header.group != self.seat.group || header.epoch != self.seat.epoch.number {
            return Err(format!(
                "it is for group {} epoch {}, this replica is in group {} epoch {}",
                header.group, header.epoch, self.seat.group, self.seat.epoch.number
            ));
        }
        self.compare_digests(from, header.checkpoint);
        self.catch_up.saw(from, header.applied);
        match body {
            Body::Messages(messages) => self.take_messages(now, from, messages)?,
            Body::Beat => {}
            Body::Fetch { from: slot } => self.serve(now, from, slot, false),
            Body::Decided {
                from: slot,
                entries,
            } => self.learn(now, from, slot, entries),
            Body::Offer(snapshot) => self.offered(now, from, snapshot),
            Body::Taken(snapshot) => self.peer_took(from, snapshot),
            Body::WantPiece {
                slot,
                digest,
                offset,
            } => self.serve_piece(now, from, (slot, digest), offset),
            Body::Piece {
                slot,
                offset,
                bytes,
            } => self.piece_came(now, from, slot, offset, bytes),
        }
        self.watch_lag(now);
        Ok(())
    }

    fn take_messages(&mut self, now: Now, from: ReplicaId, bytes: Bytes) -> Result<(), String> {
        let mut input = Decoder::new(bytes);
        while input.remaining() > 0 {
            let message = M::Message::decode(&mut input).map_err(|e| e.to_string())?;
            self.step(now, Input::Message { from, message });
        }
        Ok(())
    }

    fn compare_digests(&mut self, peer: ReplicaId, (slot, theirs): (Slot, u64)) {
        if let Some(mine) = self.applier.digest_at(slot)
            && mine != theirs
        {
            self.events.push(HostEvent::Diverged {
                peer,
                slot,
                mine,
                theirs,
            });
        }
    }

    fn fire(&mut self, now: Now, timer: Timer<M::Timer>) {
        match timer {
            Timer::Machine(timer) => self.step(now, Input::Timer(timer)),
            Timer::Lag => self.look_for_lag(now),
            Timer::FetchTimeout => self.fetch_timed_out(now),
            Timer::Pull => self.pull_further(now),
            Timer::Forget => self.forget_snapshot(now),
            Timer::Beat => {
                self.post(Peers::All, &Body::Beat);
                self.arm_beat(now, self.beats + 1);
            }
        }
    }

    /// After news, peers are told how far this replica is a few times, ever more rarely; then it is
    /// silent. A peer whose last messages were lost learns that it misses something.
    pub(crate) fn arm_beat(&mut self, now: Now, beats: u32) {
        self.beats = beats;
        if beats < BEATS {
            self.timers
                .arm(Timer::Beat, now.mono_ns + (BEAT_NS << (2 * beats)));
        }
    }

    pub(crate) fn arm(&mut self, timer: Timer<M::Timer>, at_ns: u64) {
        self.timers.arm(timer, at_ns);
    }

    pub(crate) fn disarm(&mut self, timer: Timer<M::Timer>) {
        self.timers.disarm(timer);
    }

    pub(crate) fn is_armed(&self, timer: Timer<M::Timer>) -> bool {
        self.timers.is_armed(timer)
    }

    pub(crate) fn want_read(&mut self, read: LogRead) {
        self.reads.push(read);
    }

    pub(crate) fn count_caught_up(&mut self, slots: u64) {
        self.counters.caught_up += slots;
    }

    /// The host caught up: the machine goes on from here.
    pub(crate) fn installed(&mut self, now: Now) {
        let (next, base) = (self.applier.next(), self.base.clone());
        self.step(now, Input::Installed { next, base });
    }

    /// Sends a frame that waits for nothing.
    pub(crate) fn post(&mut self, to: Peers, body: &Body) {
        let chunks = frame::encode(&self.header(), body);
        self.frames.push(Frame { to, chunks });
    }

    fn header(&self) -> Header {
        Header {
            group: self.seat.group,
            epoch: self.seat.epoch.number,
            applied: self.applier.next(),
            checkpoint: self.applier.checkpoint(),
        }
    }

    fn release_gated(&mut self) {
        while self
            .gated
            .front()
            .is_some_and(|message| message.after <= self.durable)
        {
            let released = self.gated.pop_front().expect("there is a front");
            self.early.push((released.to, released.message));
        }
    }

    /// Consecutive messages to the same peers share a frame; a broadcast is encoded once.
    fn pack_messages(&mut self) {
        let mut messages = std::mem::take(&mut self.early);
        let mut packing: Option<(Peers, quorate_core::Encoder)> = None;
        for (to, message) in messages.drain(..) {
            if packing.as_ref().is_some_and(|(peers, _)| *peers != to) {
                self.finish_packing(packing.take());
            }
            let (_, out) =
                packing.get_or_insert_with(|| (to, frame::begin_messages(&self.header())));
            message.encode(out);
        }
        self.finish_packing(packing);
        self.early = messages;
    }

    fn finish_packing(&mut self, packing: Option<(Peers, quorate_core::Encoder)>) {
        if let Some((to, mut out)) = packing {
            self.frames.push(Frame {
                to,
                chunks: out.take_chunks(),
            });
        }
    }

    fn draw(&mut self, due: &Due) -> u64 {
        match due {
            Due::After(ns) => *ns,
            Due::Within(range) => {
                // SplitMix64: the driver gave the seed, so that a run repeats from its seed.
                self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.dice;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                range.start() + (z ^ (z >> 31)) % (range.end() - range.start() + 1)
            }
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
