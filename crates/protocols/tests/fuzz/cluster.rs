//! Three machines of any protocol among peers that may say anything, or among none.

use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{
    Boot, Class, ClientId, Command, Entry, EntryId, Event, Input, Introspect as _, Machine,
    Outcome, Output, Payload, Plain, Refusal, ReplicaId, RequestId, Seat, Slot, Wire as _,
    hollow_share,
};
use quorate_protocols::Protocol;
use quorate_testkit::{Disagreement, Node, Packet, Watch, id, seat};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

pub(crate) type Message<P> = <<P as Protocol>::Machine as Machine>::Message;
pub(crate) type Record<P> = <<P as Protocol>::Machine as Machine>::Record;
pub(crate) type Base<P> = <<P as Protocol>::Machine as Machine>::Base;
type Inner<M> = quorate_testkit::Cluster<M, Heard<M>>;

pub(crate) const REPLICAS: usize = 3;
/// Messages on their way; more are lost.
const MAIL_MAX: usize = 200;
/// Kept of what was said.
const SAID_MAX: usize = 2_000;

/// What was said, recorded and refused. Only crashes are tolerated, so that liars make machines decide
/// anything: nothing is checked but that machines go on.
pub(crate) struct Heard<M: Plain> {
    pub(crate) said: Vec<M::Message>,
    pub(crate) recorded: Vec<M::Record>,
    /// The requests that were refused, and why.
    pub(crate) refused: BTreeMap<RequestId, Refusal>,
    /// All that a machine said and recorded since it is alone.
    alone: Vec<Bytes>,
}

impl<M: Plain> Watch<M> for Heard<M> {
    fn on_output(cluster: &mut Inner<M>, _: usize, output: &mut Output<M>) -> bool {
        let heard = &mut cluster.watch;
        match output {
            Output::Send { message, .. } if heard.said.len() < SAID_MAX => {
                heard.said.push(message.clone());
            }
            Output::Persist { record, .. } | Output::Note(record)
                if heard.recorded.len() < SAID_MAX =>
            {
                heard.recorded.push(record.clone());
            }
            _ => {}
        }
        true
    }

    fn on_packet(cluster: &mut Inner<M>, packet: Packet<M>) {
        if cluster.wire.len() < MAIL_MAX {
            cluster.wire.push_back(packet);
        }
    }

    fn on_disagreement(_: &mut Inner<M>, _: usize, _: Disagreement) {}

    fn on_execute(cluster: &mut Inner<M>, me: usize, slot: Slot, entry: Entry) {
        let applied = Input::Applied {
            slot,
            entry: entry.id,
            results: vec![Bytes::new(); entry.count()],
        };
        cluster.step(me, applied);
    }

    fn on_retract(_: &mut Inner<M>, _: usize, _: Slot) {}

    fn on_gather(cluster: &mut Inner<M>, me: usize, entry: Entry) {
        let share = Some(hollow_share(&entry, 1, 0));
        cluster.step(me, Input::Held(entry.with_share(share)));
    }

    fn on_tell(_: &mut Inner<M>, _: ReplicaId, _: EntryId) {}

    fn on_reply(cluster: &mut Inner<M>, _: usize, id: RequestId, outcome: Outcome) {
        if let Outcome::Refused(refusal) = outcome {
            cluster.watch.refused.insert(id, refusal);
        }
    }

    fn on_event(_: &mut Inner<M>, _: usize, _: Event) {}
}

/// Three machines, and the messages between them.
pub(crate) struct Cluster<P: Protocol> {
    inner: Inner<P::Machine>,
    rng: Rng,
}

impl<P: Protocol> Deref for Cluster<P> {
    type Target = Inner<P::Machine>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl<P: Protocol> DerefMut for Cluster<P> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.inner
    }
}

impl<P: Protocol> Cluster<P> {
    pub(crate) fn new(rng: Rng) -> Self {
        let heard = Heard {
            said: Vec::new(),
            recorded: Vec::new(),
            refused: BTreeMap::new(),
            alone: Vec::new(),
        };
        let config = |me, boot: Boot| {
            let seat = Seat {
                boot,
                ..seat("", REPLICAS, me, 0, &[])
            };
            P::config(&seat).expect("defaults are right")
        };
        let mut inner = Inner::new(REPLICAS, heard, config);
        inner.is_checked = false;
        Cluster { inner, rng }
    }

