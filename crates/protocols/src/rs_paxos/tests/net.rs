//! A cluster in memory whose messages and disks move only as told. It watches what replicas
//! propose and deliver, and fails on the first thing that contradicts what came before.

use super::host;
use crate::multi_paxos::MultiPaxos;
use crate::registry::Protocol;
use crate::rs_paxos::{Accept, Ballot, Config, Message, Record, Replica, RsPaxos, Timer};
use crate::shared::decided::DecidedSet;
use crate::shared::seat;
use bytes::Bytes;
use quorate_core::{
    Base, Carry, Class, ClientId, Command, Entry, EntryId, Event, Input, Introspect, Lsn, Machine,
    Now, Out, Outcome, Output, Past, Payload, Peers, Principal, ReplicaId, RequestId, Seat, Slot,
    carried, hollow_share,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) struct Node {
    pub(super) config: Config,
    pub(super) machine: Option<Replica>,
    pub(super) out: Out<Replica>,
    pub(super) disk: Vec<(Lsn, Record)>,
    pub(super) flushed: Lsn,
    pub(super) flushes: usize,
    /// The disk does not get done.
    pub(super) is_stuck: bool,
    pub(super) gated: VecDeque<(Lsn, Peers, Message)>,
    /// Entries whose payloads it wants.
    pub(super) gathers: Vec<Entry>,
    pub(super) timers: BTreeSet<Timer>,
    pub(super) log: Vec<Option<Entry>>,
    pub(super) base: DecidedSet,
    pub(super) replies: Vec<(RequestId, Outcome)>,
}

pub(super) struct Net {
    pub(super) nodes: Vec<Node>,
    /// What is on its way, in the order sent.
    pub(super) wire: VecDeque<(usize, usize, Message)>,
    /// Links that lose everything.
    pub(super) cut: BTreeSet<(usize, usize)>,
    pub(super) sent: BTreeMap<&'static str, usize>,
    pub(super) branches: BTreeSet<&'static str>,
    pub(super) forget: Option<fn(&Record) -> bool>,
    proposed: BTreeMap<(Slot, Ballot), Option<EntryId>>,
    decided: BTreeMap<Slot, Option<EntryId>>,
    commands: u64,
    /// What every replica's clock says, in ns.
    pub(super) now_ns: u64,
}

fn id(node: usize) -> ReplicaId {
    ReplicaId(node as u16 + 1)
}

fn index(id: ReplicaId) -> usize {
    usize::from(id.0) - 1
}

pub(crate) fn seat<P: Protocol>(n: usize, me: usize, params: &[(&str, &str)]) -> Seat {
    seat::seat(P::NAME, n, me, me as u64 + 1, params)
}

impl Net {
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Net {
        let config = |me| MultiPaxos::config(&seat::<MultiPaxos>(n, me, params)).unwrap();
        Net::of((0..n).map(config).collect())
    }

    /// A cluster that codes values.
    pub(super) fn coded(n: usize, params: &[(&str, &str)]) -> Net {
        let config = |me| RsPaxos::config(&seat::<RsPaxos>(n, me, params)).unwrap();
        Net::of((0..n).map(config).collect())
    }

    pub(super) fn of(configs: Vec<Config>) -> Net {
        let n = configs.len();
        let node = |config| Node {
            config,
            machine: None,
            out: Out::default(),
            disk: Vec::new(),
            flushed: Lsn(0),
            flushes: 0,
            is_stuck: false,
            gated: VecDeque::new(),
            gathers: Vec::new(),
            timers: BTreeSet::new(),
            log: Vec::new(),
            base: DecidedSet::default(),
            replies: Vec::new(),
        };
        let mut net = Net {
            nodes: configs.into_iter().map(node).collect(),
            wire: VecDeque::new(),
            cut: BTreeSet::new(),
            sent: BTreeMap::new(),
            branches: BTreeSet::new(),
            forget: None,
            proposed: BTreeMap::new(),
            decided: BTreeMap::new(),
            commands: 0,
            now_ns: START_NS,
        };
        (0..n).for_each(|me| net.boot(me, Past::Fresh));
        net
    }

