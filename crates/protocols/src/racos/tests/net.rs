//! A deterministic cluster in memory: machines, a network that loses and repeats, disks that forget what was
//! not flushed or everything, the host's log, and who holds which segment.

mod segments;

pub(super) use super::dice::Dice;
use crate::rabia::weak_mvc;
use crate::racos::{Config, Message, Racos, Record, Replica, Spread, Timer};
use crate::registry::{Protocol, Sabotage};
use crate::{DecidedSet, rabia};
use bytes::Bytes;
use quorate_core::{
    Base, Boot, Carry, Class, ClientId, Command, Entry, EntryId, Event, Input, Introspect, Lsn,
    Machine, Now, Out, Output, Past, Payload, Peers, Principal, Record as _, ReplicaId, RequestId,
    Slot, Wire, carried,
};
use quorate_testkit::seat;
use segments::segment_len;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) struct Node {
    config: Config,
    pub(super) machine: Option<Replica>,
    out: Out<Replica>,
    /// Records, and the numbers of those that are not durable.
    disk: Vec<(Lsn, Record)>,
    gated: VecDeque<(Lsn, Peers, Message)>,
    timers: BTreeSet<Timer>,
    /// The decided log, and how much of it is durable.
    log: Vec<Option<Entry>>,
    log_durable: usize,
    /// Segments of decided values, as the host keeps them.
    kept: BTreeSet<EntryId>,
    gathers: Vec<Entry>,
    boots: u64,
    /// The node lost its disk, and does not vote yet.
    pub(super) is_lost: bool,
}

pub(super) struct Net {
    pub(super) nodes: Vec<Node>,
    pub(super) flying: Vec<(usize, usize, Message)>,
    pub(super) decided: Vec<Option<Entry>>,
    /// Of how many segments each value consists that was spread.
    codes: BTreeMap<EntryId, u8>,
    /// What somebody let go of.
    forgotten: BTreeSet<EntryId>,
    sabotage: Option<Sabotage<Replica>>,
    submitted: u64,
    /// Bytes sent and received, and bytes written, by all: what is said, and segments.
    pub(super) moved: u64,
    pub(super) written: u64,
    /// Counts steps: the time, of which a timer takes so much more.
    steps: u64,
    pub(super) fired_ns: u64,
    pub(super) branches: BTreeSet<&'static str>,
}

impl Net {
    pub(super) fn new(
        n: usize,
        params: &[(&str, &str)],
        sabotage: Option<Sabotage<Replica>>,
    ) -> Net {
        let config = |me| {
            let mut config = Racos::config(&seat(Racos::NAME, n, me, 1, params)).expect("right");
            if let Some(Sabotage::Config(change)) = sabotage {
                change(&mut config);
            }
            config
        };
        let node = |me| Node {
            config: config(me),
            machine: None,
            out: Out::default(),
            disk: Vec::new(),
            gated: VecDeque::new(),
            timers: BTreeSet::new(),
            log: Vec::new(),
            log_durable: 0,
            kept: BTreeSet::new(),
            gathers: Vec::new(),
            boots: 0,
            is_lost: false,
        };
        let mut net = Net {
            nodes: (0..n).map(node).collect(),
            flying: Vec::new(),
            decided: Vec::new(),
            codes: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            sabotage,
            submitted: 0,
            moved: 0,
            written: 0,
            steps: 1_000_000,
            fired_ns: 2 * quorate_core::MILLIS,
            branches: BTreeSet::new(),
        };
        (0..n).for_each(|me| net.start(me, Past::Fresh));
        net
    }

    fn start(&mut self, me: usize, past: Past<Replica>) {
        let node = &mut self.nodes[me];
        node.boots += 1;
        node.config.mvc.boot = Boot(node.boots << 8 | me as u64);
        node.out = Out::default();
        let now = now(self.steps);
        let machine = Replica::recover(&node.config, past, now, &mut node.out);
        node.machine = Some(machine);
        self.perform(me);
    }

    /// A command with a value that is spread, or one that is not.
    pub(super) fn submit(&mut self, me: usize, is_long: bool) {
        let value = Bytes::from(self.submitted.to_le_bytes().to_vec());
        self.submit_value(me, value, is_long);
    }

    pub(super) fn submit_value(&mut self, me: usize, value: Bytes, is_long: bool) {
        self.submitted += 1;
        let command = Command {
            id: RequestId {
                client: ClientId(1),
                seq: self.submitted,
            },
            acked: 0,
            class: Class::Write,
            principal: Principal(0),
            body: Bytes::from_static(b"put"),
            payloads: is_long.then(|| Payload::of(value)).into_iter().collect(),
        };
        self.step(me, Input::Submit(vec![command]));
    }

