//! A cluster in memory whose messages and disks move only as told. It watches what replicas
//! propose, append and deliver, and fails on the first thing that contradicts what came before.

use crate::chora::{Chora, Config, Logged, Message, Reason, Record, Replica, Timer};
use crate::registry::Protocol;
use crate::shared::decided::DecidedSet;
use crate::shared::seat;
use bytes::Bytes;
use quorate_core::{
    Base, Boot, Class, ClientId, Command, Due, Entry, EntryId, Event, Input, Introspect, Lsn,
    Machine, Now, Out, Outcome, Output, Past, Peers, Principal, Record as _, ReplicaId, RequestId,
    Seat, Slot, carried,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) struct Node {
    pub(super) config: Config,
    pub(super) machine: Option<Replica>,
    out: Out<Replica>,
    disk: Vec<(Lsn, Record)>,
    flushed: Lsn,
    /// Flushes do not get done.
    pub(super) is_stuck: bool,
    gated: VecDeque<(Lsn, Peers, Message)>,
    pub(super) timers: BTreeSet<Timer>,
    /// When each is due that runs, or ran.
    pub(super) dues: BTreeMap<Timer, u64>,
    pub(super) log: Vec<Option<Entry>>,
    base: DecidedSet,
    pub(super) replies: Vec<(RequestId, Outcome)>,
    boots: u64,
}

pub(super) struct Net {
    pub(super) nodes: Vec<Node>,
    /// What is on its way, in the order sent.
    pub(super) wire: VecDeque<(usize, usize, Message)>,
    /// Links that lose everything.
    pub(super) cut: BTreeSet<(usize, usize)>,
    pub(super) sent: usize,
    pub(super) branches: BTreeSet<&'static str>,
    /// Replicas check themselves; without, only what they say and deliver tells.
    pub(super) are_checked: bool,
    /// Records that are not written.
    pub(super) forget: Option<fn(&Record) -> bool>,
    /// The value of a slot and view.
    proposed: BTreeMap<(Slot, u64), Option<EntryId>>,
    decided: BTreeMap<Slot, Option<EntryId>>,
    /// Reads without an answer, and what they must see.
    reads: BTreeMap<RequestId, usize>,
    pub(super) commands: u64,
    pub(super) now_ns: u64,
}

fn id(node: usize) -> ReplicaId {
    ReplicaId(node as u16 + 1)
}

fn index(id: ReplicaId) -> usize {
    usize::from(id.0) - 1
}

pub(super) fn seat(n: usize, me: usize, params: &[(&str, &str)]) -> Seat {
    seat::seat(Chora::NAME, n, me, me as u64 + 1, params)
}

impl Net {
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Net {
        Net::with(n, params, |_| {})
    }

    /// The same with something changed in every configuration.
    pub(super) fn with(n: usize, params: &[(&str, &str)], edit: fn(&mut Config)) -> Net {
        let node = |me| {
            let mut config = Chora::config(&seat(n, me, params)).unwrap();
            edit(&mut config);
            Node {
                config,
                machine: None,
                out: Out::default(),
                disk: Vec::new(),
                flushed: Lsn(0),
                is_stuck: false,
                gated: VecDeque::new(),
                timers: BTreeSet::new(),
                dues: BTreeMap::new(),
                log: Vec::new(),
                base: DecidedSet::default(),
                replies: Vec::new(),
                boots: 0,
            }
        };
        let mut net = Net {
            nodes: (0..n).map(node).collect(),
            wire: VecDeque::new(),
            cut: BTreeSet::new(),
            sent: 0,
            branches: BTreeSet::new(),
            are_checked: true,
            forget: None,
            proposed: BTreeMap::new(),
            decided: BTreeMap::new(),
            reads: BTreeMap::new(),
            commands: 0,
            now_ns: 1_000_000_000,
        };
        (0..n).for_each(|me| net.boot(me, Past::Fresh));
        net
    }

    fn boot(&mut self, me: usize, past: Past<Replica>) {
        let now = self.now();
        let node = &mut self.nodes[me];
        node.boots += 1;
        node.config.boot = Boot(100 * node.boots + me as u64);
        (node.out, node.flushed) = (Out::default(), Lsn(0));
        node.machine = Some(Replica::recover(&node.config, past, now, &mut node.out));
        self.perform(me);
    }

    pub(super) fn crash(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.machine = None;
        node.disk.retain(|(lsn, _)| *lsn <= node.flushed);
        node.disk.iter_mut().for_each(|(lsn, _)| *lsn = Lsn(0));
        node.gated.clear();
        node.timers.clear();
        node.is_stuck = false;
    }

    /// Starts again with what was durable.
    pub(super) fn restart(&mut self, me: usize) {
        let node = &self.nodes[me];
        let next = Slot(node.log.len() as u64);
        let counts = |record: &Record| record.slot().is_none_or(|slot| slot >= next);
        let records = node.disk.iter().map(|(_, record)| record.clone());
        let past = Past::Intact {
            next,
            base: node.base.clone(),
            records: records.filter(counts).collect(),
        };
        self.boot(me, past);
    }