    /// A cluster in which `leader` leads, and nothing is on its way.
    pub(super) fn led_by(leader: usize, n: usize, params: &[(&str, &str)]) -> Net {
        Net::new(n, params).led(leader)
    }

    /// A cluster with a leader, and nothing on its way.
    pub(super) fn led(mut self, leader: usize) -> Net {
        self.write(leader);
        self.elect(leader);
        assert_eq!(self.nodes[leader].log.len(), 1);
        self
    }

    pub(super) fn boot(&mut self, me: usize, past: Past<Replica>) {
        let now = self.now();
        let node = &mut self.nodes[me];
        node.out = Out::default();
        node.machine = Some(Replica::recover(&node.config, past, now, &mut node.out));
        self.perform(me);
    }

    pub(super) fn step(&mut self, me: usize, input: Input<Replica>) {
        let now = self.now();
        let node = &mut self.nodes[me];
        if let Some(machine) = &mut node.machine {
            machine.step(now, input, &mut node.out);
            machine.check();
            self.perform(me);
        }
    }

    fn now(&self) -> Now {
        Now {
            mono_ns: self.now_ns,
            clock_ns: 5_000_000_000,
            clock_error_ns: 0,
        }
    }

    pub(super) fn submit(&mut self, me: usize, class: Class, payloads: Vec<Payload>) -> RequestId {
        self.submit_body(me, class, (Bytes::from_static(b"set x"), payloads))
    }

    fn submit_body(
        &mut self,
        me: usize,
        class: Class,
        (body, payloads): (Bytes, Vec<Payload>),
    ) -> RequestId {
        self.commands += 1;
        let id = RequestId {
            client: ClientId(1),
            seq: self.commands,
        };
        let command = Command {
            id,
            acked: 0,
            class,
            principal: Principal(0),
            body,
            payloads,
        };
        self.step(me, Input::Submit(vec![command]));
        id
    }

    pub(super) fn write(&mut self, me: usize) -> RequestId {
        self.submit(me, Class::Write, Vec::new())
    }

    /// Writes so many bytes that travel with what they are written by.
    pub(super) fn write_inline(&mut self, me: usize, len: usize) -> RequestId {
        self.submit_body(me, Class::Write, (Bytes::from(vec![7; len]), Vec::new()))
    }

    /// Writes a value that is a payload.
    pub(super) fn write_bulk(&mut self, me: usize) -> RequestId {
        self.write_bytes(me, Bytes::from_static(b"a long value"))
    }

    pub(super) fn write_bytes(&mut self, me: usize, bytes: Bytes) -> RequestId {
        self.submit(me, Class::Write, vec![Payload::of(bytes)])
    }

    pub(super) fn read(&mut self, me: usize) -> RequestId {
        self.submit(me, Class::Read, Vec::new())
    }

    /// Lets a timer fire that must be armed.
    pub(super) fn fire(&mut self, me: usize, timer: Timer) {
        assert!(
            self.nodes[me].timers.remove(&timer),
            "{timer:?} is armed at {me}"
        );
        self.step(me, Input::Timer(timer));
    }

    /// Lets a replica stand, and everything that follows happen.
    pub(super) fn elect(&mut self, me: usize) {
        self.fire(me, Timer::Election);
        self.run();
    }

    /// Delivers everything that is on its way, and what it causes.
    pub(super) fn run(&mut self) {
        self.run_losing(|_, _, _| false);
    }

    /// Runs on, but for messages that are lost.
    pub(super) fn run_losing(&mut self, is_lost: impl Fn(usize, usize, &Message) -> bool) {
        loop {
            while let Some((from, to, message)) = self.wire.pop_front() {
                if !is_lost(from, to, &message) {
                    self.receive(from, to, message);
                }
            }
            if !(0..self.nodes.len()).any(|me| self.gather(me)) {
                return;
            }
        }
    }

