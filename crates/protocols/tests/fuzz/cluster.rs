//! Three machines of any protocol with what they need of a host: timers, decided slots, losses.

use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{
    Base as _, Boot, Class, ClientId, Command, Durability, Entry, Epoch, Group, Incarnation, Input,
    Introspect, Machine, Member, Now, Out, Outcome, Output, Past, Payload, Peers, Principal,
    Refusal, ReplicaId, RequestId, Seat, Slot, Wire as _, carried, hollow_share,
};
use quorate_protocols::Protocol;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Message<P> = <<P as Protocol>::Machine as Machine>::Message;
pub(crate) type Record<P> = <<P as Protocol>::Machine as Machine>::Record;
pub(crate) type Base<P> = <<P as Protocol>::Machine as Machine>::Base;
type Timer<P> = <<P as Protocol>::Machine as Machine>::Timer;

pub(crate) const REPLICAS: usize = 3;
/// Messages on their way; more are lost.
const MAIL_MAX: usize = 200;
/// Kept of what was said.
const SAID_MAX: usize = 2_000;

/// A machine and what it delivered.
pub(crate) struct Node<P: Protocol> {
    machine: P::Machine,
    out: Out<P::Machine>,
    timers: BTreeSet<Timer<P>>,
    /// From slot 0 on.
    delivered: Vec<Option<Entry>>,
    pub(crate) base: Base<P>,
}

/// Three of them, and the messages between them.
pub(crate) struct Cluster<P: Protocol> {
    pub(crate) nodes: Vec<Node<P>>,
    pub(crate) said: Vec<Message<P>>,
    pub(crate) recorded: Vec<Record<P>>,
    /// The requests that were refused, and why.
    pub(crate) refused: BTreeMap<RequestId, Refusal>,
    /// All that a machine said and recorded since it is alone.
    alone: Vec<Bytes>,
    mail: Vec<(usize, usize, Message<P>)>,
    rng: Rng,
    now: Now,
    requests: u64,
}

impl<P: Protocol> Cluster<P> {
    pub(crate) fn new(rng: Rng) -> Self {
        let mut cluster = Cluster {
            nodes: Vec::new(),
            said: Vec::new(),
            recorded: Vec::new(),
            refused: BTreeMap::new(),
            alone: Vec::new(),
            mail: Vec::new(),
            rng,
            now: Now::default(),
            requests: 0,
        };
        for index in 0..REPLICAS {
            let mut out = Out::default();
            let config = P::config(&seat(index, index as u64)).expect("defaults are right");
            let machine = P::Machine::recover(&config, Past::Fresh, cluster.now, &mut out);
            cluster.nodes.push(Node {
                machine,
                out,
                timers: BTreeSet::new(),
                delivered: Vec::new(),
                base: Base::<P>::default(),
            });
            cluster.settle(index);
        }
        cluster
    }

    /// Something happens somewhere.
    pub(crate) fn advance(&mut self) {
        self.now.mono_ns += self.rng.u64(..2_000_000);
        self.now.clock_ns = self.now.mono_ns;
        let node = self.rng.usize(..REPLICAS);
        match self.rng.u8(..40) {
            0..=2 => self.submit(node),
            3..=9 => self.fire(node),
            10 => self.link(node),
            11 if self.rng.u8(..8) == 0 => self.restart(node),
            _ => self.deliver_mail(),
        }
    }

    /// Everybody has something to say, and hears the others, until all have delivered a slot.
    pub(crate) fn decide_something(&mut self) {
        for index in 0..REPLICAS {
            self.write(index);
        }
        let has_none = |node: &Node<P>| node.delivered.is_empty();
        for _ in 0..1_000 {
            if !self.nodes.iter().any(has_none) {
                return;
            }
            self.pass();
        }
        let explained = self.nodes.iter().map(|node| node.machine.explain());
        let explained: Vec<String> = explained.collect();
        panic!("{}: nothing is decided: {explained:?}", P::NAME);
    }

    /// A millisecond in which all that is on its way arrives. When nothing is, the timers of a machine come due.
    pub(crate) fn pass(&mut self) {
        self.now.mono_ns += 1_000_000;
        self.now.clock_ns = self.now.mono_ns;
        for (from, to, message) in std::mem::take(&mut self.mail) {
            let from = replica(from);
            self.step(to, Input::Message { from, message });
        }
        if self.mail.is_empty() {
            let index = self.rng.usize(..REPLICAS);
            self.fire_all(index);
        }
    }

    /// Some time in which a machine hears nobody and nobody hears it, and its timers come due.
    pub(crate) fn pass_alone(&mut self, me: usize, ns: u64) {
        self.now.mono_ns += ns;
        self.now.clock_ns = self.now.mono_ns;
        self.fire_all(me);
        self.hear_alone();
    }

