//! A bare machine, what it has to do, and what it has done.

use super::NAME;
use super::cost::Cost;
use super::lab::Bare;
use crate::simulator::{sample_epoch, seat};
use bytes::Bytes;
use quorate_core::{
    Base, Boot, Class, ClientId, Command, Durability, Entry, Input, Introspect, Machine, Now, Out,
    Output, Past, Principal, RequestId, Slot,
};
use quorate_protocols::chora::{Chora, Message, Timer};
use quorate_protocols::{DecidedSet, Protocol};
use std::collections::{BTreeMap, VecDeque};

/// Messages that wait to be processed, at most: more are dropped, as by a ring.
pub(super) const RING: usize = 512;
const BODY_BYTES: usize = 16;

/// Something to process.
pub(super) struct Task {
    pub(super) input: Input<Bare>,
}

impl Task {
    pub(super) fn of(input: Input<Bare>) -> Task {
        Task { input }
    }

    /// What it takes, what is said because of it aside. What clients send comes through another thread.
    pub(super) fn cost_ns(&self, cost: &Cost) -> u64 {
        let Input::Message { message, .. } = &self.input else {
            return 0;
        };
        let proposals = match message {
            Message::Pulse(pulse) => {
                let value = pulse
                    .proposal
                    .as_ref()
                    .and_then(|proposal| proposal.value.as_ref());
                usize::from(value.is_some()) + pulse.recover.len()
            }
            _ => 0,
        };
        cost.message_ns + proposals as u64 * cost.proposal_ns
    }
}

/// A replica.
pub(super) struct Node {
    pub(super) machine: Bare,
    out: Out<Bare>,
    inbox: VecDeque<Task>,
    pub(super) timers: BTreeMap<Timer, u64>,
    pub(super) is_up: bool,
    /// It is busy until then.
    pub(super) free_ns: u64,
    pub(super) turn_at_ns: Option<u64>,
    pub(super) delivered: Vec<(Slot, Option<Entry>)>,
    /// The first slot not delivered, and what was.
    pub(super) next: Slot,
    done: DecidedSet,
    /// Its own commands that are not committed, by when they came.
    asked_ns: BTreeMap<u64, u64>,
    client: ClientId,
    seq: u64,
}

impl Node {
    /// # Errors
    /// Says which parameter is wrong.
    pub(super) fn new(
        replicas: usize,
        index: usize,
        params: &[(String, String)],
    ) -> Result<Node, String> {
        let params = params.iter().cloned().collect();
        let epoch = sample_epoch(NAME, replicas, Durability::Memory, &params);
        let mut seat = seat(&epoch, index);
        seat.boot = Boot(index as u64 + 1);
        let config = Chora::config(&seat)?;
        let mut out = Out::default();
        let machine = Bare::recover(&config, Past::Fresh, Now::default(), &mut out);
        let mut node = Node {
            machine,
            out,
            inbox: VecDeque::new(),
            timers: BTreeMap::new(),
            is_up: true,
            free_ns: 0,
            turn_at_ns: None,
            delivered: Vec::new(),
            next: Slot(0),
            done: DecidedSet::default(),
            asked_ns: BTreeMap::new(),
            client: ClientId(index as u64 + 1),
            seq: 0,
        };
        node.flush(Now::default());
        Ok(node)
    }

    /// Takes something to process, unless it is a message and there is no place for it.
    pub(super) fn take(&mut self, task: Task) -> bool {
        let is_message = matches!(task.input, Input::Message { .. });
        let has_place = self.inbox.len() < RING || !is_message;
        if has_place && self.is_up {
            self.inbox.push_back(task);
        }
        has_place
    }

    /// It does nothing until then. What it was to do meanwhile it does then.
    pub(super) fn be_busy_until(&mut self, time_ns: u64) {
        self.free_ns = self.free_ns.max(time_ns);
        self.turn_at_ns = None;
    }

    /// What its machine says of itself under these names.
    pub(super) fn figures<const N: usize>(&self, names: [&str; N]) -> [f64; N] {
        let all = self.machine.figures();
        let of = |wanted: &str| all.iter().find(|(name, _)| *name == wanted);
        names.map(|name| of(name).map_or(0.0, |(_, value)| *value))
    }

    /// Own commands that are not committed yet.
    pub(super) fn waiting(&self) -> u64 {
        self.asked_ns.len() as u64
    }

    /// New commands of its clients.
    pub(super) fn commands(&mut self, count: u64, now_ns: u64) -> Task {
        let commands = (0..count).map(|_| {
            self.seq += 1;
            self.asked_ns.insert(self.seq, now_ns);
            Command {
                id: RequestId {
                    client: self.client,
                    seq: self.seq,
                },
                acked: self.seq - 1,
                class: Class::Write,
                principal: Principal(0),
                body: Bytes::from_static(&[7; BODY_BYTES]),
                payloads: Vec::new(),
            }
        });
        Task::of(Input::Submit(commands.collect()))
    }

    /// When it has something to do and is free.
    pub(super) fn due_ns(&self) -> Option<u64> {
        if !self.is_up {
            return None;
        }
        let timer_ns = self.timers.values().min().copied();
        let inbox_ns = (!self.inbox.is_empty()).then_some(0);
        let first_ns = timer_ns.into_iter().chain(inbox_ns).min()?;
        Some(first_ns.max(self.free_ns))
    }

    /// What it processes now.
    pub(super) fn next_task(&mut self, now_ns: u64) -> Option<Task> {
        if !self.is_up {
            return None;
        }
        let due = self.timers.iter().filter(|(_, due)| **due <= now_ns);
        if let Some(timer) = due.min_by_key(|(_, due)| **due).map(|(timer, _)| *timer) {
            self.timers.remove(&timer);
            return Some(Task::of(Input::Timer(timer)));
        }
        self.inbox.pop_front()
    }

    /// Everything is durable at once: replicas are in memory.
    pub(super) fn step(&mut self, now_ns: u64, input: Input<Bare>) {
        let now = Now {
            mono_ns: now_ns,
            clock_ns: now_ns,
            clock_error_ns: u64::MAX,
        };
        let before = self.out.persisted();
        self.machine.step(now, input, &mut self.out);
        if self.out.persisted() > before {
            self.flush(now);
        }
    }

    fn flush(&mut self, now: Now) {
        let durable = Input::Durable(self.out.persisted());
        self.machine.step(now, durable, &mut self.out);
    }

    pub(super) fn take_outputs(&mut self) -> Vec<Output<Bare>> {
        let mut outputs = Vec::new();
        self.out.swap(&mut outputs);
        outputs
    }

    /// A slot is delivered. How long its own commands in it took.
    pub(super) fn apply(&mut self, slot: Slot, entry: Option<&Entry>, now_ns: u64) -> Vec<u64> {
        self.next = slot.next();
        self.done.advance(slot, entry);
        let commands = entry.into_iter().flat_map(Entry::commands).flatten();
        let own = commands.filter(|command| command.id.client == self.client);
        let own: Vec<u64> = own.map(|command| command.id.seq).collect();
        let asked = own.iter().filter_map(|seq| self.asked_ns.remove(seq));
        asked.map(|asked_ns| now_ns - asked_ns).collect()
    }

    /// How far it is, and what was decided by then.
    pub(super) fn decided(&self) -> (Slot, DecidedSet) {
        (self.next, self.done.clone())
    }
}