    /// Delivers everything; what this replica wants gathered takes longer.
    pub(super) fn run_but_gather(&mut self, me: usize) {
        while let Some((from, to, message)) = self.wire.pop_front() {
            self.receive(from, to, message);
        }
        assert!(!self.nodes[me].gathers.is_empty(), "it waits for payloads");
    }

    /// Gathers what a replica wants, as far as others that it reaches have fragments enough. Says
    /// whether anything came of it.
    pub(super) fn gather(&mut self, me: usize) -> bool {
        let wanted = std::mem::take(&mut self.nodes[me].gathers);
        let (here, missing): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|entry| host::can_rebuild(self, me, entry));
        self.nodes[me].gathers = missing;
        for entry in &here {
            let share = Some(hollow_share(entry, 1, 0));
            self.step(me, Input::Held(entry.clone().with_share(share)));
        }
        !here.is_empty()
    }

    /// Delivers the messages of a link that are on their way, and nothing they cause.
    pub(super) fn pass(&mut self, from: usize, to: usize) {
        let (now, later) = self
            .wire
            .drain(..)
            .partition(|(f, t, _)| (*f, *t) == (from, to));
        self.wire = later;
        let now: VecDeque<_> = now;
        for (from, to, message) in now {
            self.receive(from, to, message);
        }
    }

    /// Loses what is on its way and meets a condition.
    pub(super) fn lose(&mut self, is_lost: impl Fn(usize, usize, &Message) -> bool) {
        self.wire
            .retain(|(from, to, message)| !is_lost(*from, *to, message));
    }

    /// Cuts a replica off from all others.
    pub(super) fn isolate(&mut self, me: usize) {
        for other in 0..self.nodes.len() {
            self.cut.extend([(me, other), (other, me)]);
        }
    }

    /// Says that a replica's links are down, or up, at both ends.
    pub(super) fn hint(&mut self, me: usize, up: bool) {
        for other in (0..self.nodes.len()).filter(|other| *other != me) {
            let (mine, theirs) = (id(other), id(me));
            self.step(me, Input::Link { peer: mine, up });
            self.step(other, Input::Link { peer: theirs, up });
        }
    }

    pub(super) fn receive(&mut self, from: usize, to: usize, message: Message) {
        if self.cut.contains(&(from, to)) {
            return;
        }
        let message = carried(&message, to as u8);
        let from = id(from);
        self.step(to, Input::Message { from, message });
    }

    fn perform(&mut self, me: usize) {
        for output in self.nodes[me].out.drain().collect::<Vec<_>>() {
            self.perform_one(me, output);
        }
        if !self.nodes[me].is_stuck {
            self.flush(me);
        }
    }

    /// Everything persisted is durable now; what waited for it leaves.
    pub(super) fn flush(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        let persisted = node.out.persisted();
        if node.flushed == persisted {
            return;
        }
        (node.flushed, node.flushes) = (persisted, node.flushes + 1);
        for (_, to, message) in std::mem::take(&mut node.gated) {
            self.send(me, to, message);
        }
        self.step(me, Input::Durable(persisted));
    }

    fn perform_one(&mut self, me: usize, output: Output<Replica>) {
        let node = &mut self.nodes[me];
        match output {
            Output::Send { to, message, after } if after <= node.flushed => {
                self.send(me, to, message);
            }
            Output::Send { to, message, after } => node.gated.push_back((after, to, message)),
            Output::Persist { lsn, record } => {
                host::check_sender(&record, me);
                let record = carried(&record, me as u8);
                if !self.forget.is_some_and(|forget| forget(&record)) {
                    node.disk.push((lsn, record));
                }
            }
            Output::Note(_) => {}
            Output::Arm { timer, .. } => {
                node.timers.insert(timer);
            }
            Output::Disarm(timer) => {
                node.timers.remove(&timer);
            }
            Output::Gather(entry) => node.gathers.push(entry),
            Output::Forget(entry) => panic!("{me} forgets {entry:?}, which it may have promised"),
            Output::CatchUp { from, .. } => self.give_log(index(from), me),
            Output::Inform { peer, .. } => self.give_log(me, index(peer)),
            Output::Deliver { slot, entry } => self.append(me, slot, entry),
            Output::Execute { .. } | Output::Retract { .. } | Output::Tell { .. } => {
                panic!("nothing is executed ahead, and there are no remote gateways")
            }
            Output::Reply { id, outcome } => node.replies.push((id, outcome)),
            Output::Emit(Event::Branch(name)) => {
                self.branches.insert(name);
            }
            Output::Emit(Event::Decided { .. }) => {}
            Output::Emit(Event::Misbehaved { peer, what }) => {
                panic!("{me} says {peer:?} misbehaved: {what}")
            }
        }
    }

    fn send(&mut self, from: usize, to: Peers, message: Message) {
        if let Message::Accept(Accept {
            ballot,
            slot,
            value,
            ..
        }) = &message
        {
            let name = value.as_ref().map(|entry| entry.id);
            let first = self.proposed.entry((*slot, *ballot)).or_insert(name);
            assert_eq!(*first, name, "one value per slot and ballot (I1)");
        }
        let name = match &message {
            Message::Forward { .. } => "forward",
            Message::PreVote { .. } | Message::PreVoteOk { .. } => "pre-vote",
            Message::Prepare { .. } | Message::Promise(_) => "phase 1",
            Message::Nack { .. } => "nack",
            Message::Accept(_) => "accept",
            Message::Lacks { .. } => "lacks",
            Message::Spread { .. } | Message::Has { .. } => "spread",
            Message::Accepted { .. } => "accepted",
            Message::Commit { .. } => "commit",
            Message::Ask { .. } => "ask",
            Message::ReadQ { .. } | Message::ReadA { .. } => "read",
            Message::Rejoin { .. } | Message::RejoinA { .. } => "rejoin",
        };
        let peers = (0..self.nodes.len()).filter(|peer| *peer != from);
        let peers = peers.filter(|peer| to == Peers::All || to == Peers::One(id(*peer)));
        for peer in peers {
            host::check_sender(&message, peer);
            *self.sent.entry(name).or_default() += 1;
            if let Some(attachment) = message.attachment() {
                *self.sent.entry("fragment").or_default() += 1;
                assert!(attachment.entry.bulk_len() > 0);
            }
            self.wire.push_back((from, peer, message.clone()));
        }
    }

    /// What one replica has decided and another has not goes over, unless they are cut off.
    fn give_log(&mut self, from: usize, to: usize) {
        let have = self.nodes[to].log.len();
        let news = self.nodes[from]
            .log
            .get(have..)
            .unwrap_or_default()
            .to_vec();
        let is_cut = self.cut.contains(&(from, to)) || self.nodes[to].machine.is_none();
        if news.is_empty() || is_cut {
            return;
        }
        for (slot, entry) in (have as u64..).map(Slot).zip(news) {
            self.append(to, slot, entry);
        }
        let next = Slot(self.nodes[to].log.len() as u64);
        let base = self.nodes[to].base.clone();
        self.step(to, Input::Installed { next, base });
    }

    fn append(&mut self, me: usize, slot: Slot, entry: Option<Entry>) {
        let node = &mut self.nodes[me];
        assert_eq!(slot.0, node.log.len() as u64, "deliveries have no gaps");
        let name = entry.as_ref().map(|entry| entry.id);
        let is_new = name.is_none_or(|name| !node.base.entries.contains(name));
        assert!(is_new, "every entry takes effect once (I12)");
        node.base.advance(slot, entry.as_ref());
        node.log.push(entry.clone());
        if !self.decided.contains_key(&slot)
            && let Some(entry) = entry
        {
            host::check_rebuildable(self, &entry);
        }
        let first = self.decided.entry(slot).or_insert(name);
        assert_eq!(
            *first, name,
            "one value is chosen per slot (I2), {slot:?} at {me}"
        );
    }
}

/// Where clocks begin, in ns.
const START_NS: u64 = 1_000_000_000;
