//! A remote gateway, without I/O: requests of its clients, a machine that has the members order them, and what
//! connections carry. It has no application and no log; all it knows is gone when its process ends.
//!
//! # At most once
//!
//! It draws a number and a boot when it starts, and has a session of that boot, under which everything it orders
//! is executed at most once, however often it is sent, in whichever epoch. A later start is another gateway with
//! another session: it never asks again for what a former one may have ordered. Whoever had no answer from that
//! one does not know what came of it, as with any server that dies; a client with a session of its own asks again
//! under its own name ([`Request::Command`]), here or elsewhere.
//!
//! What it acknowledges to its session is decided: an answer that is only committed may yet be preceded by what
//! commutes with it ([`Outcome::Decided`]).

use crate::api::{Answer, Frame, HostEvent, Limits, Place, Request, Token};
use crate::frame::{self, Body, Header, PACKING_BYTES};
use crate::gateway_results::GatewayResult;
use crate::requests::{OwnSession, Requests, Waiting, Withdrawn};
use crate::timers::draw;
use crate::version::{PeerVersions, SupportedVersions, WireVersion};
use bytes::Bytes;
use quorate_core::{
    Boot, Decoder, Encoder, EntryId, Epoch, Group, Input, Join, Machine, Now, Out, Outcome, Output,
    Past, Peers, Refusal, ReplicaId, RequestId, SECONDS, Slot, Written,
};
use std::collections::BTreeMap;

/// How often members are told that a gateway is there which has nothing to say to them, so that they tell it of
/// a later epoch, in ns.
const BEAT_NS: u64 = SECONDS;

/// What a gateway is started with.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The log it orders for.
    pub group: Group,
    /// Its number, among those of gateways.
    pub me: ReplicaId,
    /// This start of it.
    pub boot: Boot,
    /// The newest epoch it was told of.
    pub epoch: Epoch,
    /// The versions it speaks.
    pub supported: SupportedVersions,
    /// Those that concern it: how long commands and how many requests may be.
    pub limits: Limits,
    /// Puts payloads inside of commands: members take what a gateway orders as it is.
    pub join: Join,
    /// Seed of the jitter drawn for timers; from the driver.
    pub jitter_seed: u64,
}

/// What a gateway wants done by whoever drives it, all of it at each turn.
#[derive(Debug)]
pub struct GatewayEffects {
    /// Frames to send to members.
    pub frames: Vec<Frame>,
    /// Answers to requests, by their tokens.
    pub answers: Vec<(Token, Answer<()>)>,
    /// Events for metrics and logs.
    pub events: Vec<HostEvent>,
}

/// A gateway of one group, without I/O.
#[derive(Debug)]
pub struct Gateway<M: Machine> {
    config: GatewayConfig,
    /// `None` where the epoch's protocol has no remote gateways.
    machine: Option<M>,
    out: Out<M>,
    timers: BTreeMap<M::Timer, u64>,
    /// It reads nothing.
    requests: Requests<()>,
    /// The machine gets nothing for now: too few members can be reached.
    holds_back: bool,
    peer_versions: PeerVersions,
    messages: Vec<(Peers, M::Message)>,
    /// Encodes them.
    packer: Encoder,
    answers: Vec<(Token, Answer<()>)>,
    events: Vec<HostEvent>,
    /// The newest epoch that a member spoke of.
    heard_of: u64,
    /// When the next beat is due, while there is no machine, and whether it is to leave.
    beat_due_ns: u64,
    has_beat: bool,
}

impl<M: Machine> Gateway<M> {
    /// Starts. `machine` is the protocol's configuration in the epoch, if it has remote gateways.
    #[must_use]
    pub fn new(config: GatewayConfig, machine: Option<&M::Config>, now: Now) -> Self {
        assert!(config.me.is_gateway(), "{} is a replica's", config.me);
        let mut gateway = Gateway {
            machine: None,
            out: Out::default(),
            timers: BTreeMap::new(),
            requests: Requests::new(config.me, config.boot),
            holds_back: false,
            peer_versions: PeerVersions::new(config.supported),
            messages: Vec::new(),
            packer: Encoder::with_capacity(PACKING_BYTES),
            answers: Vec::new(),
            events: Vec::new(),
            heard_of: config.epoch.number,
            beat_due_ns: now.mono_ns,
            has_beat: false,
            config,
        };
        gateway.start(machine, now);
        gateway
    }

