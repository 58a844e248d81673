//! A deterministic cluster in memory: machines, a network that misbehaves as told, disks that
//! forget what was not flushed, and the host's decided log. It watches what the replicas say and
//! decide, and reports the first thing that contradicts what was said or decided before.

use crate::rabia::{Config, DecidedSet, Message, Rabia, Record, Replica, Timer, Trail};
use crate::registry::Protocol;
use crate::shared::seat;
use bytes::Bytes;
use quorate_core::{
    Base, Boot, Class, ClientId, Command, Due, Entry, EntryId, Event, Input, Introspect, Lsn,
    MICROS, Machine, Now, Out, Outcome, Output, Past, Peers, Principal, Record as _, ReplicaId,
    RequestId, Seat, Slot, Wire,
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const DELAY_NS: u64 = 100 * MICROS;

/// A small generator (xorshift64*).
#[derive(Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

#[derive(Clone, Debug)]
pub(super) enum Packet {
    Message(Message),
    /// Host to host: "give me the log from here".
    Fetch(Slot),
    /// Host to host: a stretch of the decided log.
    Log(Slot, Vec<Option<Entry>>),
}

#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) due_ns: u64,
    number: u64,
    pub(super) packet: Packet,
}

pub(super) struct Node {
    pub(super) config: Config,
    pub(super) machine: Option<Replica>,
    out: Out<Replica>,
    pub(super) disk: Vec<(Lsn, Record)>,
    flushed: Lsn,
    /// The replica lost everything, and has not written since.
    lost: bool,
    flush_due_ns: Option<u64>,
    gated: Vec<(Lsn, Peers, Message)>,
    pub(super) timers: BTreeMap<Timer, u64>,
    pub(super) log: Vec<Option<Entry>>,
    log_flushed: usize,
    pub(super) base: DecidedSet,
    pub(super) replies: Vec<(RequestId, Outcome)>,
    pub(super) clock_offset_ns: i64,
}

/// How the world treats packets and disks.
#[derive(Clone, Default)]
pub(super) struct Weather {
    pub(super) delay_ns: (u64, u64),
    pub(super) flush_ns: (u64, u64),
    pub(super) loss_percent: u64,
    pub(super) dup_percent: u64,
}

pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    pub(super) net: Vec<InFlight>,
    pub(super) weather: Weather,
    pub(super) blocked: BTreeSet<(usize, usize)>,
    pub(super) forget: Option<fn(&Record) -> bool>,
    /// Takes lost promises for none.
    pub(super) amnesia: bool,
    pub(super) now_ns: u64,
    pub(super) dice: Dice,
    pub(super) violation: Option<String>,
    pub(super) sent: BTreeMap<&'static str, usize>,
    pub(super) branches: BTreeMap<&'static str, usize>,
    pub(super) decided: Vec<(usize, Slot, bool, bool)>,
    pub(super) chosen: BTreeMap<Slot, (u64, Option<Entry>)>,
    said: BTreeMap<(usize, Slot), (Option<EntryId>, Trail)>,
    numbers: u64,
    commands: u64,
}

pub(super) fn id(n: usize) -> ReplicaId {
    ReplicaId(n as u16 + 1)
}

pub(super) fn seat(n: usize, me: usize, boot: u64, params: &[(&str, &str)]) -> Seat {
    seat::seat(Rabia::NAME, n, me, boot, params)
}

pub(super) fn config(n: usize, me: usize, params: &[(&str, &str)]) -> Config {
    Rabia::config(&seat(n, me, me as u64 + 1, params)).unwrap()
}

pub(super) fn command(seq: u64, class: Class) -> Command {
    Command {
        id: RequestId {
            client: ClientId(1),
            seq,
        },
        acked: 0,
        class,
        principal: Principal(0),
        body: Bytes::from_static(b"set x"),
        payloads: Vec::new(),
    }
}

impl Cluster {
    /// A healthy cluster in lock step: every message takes `DELAY_NS`, disks are instantaneous.
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Cluster {
        Cluster::with(n, params, 1, |_| {})
    }