    /// Starts again without its promises.
    pub(super) fn lose(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.disk.clear();
        let past = Past::Lost {
            next: Slot(node.log.len() as u64),
            base: node.base.clone(),
        };
        self.boot(me, past);
    }

    /// The positions of the proposers of the view that a replica is in, if it knows them.
    pub(super) fn pattern(&self, me: usize) -> Option<Vec<usize>> {
        let init = self.machine(me).init.as_ref()?;
        let positions = init.pattern.iter().map(|member| member.position());
        Some(positions.collect())
    }

    pub(super) fn machine(&self, me: usize) -> &Replica {
        self.nodes[me].machine.as_ref().expect("it runs")
    }

    pub(super) fn step(&mut self, me: usize, input: Input<Replica>) {
        let now = self.now();
        let node = &mut self.nodes[me];
        if let Some(machine) = &mut node.machine {
            machine.step(now, input, &mut node.out);
            if self.are_checked {
                machine.check();
            }
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

    fn submit(&mut self, me: usize, class: Class) -> RequestId {
        self.commands += 1;
        let id = RequestId {
            client: ClientId(1),
            seq: self.commands,
        };
        if class == Class::Read {
            let logs = self.nodes.iter().map(|node| node.log.len());
            self.reads.insert(id, logs.max().unwrap_or(0));
        }
        let command = Command {
            id,
            acked: 0,
            class,
            principal: Principal(0),
            body: Bytes::from_static(b"set x"),
            payloads: Vec::new(),
        };
        self.step(me, Input::Submit(vec![command]));
        id
    }

    pub(super) fn write(&mut self, me: usize) -> RequestId {
        self.submit(me, Class::Write)
    }

    pub(super) fn read(&mut self, me: usize) -> RequestId {
        self.submit(me, Class::Read)
    }

    /// A replica asks for a new view, which nobody refuses but for its log.
    pub(super) fn stand(&mut self, me: usize) {
        self.stand_because(me, Reason::Restarted);
    }

    /// The same, for some reason.
    pub(super) fn stand_because(&mut self, me: usize, reason: Reason) {
        let node = &mut self.nodes[me];
        let machine = node.machine.as_mut().expect("it runs");
        machine.canvass(reason, &mut node.out);
        self.perform(me);
    }

    /// Lets a timer fire if it is armed.
    pub(super) fn fire(&mut self, me: usize, timer: Timer) -> bool {
        let is_armed = self.nodes[me].timers.remove(&timer);
        if is_armed {
            self.step(me, Input::Timer(timer));
        }
        is_armed
    }

    /// Delivers everything that is on its way, and what it causes.
    pub(super) fn run(&mut self) {
        self.run_losing(|_, _, _| false);
    }

    /// The same, but for messages that are lost.
    pub(super) fn run_losing(&mut self, is_lost: impl Fn(usize, usize, &Message) -> bool) {
        for _ in 0..20_000 {
            let Some((from, to, message)) = self.wire.pop_front() else {
                return;
            };
            if !is_lost(from, to, &message) {
                self.receive(from, to, message);
            }
        }
        panic!("they do not stop talking");
    }

    /// Cuts a replica off from all others.
    pub(super) fn isolate(&mut self, me: usize) {
        for other in 0..self.nodes.len() {
            self.cut.extend([(me, other), (other, me)]);
        }
    }

    pub(super) fn receive(&mut self, from: usize, to: usize, message: Message) {
        if !self.cut.contains(&(from, to)) {
            let message = carried(&message, to as u8);
            let from = id(from);
            self.step(to, Input::Message { from, message });
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
        if node.flushed == persisted || node.machine.is_none() {
            return;
        }
        node.flushed = persisted;
        for (_, to, message) in std::mem::take(&mut node.gated) {
            self.send(me, to, &message);
        }
        self.step(me, Input::Durable(persisted));
    }

    fn perform_one(&mut self, me: usize, output: Output<Replica>) {
        let node = &mut self.nodes[me];
        match output {
            Output::Send { to, message, after } if after <= node.flushed => {
                self.send(me, to, &message);
            }
            Output::Send { to, message, after } => node.gated.push_back((after, to, message)),
            Output::Persist { lsn, record } => {
                self.check_append(&record);
                if !self.forget.is_some_and(|forget| forget(&record)) {
                    self.nodes[me].disk.push((lsn, carried(&record, me as u8)));
                }
            }
            Output::Arm { timer, due } => {
                let wait_ns = match due {
                    Due::After(ns) => ns,
                    Due::Within(range) => *range.end(),
                };
                node.timers.insert(timer);
                node.dues.insert(timer, self.now_ns + wait_ns);
            }
            Output::Disarm(timer) => drop(node.timers.remove(&timer)),
            Output::CatchUp { from, .. } => self.give_log(index(from), me),
            Output::Inform { peer, .. } => self.give_log(me, index(peer)),
            Output::Deliver { slot, entry } => self.deliver(me, slot, entry),
            Output::Execute { .. } | Output::Retract { .. } | Output::Tell { .. } => {
                panic!("nothing is executed ahead, and there are no remote gateways")
            }
            Output::Reply { id, outcome } => {
                node.replies.push((id, outcome.clone()));
                if let (Some(least), Outcome::ReadAt(at)) = (self.reads.remove(&id), outcome) {
                    assert!(
                        at.0 as usize >= least,
                        "a read sees what completed before it"
                    );
                }
            }
            Output::Emit(Event::Branch(name)) => drop(self.branches.insert(name)),
            Output::Emit(Event::Misbehaved { peer, what }) => {
                panic!("{me} says {peer:?} misbehaved: {what}")
            }
            Output::Gather(_) | Output::Forget(_) => panic!("it orders everything whole"),
            Output::Emit(Event::Decided { .. }) | Output::Note(_) => {}
        }
    }

    fn check_append(&mut self, record: &Record) {
        let Record::Append(Logged { slot, eview, value }) = record else {
            return;
        };
        let name = value.entry().map(|entry| entry.id);
        let first = self.proposed.entry((*slot, *eview)).or_insert(name);
        assert_eq!(
            *first, name,
            "one value per slot and view (J1), {slot:?} v{eview}"
        );
    }

    fn send(&mut self, from: usize, to: Peers, message: &Message) {
        let peers = (0..self.nodes.len()).filter(|peer| *peer != from);
        for peer in peers.filter(|peer| to == Peers::All || to == Peers::One(id(*peer))) {
            self.sent += 1;
            self.wire.push_back((from, peer, message.clone()));
        }
    }

    /// What one replica has decided and another has not goes over, unless they are cut off.
    pub(super) fn give_log(&mut self, from: usize, to: usize) {
        self.give_slots(from, to, self.nodes[from].log.len());
    }

    /// The same, only up to a slot.
    pub(super) fn give_slots(&mut self, from: usize, to: usize, until: usize) {
        let have = self.nodes[to].log.len();
        let log = &self.nodes[from].log;
        let news = log.get(have..until).unwrap_or_default().to_vec();
        let is_cut = self.cut.contains(&(from, to)) || self.nodes[to].machine.is_none();
        if news.is_empty() || is_cut {
            return;
        }
        for (slot, entry) in (have as u64..).map(Slot).zip(news) {
            self.deliver(to, slot, entry);
        }
        let next = Slot(self.nodes[to].log.len() as u64);
        let base = self.nodes[to].base.clone();
        self.step(to, Input::Installed { next, base });
    }

    fn deliver(&mut self, me: usize, slot: Slot, entry: Option<Entry>) {
        let node = &mut self.nodes[me];
        assert_eq!(slot.0, node.log.len() as u64, "deliveries have no gaps");
        let name = entry.as_ref().map(|entry| entry.id);
        let is_new = name.is_none_or(|name| !node.base.entries.contains(name));
        assert!(is_new, "every entry takes effect once (J12)");
        node.base.advance(slot, entry.as_ref());
        node.log.push(entry);
        let first = self.decided.entry(slot).or_insert(name);
        assert_eq!(*first, name, "committed slots agree (J6), {slot:?} at {me}");
    }

    /// How often a request is in a replica's log.
    pub(super) fn times(&self, me: usize, request: RequestId) -> usize {
        let entries = self.nodes[me].log.iter().flatten();
        let commands = entries.flat_map(|entry| entry.commands().flatten().collect::<Vec<_>>());
        commands.filter(|command| command.id == request).count()
    }

    /// Lets everybody's timers fire, one after the other, until nobody waits for anything.
    pub(super) fn settle(&mut self) {
        self.settle_but(usize::MAX);
    }

    /// The same, but for one replica's timers.
    pub(super) fn settle_but(&mut self, out: usize) {
        let those: Vec<usize> = (0..self.nodes.len()).filter(|me| *me != out).collect();
        self.settle_timers(&those);
    }

    /// The same among some, who hear nobody else.
    pub(super) fn settle_among(&mut self, those: &[usize]) {
        let kept = self.cut.clone();
        let is_out = |node: &usize| !those.contains(node);
        for out in (0..self.nodes.len()).filter(is_out) {
            self.isolate(out);
        }
        self.settle_timers(those);
        self.cut = kept;
    }

    fn settle_timers(&mut self, those: &[usize]) {
        for turn in 0..400 {
            self.run();
            let n = those.len();
            let order = (0..n).map(|place| those[(place + turn) % n]);
            let mut is_quiet = true;
            for me in order {
                self.now_ns += 1_000_000;
                for timer in [Timer::Gap, Timer::Round, Timer::Stall, Timer::Plan] {
                    is_quiet &= !self.fire(me, timer);
                }
                self.run();
            }
            if is_quiet {
                return;
            }
        }
        let states = self.nodes.iter().filter_map(|node| node.machine.as_ref());
        let states: Vec<String> = states.map(Introspect::explain).collect();
        panic!("nobody gets quiet:\n{}", states.join("\n"));
    }
}
