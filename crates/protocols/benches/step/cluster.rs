//! Replicas in memory: every message arrives, every record is durable at once, in the order they were said.
//!
//! The benchmark does not use `testkit::Cluster`: over rings, performing outputs is part of what is
//! counted. The hooks of a cluster for tests would add 2 to 6 % to the instructions of a command, and
//! more where replicas take another schedule because of them.

use super::BODY_BYTES;
use super::rings::Rings;
use bytes::Bytes;
use quorate_core::{
    Boot, Class, ClientId, Command, Decoder, Due, Durability, Epoch, Group, Incarnation, Input,
    MILLIS, Machine, Member, Now, Out, Output, Past, Peers, Principal, ReplicaId, RequestId, Seat,
    Slot,
};
use quorate_protocols::Protocol;
use std::collections::VecDeque;

/// What a replica under full load has waiting at least.
const WAITING: u64 = 32;
/// Whose steps are looked at.
const FIRST: usize = 0;

/// What a step is looked at by.
type Look = fn(&mut dyn FnMut());

/// What a replica has to do.
enum Coming<M: Machine> {
    Input(Input<M>),
    /// To take a message out of this ring.
    Ring(usize),
}

/// Replicas and the messages between them.
pub(crate) struct Cluster<P: Protocol> {
    replicas: Vec<P::Machine>,
    outs: Vec<Out<P::Machine>>,
    outputs: Vec<Output<P::Machine>>,
    inputs: VecDeque<(usize, Input<P::Machine>)>,
    /// How messages travel, if they are not handed over as they are.
    rings: Option<Rings>,
    /// What each replica waits for, and when it is due.
    timers: Vec<Vec<(<P::Machine as Machine>::Timer, u64)>>,
    /// By replica: commands that were given to it and are not committed there.
    waiting: Vec<u64>,
    body: Bytes,
    now_ns: u64,
    seq: u64,
    /// Messages received, by all and by the first replica.
    pub(crate) messages: u64,
    pub(crate) received: u64,
    /// Messages said to everybody.
    pub(crate) multicasts: u64,
    /// Commands committed at the first replica.
    pub(crate) applied: u64,
    /// Sees the steps of the first replica; over rings, also what is done for them to messages before and after.
    pub(crate) look: Look,
}

impl<P: Protocol> Cluster<P> {
    pub(crate) fn new(replicas: u16, params: &[(&str, &str)]) -> Self {
        let params = params.iter();
        let params = params.map(|(name, value)| ((*name).into(), (*value).into()));
        let member = |id| Member {
            id: ReplicaId(id),
            incarnation: Incarnation(id.into()),
        };
        let epoch = Epoch {
            number: 1,
            first_slot: Slot(0),
            members: (1..=replicas).map(member).collect(),
            protocol: P::NAME.into(),
            durability: Durability::Disk,
            seed: 1,
            params: params.collect(),
        };
        let mut outs = Vec::new();
        let mut machines = Vec::new();
        for id in 1..=replicas {
            let (me, boot) = (ReplicaId(id), Boot(id.into()));
            let seat = Seat {
                group: Group(0),
                epoch: epoch.clone(),
                me,
                boot,
            };
            let config = P::config(&seat).expect("the parameters are valid");
            let mut out = Out::default();
            machines.push(P::Machine::recover(
                &config,
                Past::Fresh,
                Now::default(),
                &mut out,
            ));
            outs.push(out);
        }
        let mut cluster = Cluster {
            replicas: machines,
            outs,
            outputs: Vec::new(),
            inputs: VecDeque::new(),
            rings: None,
            timers: vec![Vec::new(); replicas.into()],
            waiting: vec![0; replicas.into()],
            body: Bytes::from(vec![7; BODY_BYTES]),
            now_ns: 0,
            seq: 0,
            messages: 0,
            received: 0,
            multicasts: 0,
            applied: 0,
            look: |step| step(),
        };
        cluster.begin();
        cluster
    }

    /// From here on messages are encoded, go through rings in memory, and are decoded.
    pub(crate) fn over_rings(mut self) -> Self {
        self.rings = Some(Rings::new(self.replicas.len()));
        self
    }

    /// What is to be done next, and by whom.
    fn next(&mut self) -> Option<(usize, Coming<P::Machine>)> {
        if let Some((at, input)) = self.inputs.pop_front() {
            return Some((at, Coming::Input(input)));
        }
        let (ring, to) = self.rings.as_mut()?.next()?;
        Some((to, Coming::Ring(ring)))
    }

    /// The input, with the message out of its ring and decoded.
    fn take(&mut self, coming: Coming<P::Machine>) -> Input<P::Machine> {
        let ring = match coming {
            Coming::Input(input) => return input,
            Coming::Ring(ring) => ring,
        };
        let rings = self.rings.as_mut().expect("it is over rings");
        let (from, bytes) = rings.take(ring);
        let message = P::Machine::message(P::NAME, &mut Decoder::new(bytes));
        let message = message.expect("what was encoded is decoded");
        Input::Message { from, message }
    }

    /// Commits a first command. Where that takes a leader, the timers of the first replica make it
    /// one; afterwards none is needed.
    fn begin(&mut self) {
        self.round(1);
        while self.applied == 0 {
            assert!(!self.timers[FIRST].is_empty(), "a request is waited for");
            let mut timers = std::mem::take(&mut self.timers[FIRST]);
            timers.sort_unstable();
            for (timer, _) in timers {
                self.inputs.push_back((FIRST, Input::Timer(timer)));
                self.run();
            }
        }
    }