    /// Goes on in a later epoch. What the former did not order is ordered in this one, under the names it had.
    pub fn begin_epoch(&mut self, now: Now, epoch: Epoch, machine: Option<&M::Config>) {
        if epoch.number <= self.config.epoch.number {
            return;
        }
        self.heard_of = self.heard_of.max(epoch.number);
        self.config.epoch = epoch;
        // What was answered is before the seal that ended that epoch, and so before everything in this one.
        for id in self.requests.early() {
            self.requests.decided(id);
        }
        // What it sent may have been ordered before the seal.
        let withdrawn = self.requests.start_over(Slot(0), false);
        self.refuse(withdrawn);
        self.start(machine, now);
        if self.machine.is_none() {
            let refused = self.requests.take_all(Refusal::Unknown);
            self.refuse(refused);
        }
    }

    fn start(&mut self, machine: Option<&M::Config>, now: Now) {
        self.timers.clear();
        self.messages.clear();
        self.out = Out::default();
        self.machine = machine.map(|machine| M::recover(machine, Past::Fresh, now, &mut self.out));
        self.perform(now);
    }

    /// The epoch it is in.
    #[must_use]
    pub fn epoch(&self) -> &Epoch {
        &self.config.epoch
    }

    /// Whether members have begun a later epoch: it is to be asked for.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.heard_of > self.config.epoch.number
    }

    /// Whether it orders what it is asked for: not under a protocol without remote gateways.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.machine.is_some()
    }

    /// Requests that wait for an answer, or have one and are not known to be decided.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.requests.count() + self.requests.early().len()
    }

    /// The machine's numbers for people.
    #[must_use]
    pub fn figures(&self) -> Vec<(&'static str, f64)> {
        self.machine.as_ref().map_or(Vec::new(), M::figures)
    }

    /// Takes a request; it is ordered at the next turn. A refusal comes as an answer.
    pub fn submit<Q>(&mut self, now: Now, token: Token, request: Request<Q>) {
        let waiting = Waiting {
            token,
            submitted_ns: now.mono_ns,
            ordered_ns: 0,
        };
        let refusal = match &request {
            Request::Write { body, .. } => self.refusal(body),
            Request::Command(command) => self.refusal(&command.body),
            // What needs the state, or is about the group, is at replicas.
            _ => Some(Refusal::NotServing),
        };
        match (refusal, request) {
            (Some(refusal), _) => self.answers.push((token, Answer::Refused(refusal))),
            (
                None,
                Request::Write {
                    body,
                    payloads,
                    principal,
                },
            ) => self.requests.write(waiting, (body, payloads), principal),
            (None, Request::Command(command)) => self.requests.command(waiting, command),
            (None, _) => unreachable!("refused above"),
        }
    }

    /// Drops the requests that nobody waits for any more, as far as they were sent to nobody; see
    /// [`crate::Host::withdraw`].
    pub fn withdraw(&mut self, now: Now, is_wanted: impl Fn(Token) -> bool) {
        let Withdrawn { gone, taken } = self.requests.withdraw(is_wanted);
        self.refuse(gone);
        if !taken.is_empty() {
            self.step(now, Input::Withdraw(taken));
        }
    }

    fn refuse(&mut self, requests: impl IntoIterator<Item = (Token, Refusal)>) {
        let requests = requests.into_iter();
        let answers = requests.map(|(token, refusal)| (token, Answer::Refused(refusal)));
        self.answers.extend(answers);
    }

    /// Whether the machine gets nothing for now; see [`crate::Directive::HoldBack`].
    pub fn hold_back(&mut self, holds_back: bool) {
        self.holds_back = holds_back;
    }

    fn refusal(&self, body: &Bytes) -> Option<Refusal> {
        if body.len() > self.config.limits.command_bytes_max {
            Some(Refusal::TooLarge)
        } else if self.machine.is_none() {
            Some(Refusal::NotServing)
        } else {
            let limits = &self.config.limits;
            let is_full = self.requests.count() >= limits.requests_max
                || self.requests.bytes() + body.len() > limits.request_bytes_max;
            is_full.then_some(Refusal::Overloaded)
        }
    }

    /// Takes a frame from a member. What cannot be used is dropped and reported.
    pub fn frame(&mut self, now: Now, from: ReplicaId, frame: Bytes) {
        if let Err(why) = self.take_frame(now, from, frame) {
            self.events.push(HostEvent::BadFrame { peer: from, why });
        }
    }

    fn take_frame(&mut self, now: Now, from: ReplicaId, frame: Bytes) -> Result<(), String> {
        let (header, body) =
            frame::decode(frame, self.peer_versions.supported).map_err(|e| e.to_string())?;
        if header.group != self.config.group {
            return Err(format!("it is for group {}", header.group));
        }
        self.heard_of = self.heard_of.max(header.epoch);
        match body {
            // Of another epoch: loss is normal.
            Body::Messages(_) if header.epoch != self.config.epoch.number => {}
            Body::Messages(bytes) => {
                let mut input = Decoder::new(bytes);
                while input.remaining() > 0 {
                    let message = M::message(&self.config.epoch.protocol, &mut input);
                    let message = message.map_err(|e| e.to_string())?;
                    self.step(now, Input::Message { from, message });
                }
            }
            // What is applied is applied, whatever the epoch.
            Body::GatewayResults { entry, results } => self.hear(now, entry, results),
            // What is asked of all: a gateway remembers nothing and holds no state.
            Body::Beat
            | Body::AskRemembered { .. }
            | Body::AskDigest { .. }
            | Body::Remembered { .. }
            | Body::Digest { .. } => {}
            _ => return Err("it is for a replica".to_owned()),
        }
        Ok(())
    }

    /// A host says what came of an entry.
    fn hear(&mut self, now: Now, entry: EntryId, results: Vec<(RequestId, GatewayResult)>) {
        for (id, result) in results {
            self.requests.decided(id);
            let answer = match result {
                GatewayResult::Open if self.requests.is_opening(id) => {
                    self.requests.set_session(OwnSession::Open);
                    continue;
                }
                // As where it is applied.
                GatewayResult::Open => Answer::Applied(Slot(0), Bytes::new()),
                GatewayResult::Applied(slot, result) => Answer::Applied(slot, result),
                GatewayResult::Refused(refusal) => {
                    if refusal == Refusal::NoSession {
                        self.requests.session_lost(id.client);
                    }
                    Answer::Refused(refusal)
                }
            };
            if let Some(waiting) = self.requests.take_write(id) {
                self.answer(now, waiting, answer);
            }
        }
        let (slot, results) = (Slot(0), Vec::new());
        self.step(
            now,
            Input::Applied {
                slot,
                entry,
                results,
            },
        );
    }

    /// The connection to a member came up, in a version agreed on, or went down.
    pub fn link(&mut self, now: Now, peer: ReplicaId, version: Option<WireVersion>) {
        self.peer_versions.agree(peer, version);
        let up = version.is_some();
        self.step(now, Input::Link { peer, up });
    }

    /// Ends a turn: fires the timers that are due and gives the machine what waits. Says what is to be done, for all
    /// that happened since the last turn.
    #[must_use]
    pub fn turn(&mut self, now: Now) -> GatewayEffects {
        self.advance(now);
        GatewayEffects {
            frames: self.pack(),
            answers: std::mem::take(&mut self.answers),
            events: std::mem::take(&mut self.events),
        }
    }

    fn advance(&mut self, now: Now) {
        let due = |timers: &BTreeMap<M::Timer, u64>| {
            let due = timers.iter().find(|(_, at_ns)| **at_ns <= now.mono_ns);
            due.map(|(timer, _)| *timer)
        };
        while let Some(timer) = due(&self.timers) {
            self.timers.remove(&timer);
            self.step(now, Input::Timer(timer));
        }
        if self.machine.is_none() && self.beat_due_ns <= now.mono_ns {
            self.has_beat = true;
            self.beat_due_ns = now.mono_ns + BEAT_NS;
        }
        if self.requests.has_queued() && !self.holds_back {
            let room = self.machine.as_ref().map_or(0, M::room);
            let mut commands = self.requests.take(room, now.mono_ns);
            // Clients may have made them for another epoch.
            let (bytes_max, join) = (self.config.limits.command_bytes_max, self.config.join);
            let too_long = self.requests.put_inside(&mut commands, bytes_max, join);
            let refused = |token| (token, Answer::Refused(Refusal::TooLarge));
            self.answers.extend(too_long.into_iter().map(refused));
            if !commands.is_empty() {
                self.step(now, Input::Submit(commands));
            }
        }
    }

    /// When the next timer is due, on the monotonic clock.
    #[must_use]
    pub fn next_wake(&self) -> Option<u64> {
        let beat_ns = self.machine.is_none().then_some(self.beat_due_ns);
        self.timers.values().copied().chain(beat_ns).min()
    }

    /// Frames that are to leave.
    fn pack(&mut self) -> Vec<Frame> {
        let mut frames: Vec<Frame> = Vec::new();
        let mut messages = std::mem::take(&mut self.messages).into_iter().peekable();
        while let Some((to, message)) = messages.next() {
            frame::begin_messages(&self.header(to), &mut self.packer);
            message.write(&mut self.packer);
            while let Some((_, message)) = messages.next_if(|(peers, _)| *peers == to) {
                message.write(&mut self.packer);
            }
            frames.push(Frame {
                to,
                version: self.peer_versions.towards(to),
                bulk: false,
                chunks: self.packer.take_chunks(),
            });
        }
        if std::mem::take(&mut self.has_beat) {
            let header = self.header(Peers::All);
            frames.push(Frame {
                to: Peers::All,
                version: header.version,
                bulk: false,
                chunks: frame::encode(&header, &Body::Beat),
            });
        }
        frames
    }

    fn header(&self, to: Peers) -> Header {
        Header {
            version: self.peer_versions.towards(to),
            group: self.config.group,
            epoch: self.config.epoch.number,
            // It applies nothing.
            applied: Slot(0),
            checkpoint: (Slot(0), 0),
            claim: None,
        }
    }

    fn step(&mut self, now: Now, input: Input<M>) {
        if let Some(machine) = &mut self.machine {
            machine.step(now, input, &mut self.out);
            if self.config.limits.check_steps {
                machine.check();
            }
            self.perform(now);
        }
    }

    fn perform(&mut self, now: Now) {
        let outputs: Vec<Output<M>> = self.out.drain().collect();
        for output in outputs {
            match output {
                Output::Send { to, message, .. } => self.messages.push((to, message)),
                Output::Arm { timer, due } => {
                    let at_ns = now.mono_ns + draw(&mut self.config.jitter_seed, &due);
                    self.timers.insert(timer, at_ns);
                }
                Output::Disarm(timer) => drop(self.timers.remove(&timer)),
                Output::Reply { id, outcome } => self.reply(now, id, outcome),
                Output::Emit(event) => self.events.push(HostEvent::Machine(event)),
                _ => debug_assert!(false, "it has no log and no state"),
            }
        }
    }

    fn reply(&mut self, now: Now, id: RequestId, outcome: Outcome) {
        match outcome {
            Outcome::Applied(slot, result) => {
                if let Some(waiting) = self.requests.take_early(id) {
                    self.answer(now, waiting, Answer::Applied(slot, result));
                }
            }
            Outcome::Decided => self.requests.decided(id),
            Outcome::Refused(_) if self.requests.is_opening(id) => {
                self.requests.set_session(OwnSession::Closed);
            }
            Outcome::Refused(refusal) => {
                let refused = self.requests.take_refused(id, refusal);
                self.refuse(refused);
            }
            Outcome::ReadAt(_) => debug_assert!(false, "it reads nothing"),
        }
    }

    fn answer(&mut self, now: Now, waiting: Waiting, answer: Answer<()>) {
        let spent_ns = now.mono_ns.saturating_sub(waiting.submitted_ns);
        self.events.push(HostEvent::Spent(Place::Total, spent_ns));
        self.answers.push((waiting.token, answer));
    }
}