    pub(super) fn with(
        n: usize,
        params: &[(&str, &str)],
        seed: u64,
        sabotage: impl Fn(&mut Config),
    ) -> Cluster {
        let mut cluster = Cluster {
            nodes: Vec::new(),
            net: Vec::new(),
            weather: Weather {
                delay_ns: (DELAY_NS, DELAY_NS),
                ..Weather::default()
            },
            blocked: BTreeSet::new(),
            forget: None,
            amnesia: false,
            now_ns: 1_000_000_000,
            dice: Dice::new(seed),
            violation: None,
            sent: BTreeMap::new(),
            branches: BTreeMap::new(),
            decided: Vec::new(),
            chosen: BTreeMap::new(),
            said: BTreeMap::new(),
            numbers: 0,
            commands: 0,
        };
        for me in 0..n {
            let mut config = config(n, me, params);
            config.seed = seed;
            sabotage(&mut config);
            cluster.nodes.push(Node {
                config,
                machine: None,
                out: Out::default(),
                disk: Vec::new(),
                flushed: Lsn(0),
                lost: false,
                flush_due_ns: None,
                gated: Vec::new(),
                timers: BTreeMap::new(),
                log: Vec::new(),
                log_flushed: 0,
                base: DecidedSet::default(),
                replies: Vec::new(),
                clock_offset_ns: 0,
            });
            cluster.boot(me, Past::Fresh);
        }
        cluster
    }

    pub(super) fn now(&self, node: usize) -> Now {
        let offset = self.nodes[node].clock_offset_ns;
        Now {
            mono_ns: self.now_ns,
            clock_ns: (100_000_000_000 + self.now_ns).saturating_add_signed(offset),
            clock_error_ns: 0,
        }
    }

    fn boot(&mut self, me: usize, past: Past<Replica>) {
        let now = self.now(me);
        let node = &mut self.nodes[me];
        node.out = Out::default();
        let machine = Replica::recover(&node.config, past, now, &mut node.out);
        node.machine = Some(machine);
        self.perform(me);
    }

    pub(super) fn is_up(&self, node: usize) -> bool {
        self.nodes[node].machine.is_some()
    }

    pub(super) fn step(&mut self, me: usize, input: Input<Replica>) {
        let now = self.now(me);
        let node = &mut self.nodes[me];
        let Some(machine) = node.machine.as_mut() else {
            return;
        };
        machine.step(now, input, &mut node.out);
        if self.violation.is_none() {
            machine.check();
        }
        self.perform(me);
    }

    /// Submits one command and returns its id.
    pub(super) fn submit(&mut self, me: usize, class: Class) -> RequestId {
        self.commands += 1;
        let command = command(self.commands, class);
        let id = command.id;
        self.step(me, Input::Submit(vec![command]));
        id
    }

    pub(super) fn write(&mut self, me: usize) -> RequestId {
        self.submit(me, Class::Write)
    }

    fn perform(&mut self, me: usize) {
        let outputs = self.nodes[me].out.drain().collect::<Vec<_>>();
        for output in outputs {
            self.perform_one(me, output);
        }
        if self.nodes[me].flushed < self.nodes[me].out.persisted() {
            let (low, high) = self.weather.flush_ns;
            if high == 0 {
                self.flush(me);
            } else if self.nodes[me].flush_due_ns.is_none() {
                let wait = low + self.dice.below(high - low + 1);
                self.nodes[me].flush_due_ns = Some(self.now_ns + wait);
            }
        }
    }