    /// One replica gets `commands` commands, and everything that follows happens.
    pub(crate) fn round(&mut self, commands: u64) {
        let at = (self.seq % self.replicas.len() as u64) as usize;
        self.submit(at, commands);
        self.run();
        self.now_ns += MILLIS;
    }

    /// The first replicas, so many of them, always have commands waiting, until `commands` more are
    /// committed. Timers fire when there is nothing else to do.
    pub(crate) fn saturate(&mut self, asked: usize, commands: u64) {
        let until = self.applied + commands;
        while self.applied < until {
            for at in 0..asked {
                if self.waiting[at] < WAITING {
                    self.submit(at, WAITING);
                }
            }
            match self.next() {
                Some((at, coming)) => self.step(at, coming),
                None => self.fire(),
            }
        }
    }

    /// The timers that are due next fire.
    fn fire(&mut self) {
        let dues = self.timers.iter().flatten().map(|(_, due)| *due);
        self.now_ns = dues.min().expect("somebody waits for something");
        for at in 0..self.timers.len() {
            let due = self.timers[at].extract_if(.., |(_, due)| *due <= self.now_ns);
            let mut due: Vec<_> = due.map(|(timer, _)| timer).collect();
            due.sort_unstable();
            let inputs = due.into_iter().map(|timer| (at, Input::Timer(timer)));
            self.inputs.extend(inputs);
        }
    }

    fn submit(&mut self, at: usize, commands: u64) {
        self.waiting[at] += commands;
        let submitted = (0..commands).map(|_| self.command()).collect();
        self.inputs.push_back((at, Input::Submit(submitted)));
    }

    fn run(&mut self) {
        while let Some((at, coming)) = self.next() {
            self.step(at, coming);
        }
    }

    fn command(&mut self) -> Command {
        self.seq += 1;
        Command {
            id: RequestId {
                client: ClientId(1),
                seq: self.seq,
            },
            acked: self.seq - 1,
            class: Class::Write,
            principal: Principal(0),
            body: self.body.clone(),
            payloads: Vec::new(),
        }
    }

    fn step(&mut self, at: usize, coming: Coming<P::Machine>) {
        let is_message = matches!(
            coming,
            Coming::Ring(_) | Coming::Input(Input::Message { .. })
        );
        self.messages += u64::from(is_message);
        self.received += u64::from(is_message && at == FIRST);
        let before = self.outs[at].persisted();
        let unseen: Look = |step| step();
        let look = if at == FIRST { self.look } else { unseen };
        let (around, within) = match &self.rings {
            Some(_) => (look, unseen),
            None => (unseen, look),
        };
        let mut coming = Some(coming);
        around(&mut || {
            let coming = coming.take().expect("one step");
            self.work(at, coming, within);
        });
        let after = self.outs[at].persisted();
        if after > before {
            self.inputs.push_back((at, Input::Durable(after)));
        }
    }

    /// All that a replica does for an input.
    fn work(&mut self, at: usize, coming: Coming<P::Machine>, look: Look) {
        let now = Now {
            mono_ns: self.now_ns,
            clock_ns: self.now_ns,
            clock_error_ns: u64::MAX,
        };
        let mut input = Some(self.take(coming));
        let (machine, out) = (&mut self.replicas[at], &mut self.outs[at]);
        look(&mut || machine.step(now, input.take().expect("one step"), out));
        let mut outputs = std::mem::take(&mut self.outputs);
        self.outs[at].swap(&mut outputs);
        for output in outputs.drain(..) {
            self.perform(at, output);
        }
        self.outputs = outputs;
    }

    fn perform(&mut self, at: usize, output: Output<P::Machine>) {
        match output {
            Output::Send { to, message, .. } => {
                let from = ReplicaId(at as u16 + 1);
                self.multicasts += u64::from(to == Peers::All);
                if let Some(rings) = &mut self.rings {
                    return rings.send(at, to, &message);
                }
                for peer in 0..self.replicas.len() {
                    let id = ReplicaId(peer as u16 + 1);
                    if peer != at && (to == Peers::All || to == Peers::One(id)) {
                        let message = message.clone();
                        self.inputs
                            .push_back((peer, Input::Message { from, message }));
                    }
                }
            }
            Output::Deliver {
                entry: Some(entry), ..
            } => {
                let count = entry.count() as u64;
                self.applied += if at == FIRST { count } else { 0 };
                if usize::from(entry.id.origin.0) == at + 1 {
                    self.waiting[at] = self.waiting[at].saturating_sub(count);
                }
            }
            Output::Arm { timer, due } => {
                let after_ns = match due {
                    Due::After(ns) => ns,
                    Due::Within(range) => *range.start(),
                };
                let due = self.now_ns + after_ns;
                let timers = &mut self.timers[at];
                match timers.iter_mut().find(|(armed, _)| *armed == timer) {
                    Some(armed) => armed.1 = due,
                    None => timers.push((timer, due)),
                }
            }
            Output::Disarm(timer) => self.timers[at].retain(|(armed, _)| *armed != timer),
            _ => {}
        }
    }
}