    pub(super) fn step(&mut self, me: usize, input: Input<Replica>) {
        let node = &mut self.nodes[me];
        let Some(machine) = &mut node.machine else {
            return;
        };
        self.steps += 1;
        machine.step(now(self.steps), input, &mut node.out);
        machine.check();
        self.perform(me);
    }

    fn perform(&mut self, me: usize) {
        let outputs: Vec<_> = self.nodes[me].out.drain().collect();
        for mut output in outputs {
            if let Some(Sabotage::Output(change)) = self.sabotage
                && !change(&mut output)
            {
                continue;
            }
            self.perform_one(me, output);
        }
        let node = &mut self.nodes[me];
        node.is_lost &= !node.machine.as_ref().is_some_and(Machine::is_serving);
        self.check_segments();
    }

    fn perform_one(&mut self, me: usize, output: Output<Replica>) {
        match output {
            Output::Send {
                to,
                message,
                after: Lsn(0),
            } => self.send(me, to, &message),
            Output::Send { to, message, after } => {
                self.nodes[me].gated.push_back((after, to, message));
            }
            Output::Persist { lsn, record } => {
                self.count_written(me, &record);
                self.nodes[me].disk.push((lsn, carried(&record, me as u8)));
            }
            Output::Arm { timer, .. } => drop(self.nodes[me].timers.insert(timer)),
            Output::Disarm(timer) => drop(self.nodes[me].timers.remove(&timer)),
            Output::Gather(entry) => self.nodes[me].gathers.push(entry),
            Output::Forget(id) => self.forget(me, id),
            Output::CatchUp { from, .. } => self.give_log(index(from), me),
            Output::Inform { peer, .. } => self.give_log(me, index(peer)),
            Output::Deliver { slot, entry } => self.deliver(me, slot, entry),
            Output::Emit(Event::Branch(name)) => drop(self.branches.insert(name)),
            Output::Emit(Event::Misbehaved { what, .. }) => panic!("honesty: {what}"),
            Output::Execute { .. } | Output::Retract { .. } | Output::Tell { .. } => {
                panic!("nothing is executed ahead, and there are no remote gateways")
            }
            Output::Emit(Event::Decided { .. }) | Output::Note(_) | Output::Reply { .. } => {}
        }
    }

    fn forget(&mut self, me: usize, id: EntryId) {
        let is_decided = self.decided.iter().flatten().any(|entry| entry.id == id);
        assert!(!is_decided, "C5: {id:?} is let go, and decided");
        // Whoever has none lets nothing go.
        if self.holds(me, id) {
            self.forgotten.insert(id);
        }
        let node = &mut self.nodes[me];
        let is_other = |record: &Record| record.entry().is_none_or(|entry| entry.id != id);
        node.disk.retain(|(_, record)| is_other(record));
        node.gathers.retain(|entry| entry.id != id);
    }

    fn send(&mut self, me: usize, to: Peers, message: &Message) {
        let others = (0..self.nodes.len()).filter(|to| *to != me);
        let receivers: Vec<usize> = match to {
            Peers::All => others.collect(),
            Peers::One(id) => others.filter(|to| *to == index(id)).collect(),
        };
        assert!(!receivers.is_empty() || self.nodes.len() == 1, "to itself");
        if let Message::Mvc(weak_mvc::Message::Batch { entry }) = message
            && entry.bulk_len() > 0
            && !self.nodes[0].config.merged
        {
            self.check_holders(entry, "is a candidate");
        }
        // Whoever lost its disk may not know that a value was dead, and spreads it anew.
        if let Message::Spread(Spread { manifest, .. }) = message {
            self.forgotten.remove(&manifest.entry.id);
            self.codes.insert(manifest.entry.id, manifest.code);
        }
        for to in receivers {
            // By who sends it, and by who receives it.
            self.moved += 2 * (message.to_bytes().len() as u64 + segment_len(message.attachment()));
            self.flying.push((me, to, carried(message, to as u8)));
        }
    }

    /// A flush: what was written is durable, and what waited for it leaves.
    pub(super) fn flush(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        if node.machine.is_none() {
            return;
        }
        node.log_durable = node.log.len();
        let lsn = node.out.persisted();
        node.disk.iter_mut().for_each(|(at, _)| *at = Lsn(0));
        while let Some((after, to, message)) = self.nodes[me].gated.pop_front() {
            assert!(after <= lsn);
            self.send(me, to, &message);
        }
        self.step(me, Input::Durable(lsn));
    }

    /// A flush of all at once. Says whether anything had to be flushed.
    pub(super) fn flush_all(&mut self) -> bool {
        let is_open = |node: &Node| node.disk.iter().any(|(lsn, _)| *lsn > Lsn(0));
        let is_any = self.nodes.iter().any(is_open);
        (0..self.nodes.len()).for_each(|me| self.flush(me));
        is_any
    }