    fn perform_one(&mut self, me: usize, output: Output<Replica>) {
        match output {
            Output::Send { to, message, after } => {
                if after <= self.nodes[me].flushed {
                    self.release(me, to, message);
                } else {
                    self.nodes[me].gated.push((after, to, message));
                }
            }
            Output::Persist { lsn, record } => {
                let record = Record::from_bytes(record.to_bytes()).unwrap();
                if !self.forget.is_some_and(|forget| forget(&record)) {
                    self.nodes[me].disk.push((lsn, record));
                }
            }
            Output::Note(_) => {}
            Output::Arm { timer, due } => {
                let wait = match due {
                    Due::After(wait) => wait,
                    Due::Within(range) => {
                        range.start() + self.dice.below(range.end() - range.start() + 1)
                    }
                };
                let due_ns = self.now_ns + wait;
                self.nodes[me].timers.insert(timer, due_ns);
            }
            Output::Disarm(timer) => {
                self.nodes[me].timers.remove(&timer);
            }
            Output::Gather(entry) => panic!("{me} orders everything whole, {entry:?} too"),
            Output::Forget(entry) => panic!("{me} orders all that is offered, {entry:?} too"),
            Output::CatchUp { from, through } => {
                assert!(through.0 >= self.nodes[me].log.len() as u64);
                let first = Slot(self.nodes[me].log.len() as u64);
                self.put(me, usize::from(from.0) - 1, Packet::Fetch(first));
            }
            Output::Inform { peer, from } => self.give_log(me, usize::from(peer.0) - 1, from),
            Output::Deliver { slot, entry } => self.append(me, slot, entry),
            Output::Execute { .. } | Output::Retract { .. } | Output::Tell { .. } => {
                panic!("nothing is executed ahead, and there are no remote gateways")
            }
            Output::Reply { id, outcome } => self.nodes[me].replies.push((id, outcome)),
            Output::Emit(event) => self.note(me, event),
        }
    }

    fn note(&mut self, me: usize, event: Event) {
        match event {
            Event::Decided {
                slot, fast, noop, ..
            } => self.decided.push((me, slot, fast, noop)),
            Event::Branch(name) => *self.branches.entry(name).or_default() += 1,
            Event::Misbehaved { peer, what } => {
                self.violate(format!("{me} says {peer:?} misbehaved: {what}"));
            }
        }
    }

    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    fn append(&mut self, me: usize, slot: Slot, entry: Option<Entry>) {
        let now_ns = self.now_ns;
        let node = &mut self.nodes[me];
        assert_eq!(slot.0, node.log.len() as u64, "deliveries have no gaps");
        if let Some(entry) = &entry {
            assert!(
                !node.base.entries.contains(entry.id),
                "every batch once (I7)"
            );
        }
        node.base.advance(slot, entry.as_ref());
        node.log.push(entry.clone());
        let (_, first) = self.chosen.entry(slot).or_insert((now_ns, entry.clone()));
        if *first != entry {
            let what = format!("{slot:?}: {me} delivers {entry:?}, another {first:?} (I5)");
            self.violate(what);
        }
    }

    /// Everything persisted so far is durable now; what waited for it leaves.
    pub(super) fn flush(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        let lsn = node.out.persisted();
        node.flushed = lsn;
        node.lost = false;
        node.flush_due_ns = None;
        node.log_flushed = node.log.len();
        let gated = std::mem::take(&mut node.gated);
        for (_, to, message) in gated {
            self.release(me, to, message);
        }
        self.step(me, Input::Durable(lsn));
    }

    fn release(&mut self, from: usize, to: Peers, message: Message) {
        let spelled_out = match &message {
            Message::Slot(said) => vec![*said],
            Message::Nulls(nulls) => nulls.spelled_out(self.nodes[from].config.mode).collect(),
            _ => Vec::new(),
        };
        for said in &spelled_out {
            let key = (from, said.slot);
            let (prop, trail) = *self.said.entry(key).or_insert((said.prop, said.trail));
            let extends = trail.is_prefix_of(&said.trail) || said.trail.is_prefix_of(&trail);
            if prop != said.prop || !extends {
                self.violate(format!("{from} said {prop:?} {trail:?}, now {said:?} (I1)"));
            } else if said.trail.len() > trail.len() {
                self.said.insert(key, (said.prop, said.trail));
            }
        }
        let message = Message::from_bytes(message.to_bytes()).unwrap();
        match to {
            Peers::One(peer) => {
                self.put(from, usize::from(peer.0) - 1, Packet::Message(message));
            }
            Peers::All => {
                for to in (0..self.nodes.len()).filter(|to| *to != from) {
                    self.put(from, to, Packet::Message(message.clone()));
                }
            }
        }
    }

    fn give_log(&mut self, me: usize, to: usize, from: Slot) {
        let log = &self.nodes[me].log;
        if let Some(entries) = log.get(from.0 as usize..).filter(|log| !log.is_empty()) {
            let packet = Packet::Log(from, entries.to_vec());
            self.put(me, to, packet);
        }
    }