    /// Something happens somewhere.
    pub(crate) fn advance(&mut self) {
        self.inner.now_ns += self.rng.u64(..2_000_000);
        let node = self.rng.usize(..REPLICAS);
        match self.rng.u8(..40) {
            0..=2 => self.ask(node),
            3..=9 => self.fire_any(node),
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
        let has_none = |node: &Node<P::Machine>| node.log.is_empty();
        for _ in 0..1_000 {
            if !self.nodes.iter().any(has_none) {
                return;
            }
            self.pass();
        }
        let explained: Vec<String> = (0..REPLICAS).map(|me| self.machine(me).explain()).collect();
        panic!("{}: nothing is decided: {explained:?}", P::NAME);
    }

    /// A millisecond in which all that is on its way arrives. When nothing is, the timers of a machine come due.
    pub(crate) fn pass(&mut self) {
        self.now_ns += 1_000_000;
        for packet in std::mem::take(&mut self.wire) {
            self.receive(packet);
        }
        if self.wire.is_empty() {
            let index = self.rng.usize(..REPLICAS);
            self.fire_all(index);
        }
    }

    /// Some time in which a machine hears nobody and nobody hears it, and its timers come due.
    pub(crate) fn pass_alone(&mut self, me: usize, ns: u64) {
        self.now_ns += ns;
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
        let number = self.next_request().seq;
        let body = format!("{MARK}{number:08}").into();
        self.submit(me, Class::Write, body, Vec::new())
    }

    /// Nobody waits for these any more.
    pub(crate) fn withdraw(&mut self, me: usize, ids: BTreeSet<RequestId>) {
        self.step(me, Input::Withdraw(ids));
        self.hear_alone();
    }

    /// The requests of machines that were alone of which something was said or recorded.
    pub(crate) fn offered_alone(&self) -> BTreeSet<RequestId> {
        self.watch
            .alone
            .iter()
            .flat_map(|bytes| marked(bytes))
            .collect()
    }

    /// The requests of machines that were alone that were delivered anywhere.
    pub(crate) fn delivered(&self) -> BTreeSet<RequestId> {
        let slots = self.nodes.iter().flat_map(|node| node.log.iter());
        let commands = slots.flatten().flat_map(|entry| entry.commands());
        commands.flatten().map(|command| command.id).collect()
    }

    fn fire_all(&mut self, index: usize) {
        for (timer, _) in std::mem::take(&mut self.nodes[index].timers) {
            self.step(index, Input::Timer(timer));
        }
    }

    /// What was said is lost.
    fn hear_alone(&mut self) {
        let said = std::mem::take(&mut self.wire);
        let said = said.iter().filter_map(Packet::message);
        let said: Vec<Bytes> = said.map(|message| message.to_bytes()).collect();
        let heard = &mut self.watch;
        let recorded = heard.recorded.drain(..).map(|record| record.to_bytes());
        heard.alone.extend(said.into_iter().chain(recorded));
    }

    /// A machine hears something from a peer that did not say it.
    pub(crate) fn lie(&mut self, message: Message<P>) {
        let to = self.rng.usize(..REPLICAS);
        let from = (to + self.rng.usize(1..REPLICAS)) % REPLICAS;
        let from = id(from);
        self.step(to, Input::Message { from, message });
    }

    fn ask(&mut self, node: usize) {
        let room = self.machine(node).room();
        let count = self.rng.usize(1..4).min(room);
        let commands: Vec<Command> = (0..count).map(|_| self.any_command()).collect();
        if !commands.is_empty() {
            self.step(node, Input::Submit(commands));
        }
    }

    fn any_command(&mut self) -> Command {
        let is_read = self.rng.u8(..4) == 0;
        let takes_payloads = P::Machine::payloads(&self.nodes[0].config).is_some();
        let is_long = takes_payloads && !is_read && self.rng.u8(..3) == 0;
        let value = is_long.then(|| Payload::of(Bytes::from_static(b"a long value")));
        let class = if is_read { Class::Read } else { Class::Write };
        let body = Bytes::from(vec![b'x'; self.rng.usize(..20)]);
        self.command(class, body, value.into_iter().collect())
    }

    fn fire_any(&mut self, node: usize) {
        let timers: Vec<_> = self.nodes[node].timers.keys().copied().collect();
        if let Some(timer) = self.rng.choice(timers) {
            self.fire(node, timer);
        }
    }

    fn link(&mut self, node: usize) {
        let peer = id((node + self.rng.usize(1..REPLICAS)) % REPLICAS);
        let up = self.rng.bool();
        self.step(node, Input::Link { peer, up });
    }

    /// A machine loses everything but what it delivered.
    fn restart(&mut self, index: usize) {
        self.crash(index);
        self.lose_promises(index);
    }

    fn deliver_mail(&mut self) {
        if self.wire.is_empty() {
            return;
        }
        let at = self.rng.usize(..self.inner.wire.len());
        let packet = self.wire.swap_remove_back(at).expect("it is on its way");
        if self.rng.u8(..10) > 0 {
            self.receive(packet);
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