    fn deliver(&mut self, me: usize, slot: Slot, entry: Option<Entry>) {
        let node = &mut self.nodes[me];
        assert_eq!(slot.0 as usize, node.log.len(), "in order");
        self.keep_decided(me, entry.as_ref());
        self.nodes[me].log.push(entry.clone());
        match self.decided.get(slot.0 as usize) {
            Some(other) => assert_eq!(*other, entry, "agreement: {slot:?}"),
            None => {
                assert_eq!(self.decided.len(), slot.0 as usize);
                if let Some(entry) = &entry {
                    let id = entry.id;
                    assert!(!self.forgotten.contains(&id), "C5: {id:?} was let go");
                }
                self.decided.push(entry);
            }
        }
    }

    fn give_log(&mut self, from: usize, to: usize) {
        let log = self.nodes[from].log.clone();
        let node = &self.nodes[to];
        if node.machine.is_none() || node.log.len() >= log.len() {
            return;
        }
        let missed = node.log.len();
        for entry in log.iter().skip(missed) {
            self.keep_decided(to, entry.as_ref());
            self.nodes[to].log.push(entry.clone());
        }
        let (next, base) = (Slot(log.len() as u64), base(&log));
        self.step(to, Input::Installed { next, base });
    }

    pub(super) fn crash(&mut self, me: usize, dice: &mut Dice) {
        let node = &mut self.nodes[me];
        let open = node.disk.iter().filter(|(lsn, _)| *lsn > Lsn(0)).count();
        let stays = node.disk.len() - if open > 0 { dice.below(open + 1) } else { 0 };
        node.disk.truncate(stays);
        node.disk.iter_mut().for_each(|(lsn, _)| *lsn = Lsn(0));
        node.log.truncate(node.log_durable);
        node.machine = None;
        node.gated.clear();
        node.timers.clear();
        node.gathers.clear();
    }

    pub(super) fn restart(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        if node.is_lost && node.disk.is_empty() {
            return self.lose(me);
        }
        let (next, base) = (Slot(node.log.len() as u64), base(&node.log));
        let is_open = |record: &Record| match (record.slot(), record.entry()) {
            (Some(slot), _) => slot >= next,
            (None, Some(entry)) => !base.contains(entry.id),
            (None, None) => true,
        };
        let records = node.disk.iter().map(|(_, record)| record.clone());
        let records = records.filter(is_open).collect();
        self.start(
            me,
            Past::Intact {
                next,
                base,
                records,
            },
        );
    }

    /// A node comes back with an empty disk.
    pub(super) fn lose(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.disk.clear();
        node.log.clear();
        node.kept.clear();
        (node.log_durable, node.is_lost) = (0, true);
        let (next, base) = (Slot(0), rabia::DecidedSet::default());
        self.start(me, Past::Lost { next, base });
    }

    pub(super) fn fire(&mut self, me: usize, which: usize) {
        let timers = &mut self.nodes[me].timers;
        if let Some(timer) = timers.iter().nth(which % timers.len().max(1)).copied() {
            timers.remove(&timer);
            self.steps += self.fired_ns;
            self.step(me, Input::Timer(timer));
        }
    }

    pub(super) fn timers(&self) -> usize {
        self.nodes.iter().map(|node| node.timers.len()).sum()
    }

    pub(super) fn take(&mut self, which: usize, is_again: bool) {
        let (from, to, message) = match is_again {
            true => self.flying[which].clone(),
            false => self.flying.swap_remove(which),
        };
        let from = ReplicaId(from as u16 + 1);
        self.step(to, Input::Message { from, message });
    }

    /// What waits for what.
    pub(super) fn describe(&self) -> String {
        let of = |node: &Node| {
            let why = node.machine.as_ref().map(Introspect::explain);
            let (log, timers) = (node.log.len(), &node.timers);
            format!("\n{log} delivered, {timers:?}, {}", why.unwrap_or_default())
        };
        self.nodes.iter().map(of).collect()
    }

    pub(super) fn delivered(&self, me: usize) -> usize {
        self.nodes[me].log.len()
    }

    pub(super) fn is_level(&self) -> bool {
        let len = self.decided.len();
        self.nodes.iter().all(|node| node.log.len() == len)
    }
}

fn now(steps: u64) -> Now {
    Now {
        mono_ns: steps,
        clock_ns: steps,
        clock_error_ns: 0,
    }
}

fn index(id: ReplicaId) -> usize {
    usize::from(id.0) - 1
}

fn base(log: &[Option<Entry>]) -> DecidedSet {
    let mut base = DecidedSet::default();
    for (slot, entry) in (0..).map(Slot).zip(log) {
        base.advance(slot, entry.as_ref());
    }
    base
}