    /// A client asks a machine that is alone for something that nobody asked for before.
    pub(crate) fn ask_alone(&mut self, me: usize) -> RequestId {
        let id = self.write(me);
        self.hear_alone();
        id
    }

    /// A client asks a machine for a write that bears its number.
    fn write(&mut self, me: usize) -> RequestId {
        self.requests += 1;
        let id = RequestId {
            client: ClientId(1),
            seq: self.requests,
        };
        let command = Command {
            id,
            acked: 0,
            class: Class::Write,
            principal: Principal::default(),
            body: format!("{MARK}{:08}", id.seq).into(),
            payloads: Vec::new(),
        };
        self.step(me, Input::Submit(vec![command]));
        id
    }

    /// Nobody waits for these any more.
    pub(crate) fn withdraw(&mut self, me: usize, ids: BTreeSet<RequestId>) {
        self.step(me, Input::Withdraw(ids));
        self.hear_alone();
    }

    /// The requests of machines that were alone of which something was said or recorded.
    pub(crate) fn offered_alone(&self) -> BTreeSet<RequestId> {
        self.alone.iter().flat_map(|bytes| marked(bytes)).collect()
    }

    /// The requests of machines that were alone that were delivered anywhere.
    pub(crate) fn delivered(&self) -> BTreeSet<RequestId> {
        let slots = self.nodes.iter().flat_map(|node| node.delivered.iter());
        let commands = slots.flatten().flat_map(|entry| entry.commands());
        commands.flatten().map(|command| command.id).collect()
    }

    fn fire_all(&mut self, index: usize) {
        for timer in std::mem::take(&mut self.nodes[index].timers) {
            self.step(index, Input::Timer(timer));
        }
    }

    /// What was said is lost.
    fn hear_alone(&mut self) {
        let said = std::mem::take(&mut self.mail).into_iter();
        self.alone
            .extend(said.map(|(_, _, message)| message.to_bytes()));
        let recorded = std::mem::take(&mut self.recorded).into_iter();
        self.alone.extend(recorded.map(|record| record.to_bytes()));
    }

    /// A machine hears something from a peer that did not say it.
    pub(crate) fn lie(&mut self, message: Message<P>) {
        let to = self.rng.usize(..REPLICAS);
        let from = (to + self.rng.usize(1..REPLICAS)) % REPLICAS;
        let from = replica(from);
        self.step(to, Input::Message { from, message });
    }

    fn submit(&mut self, node: usize) {
        let room = self.nodes[node].machine.room();
        let count = self.rng.usize(1..4).min(room);
        let commands: Vec<Command> = (0..count).map(|_| self.command()).collect();
        if !commands.is_empty() {
            self.step(node, Input::Submit(commands));
        }
    }

    fn command(&mut self) -> Command {
        self.requests += 1;
        let is_read = self.rng.u8(..4) == 0;
        let config = P::config(&seat(0, 0)).expect("defaults are right");
        let takes_payloads = P::Machine::payloads(&config).is_some();
        let is_long = takes_payloads && !is_read && self.rng.u8(..3) == 0;
        let value = is_long.then(|| Payload::of(Bytes::from_static(b"a long value")));
        Command {
            id: RequestId {
                client: ClientId(1),
                seq: self.requests,
            },
            acked: 0,
            class: if is_read { Class::Read } else { Class::Write },
            principal: Principal::default(),
            body: Bytes::from(vec![b'x'; self.rng.usize(..20)]),
            payloads: value.into_iter().collect(),
        }
    }

    fn fire(&mut self, node: usize) {
        let timers = &self.nodes[node].timers;
        if timers.is_empty() {
            return;
        }
        let timer = timers.iter().nth(self.rng.usize(..timers.len())).copied();
        if let Some(timer) = timer {
            self.nodes[node].timers.remove(&timer);
            self.step(node, Input::Timer(timer));
        }
    }

    fn link(&mut self, node: usize) {
        let peer = replica((node + self.rng.usize(1..REPLICAS)) % REPLICAS);
        let up = self.rng.bool();
        self.step(node, Input::Link { peer, up });
    }

    /// A machine loses everything but what it delivered.
    fn restart(&mut self, index: usize) {
        let boot = self.rng.u64(..);
        let config = P::config(&seat(index, boot)).expect("defaults are right");
        let node = &mut self.nodes[index];
        let past = Past::Lost {
            next: Slot(node.delivered.len() as u64),
            base: node.base.clone(),
        };
        node.out = Out::default();
        node.timers.clear();
        node.machine = P::Machine::recover(&config, past, self.now, &mut node.out);
        self.settle(index);
    }

    fn deliver_mail(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        let (from, to, message) = self.mail.swap_remove(self.rng.usize(..self.mail.len()));
        if self.rng.u8(..10) > 0 {
            let from = replica(from);
            self.step(to, Input::Message { from, message });
        }
    }

    fn step(&mut self, index: usize, input: Input<P::Machine>) {
        let node = &mut self.nodes[index];
        node.machine.step(self.now, input, &mut node.out);
        self.settle(index);
    }