    fn put(&mut self, from: usize, to: usize, packet: Packet) {
        let name = match &packet {
            Packet::Message(Message::Batch { .. }) => "batch",
            Packet::Message(Message::Need { .. }) => "need",
            Packet::Message(Message::Have { .. }) => "have",
            Packet::Message(Message::Slot(_)) => "slot",
            Packet::Message(Message::Nulls(_)) => "nulls",
            Packet::Message(Message::Decided { .. }) => "decided",
            Packet::Message(Message::ReadQ { .. } | Message::ReadA { .. }) => "read",
            Packet::Message(
                Message::Recover { .. } | Message::RecoverA { .. } | Message::Nudge { .. },
            ) => "rejoin",
            Packet::Fetch(_) => "fetch",
            Packet::Log(..) => "log",
        };
        *self.sent.entry(name).or_default() += 1;
        let copies =
            if self.blocked.contains(&(from, to)) || self.dice.percent(self.weather.loss_percent) {
                0
            } else {
                1 + u64::from(self.dice.percent(self.weather.dup_percent))
            };
        for _ in 0..copies {
            let (low, high) = self.weather.delay_ns;
            let due_ns = self.now_ns + low + self.dice.below(high - low + 1);
            self.numbers += 1;
            self.net.push(InFlight {
                from,
                to,
                due_ns,
                number: self.numbers,
                packet: packet.clone(),
            });
        }
    }

    fn receive(&mut self, from: usize, to: usize, packet: Packet) {
        if !self.is_up(to) {
            return;
        }
        match packet {
            Packet::Message(message) => {
                let from = id(from);
                self.step(to, Input::Message { from, message });
            }
            Packet::Fetch(first) => self.give_log(to, from, first),
            Packet::Log(first, entries) => {
                let next = self.nodes[to].log.len();
                let Some(skip) = next.checked_sub(first.0 as usize) else {
                    return;
                };
                if entries.len() <= skip {
                    return;
                }
                for (slot, entry) in (next as u64..).zip(entries.into_iter().skip(skip)) {
                    self.append(to, Slot(slot), entry);
                }
                let base = self.nodes[to].base.clone();
                let next = Slot(self.nodes[to].log.len() as u64);
                self.step(to, Input::Installed { next, base });
            }
        }
    }

    /// When the next thing happens by itself.
    fn next_due_ns(&self) -> Option<u64> {
        let packets = self.net.iter().map(|packet| packet.due_ns);
        let timers = self
            .nodes
            .iter()
            .flat_map(|node| node.timers.values().copied());
        let flushes = self.nodes.iter().filter_map(|node| node.flush_due_ns);
        packets.chain(timers).chain(flushes).min()
    }

    /// Does the next thing if it is due by then. Packets first, then disks, then timers.
    fn advance(&mut self, until_ns: u64) -> bool {
        let Some(due_ns) = self.next_due_ns().filter(|due| *due <= until_ns) else {
            return false;
        };
        self.now_ns = self.now_ns.max(due_ns);
        let due = self
            .net
            .iter()
            .enumerate()
            .filter(|(_, p)| p.due_ns == due_ns);
        if let Some((index, _)) = due.min_by_key(|(_, p)| p.number) {
            let packet = self.net.remove(index);
            self.receive(packet.from, packet.to, packet.packet);
            return true;
        }
        let flush = self
            .nodes
            .iter()
            .position(|node| node.flush_due_ns == Some(due_ns));
        if let Some(node) = flush {
            self.flush(node);
            return true;
        }
        for me in 0..self.nodes.len() {
            let timers = &mut self.nodes[me].timers;
            if let Some(timer) = timers.iter().find(|(_, d)| **d == due_ns).map(|(t, _)| *t) {
                timers.remove(&timer);
                self.step(me, Input::Timer(timer));
                return true;
            }
        }
        unreachable!("something is due at {due_ns}")
    }

    pub(super) fn run_for(&mut self, ns: u64) {
        let until_ns = self.now_ns + ns;
        while self.violation.is_none() && self.advance(until_ns) {}
        self.now_ns = until_ns;
    }

    /// Runs until nothing is in flight, on its way to disk, or armed. False if that takes more
    /// than `ns`.
    pub(super) fn run_until_silent(&mut self, ns: u64) -> bool {
        let until_ns = self.now_ns + ns;
        while self.violation.is_none() && self.advance(until_ns) {}
        self.next_due_ns().is_none()
    }