    /// Does what a machine wants done, and what that leads to.
    fn settle(&mut self, index: usize) {
        loop {
            let outputs: Vec<_> = self.nodes[index].out.drain().collect();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                self.perform(index, output);
            }
        }
    }

    fn perform(&mut self, index: usize, output: Output<P::Machine>) {
        let now = self.now;
        match output {
            Output::Send { to, message, .. } => self.send(index, to, &message),
            Output::Persist { lsn, record } => {
                self.note(record);
                let node = &mut self.nodes[index];
                node.machine.step(now, Input::Durable(lsn), &mut node.out);
            }
            Output::Note(record) => self.note(record),
            Output::Arm { timer, .. } => drop(self.nodes[index].timers.insert(timer)),
            Output::Disarm(timer) => drop(self.nodes[index].timers.remove(&timer)),
            Output::Gather(entry) => {
                let share = Some(hollow_share(&entry, 1, 0));
                let held = Input::Held(entry.with_share(share));
                let node = &mut self.nodes[index];
                node.machine.step(now, held, &mut node.out);
            }
            Output::Forget(_) => {}
            Output::CatchUp { from, .. } => self.catch_up(index, from),
            Output::Inform { peer, .. } => self.catch_up(usize::from(peer.0) - 1, replica(index)),
            Output::Deliver { slot, entry } => {
                let node = &mut self.nodes[index];
                assert_eq!(
                    slot.0,
                    node.delivered.len() as u64,
                    "in order, without gaps"
                );
                node.base.advance(slot, entry.as_ref());
                node.delivered.push(entry);
            }
            Output::Execute { slot, entry } => {
                let applied = Input::Applied {
                    slot,
                    entry: entry.id,
                    results: vec![Default::default(); entry.count()],
                };
                let node = &mut self.nodes[index];
                node.machine.step(now, applied, &mut node.out);
            }
            Output::Reply {
                id,
                outcome: Outcome::Refused(refusal),
            } => drop(self.refused.insert(id, refusal)),
            Output::Retract { .. }
            | Output::Tell { .. }
            | Output::Reply { .. }
            | Output::Emit(_) => {}
        }
    }

    fn note(&mut self, record: Record<P>) {
        if self.recorded.len() < SAID_MAX {
            self.recorded.push(record);
        }
    }

    fn send(&mut self, from: usize, to: Peers, message: &Message<P>) {
        if self.said.len() < SAID_MAX {
            self.said.push(message.clone());
        }
        for peer in (0..REPLICAS).filter(|peer| *peer != from) {
            if self.mail.len() < MAIL_MAX && (to == Peers::All || to == Peers::One(replica(peer))) {
                self.mail.push((from, peer, carried(message, peer as u8)));
            }
        }
    }

    /// A machine gets the decided slots that another has and it lacks, as the host would see to.
    fn catch_up(&mut self, index: usize, from: ReplicaId) {
        let from = usize::from(from.0) - 1;
        let have = self.nodes[index].delivered.len();
        let missing: Vec<_> = self.nodes[from]
            .delivered
            .iter()
            .skip(have)
            .cloned()
            .collect();
        if missing.is_empty() {
            return;
        }
        let node = &mut self.nodes[index];
        for entry in missing {
            node.base
                .advance(Slot(node.delivered.len() as u64), entry.as_ref());
            node.delivered.push(entry);
        }
        let next = Slot(node.delivered.len() as u64);
        let base = node.base.clone();
        node.machine
            .step(self.now, Input::Installed { next, base }, &mut node.out);
        if index != from {
            self.settle(index);
        }
    }
}

/// In the bodies of commands of machines that are alone, before the number of the request.
const MARK: &str = "of one who is alone: ";

/// The requests of which there is something in an encoding.
fn marked(bytes: &[u8]) -> impl Iterator<Item = RequestId> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let numbers: Vec<u64> = text
        .split(MARK)
        .skip(1)
        .map(|number| number[..8].parse().expect("a number is behind the mark"))
        .collect();
    numbers.into_iter().map(|seq| RequestId {
        client: ClientId(1),
        seq,
    })
}

fn replica(index: usize) -> ReplicaId {
    ReplicaId(index as u16 + 1)
}

/// What all of them agree on.
pub(crate) fn epoch() -> Epoch {
    let member = |index| Member {
        id: replica(index),
        incarnation: Incarnation(0),
    };
    Epoch {
        number: 1,
        first_slot: Slot(0),
        members: (0..REPLICAS).map(member).collect(),
        protocol: String::new(),
        durability: Durability::Disk,
        seed: 3,
        params: [].into(),
    }
}

fn seat(index: usize, boot: u64) -> Seat {
    Seat {
        group: Group(0),
        epoch: epoch(),
        me: replica(index),
        boot: Boot(boot),
    }
}