    /// Delivers what is in flight from one to another now, and nothing it causes.
    pub(super) fn pass(&mut self, from: usize, to: usize) {
        let is_it = |p: &InFlight| p.from == from && p.to == to;
        let (now, later) = self.net.drain(..).partition::<Vec<_>, _>(is_it);
        self.net = later;
        for packet in now {
            self.receive(packet.from, packet.to, packet.packet);
        }
    }

    /// The process dies; what was not flushed is gone.
    pub(super) fn crash(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.machine = None;
        let flushed = node.flushed;
        node.disk.retain(|(lsn, _)| *lsn <= flushed);
        node.gated.clear();
        node.timers.clear();
        node.flush_due_ns = None;
        node.log.truncate(node.log_flushed);
        node.base = DecidedSet::default();
        for (slot, entry) in node.log.iter().enumerate() {
            node.base.advance(Slot(slot as u64), entry.as_ref());
        }
    }

    /// The process comes back with its disk.
    pub(super) fn restart(&mut self, me: usize) {
        if self.nodes[me].lost {
            return self.restart_lost(me);
        }
        let node = &mut self.nodes[me];
        let next = Slot(node.log.len() as u64);
        let base = node.base.clone();
        let is_open = |record: &Record| {
            record.slot().is_none_or(|slot| slot >= next)
                && record
                    .entry()
                    .is_none_or(|entry| !base.entries.contains(entry.id))
        };
        node.disk.retain(|(_, record)| is_open(record));
        node.disk.iter_mut().for_each(|(lsn, _)| *lsn = Lsn(0));
        node.flushed = Lsn(0);
        node.config.boot = Boot(node.config.boot.0 + 100);
        let records = node.disk.iter().map(|(_, record)| record.clone()).collect();
        self.boot(
            me,
            Past::Intact {
                next,
                base,
                records,
            },
        );
    }

    /// The process comes back with nothing.
    pub(super) fn restart_lost(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.lost = true;
        node.disk.clear();
        node.log.clear();
        node.log_flushed = 0;
        node.base = DecidedSet::default();
        node.flushed = Lsn(0);
        node.config.boot = Boot(node.config.boot.0 + 100);
        let (next, base) = (Slot(0), DecidedSet::default());
        let records = Vec::new();
        let past = if self.amnesia {
            Past::Intact {
                next,
                base,
                records,
            }
        } else {
            Past::Lost { next, base }
        };
        self.boot(me, past);
    }

    /// Whether a replica is up and beyond what it may have lost.
    pub(super) fn is_serving(&self, me: usize) -> bool {
        let machine = self.nodes[me].machine.as_ref();
        machine.is_some_and(Replica::is_serving)
    }

    /// Ids in the log of a replica, NULLs left out.
    pub(super) fn entries(&self, me: usize) -> Vec<EntryId> {
        self.nodes[me]
            .log
            .iter()
            .flatten()
            .map(|entry| entry.id)
            .collect()
    }

    /// The slot a request was delivered in at a replica.
    pub(super) fn slot_of(&self, me: usize, request: RequestId) -> Option<Slot> {
        let mut log = self.nodes[me].log.iter().enumerate();
        log.find_map(|(slot, entry)| {
            let mut commands = entry.as_ref()?.commands();
            commands
                .any(|c| c.unwrap().id == request)
                .then_some(Slot(slot as u64))
        })
    }

    pub(super) fn has_everywhere(&self, request: RequestId) -> bool {
        (0..self.nodes.len()).all(|me| self.slot_of(me, request).is_some())
    }

    /// The first slot behind every request that some replica has delivered.
    pub(super) fn first_without_effect(&self) -> Slot {
        let last = self
            .nodes
            .iter()
            .filter_map(|node| node.log.iter().rposition(Option::is_some));
        Slot(last.max().map_or(0, |slot| slot as u64 + 1))
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.sent.get(name).copied().unwrap_or(0)
    }

    pub(super) fn branch(&self, name: &str) -> usize {
        self.branches.get(name).copied().unwrap_or(0)
    }

    #[track_caller]
    pub(super) fn assert_sound(&self) {
        assert_eq!(self.violation, None);
    }
}
