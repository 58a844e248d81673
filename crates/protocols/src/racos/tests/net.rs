//! A deterministic cluster in memory: machines, a network that loses and repeats, disks that forget what was
//! not flushed or everything, the host's log, and who holds which segment.

use crate::racos::{Config, Message, Racos, Record, Replica, Timer};
use crate::registry::{Protocol, Sabotage};
use crate::weak_mvc;
use crate::{Done, rabia};
use bytes::Bytes;
use quorate_core::{
    Base, Boot, Class, ClientId, Command, Durability, Entry, EntryId, Epoch, Event, Group,
    Incarnation, Input, Lsn, Machine, Member, Now, Out, Output, Past, Payload, Peers, Principal,
    Record as _, ReplicaId, RequestId, Seat, Slot, carried, hollow_share,
};
use std::collections::{BTreeSet, VecDeque};

/// A small generator (xorshift64*).
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound as u64) as usize
    }
}

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
    /// It lost its disk, and does not vote yet.
    pub(super) is_lost: bool,
}

pub(super) struct Net {
    pub(super) nodes: Vec<Node>,
    pub(super) flying: Vec<(usize, usize, Message)>,
    pub(super) decided: Vec<Option<Entry>>,
    /// What somebody let go of.
    forgotten: BTreeSet<EntryId>,
    sabotage: Option<Sabotage<Replica>>,
    submitted: u64,
    /// Counts steps: the time.
    steps: u64,
    pub(super) branches: BTreeSet<&'static str>,
}

pub(super) fn seat(n: usize, me: usize, boot: u64, params: &[(&str, &str)]) -> Seat {
    let member = |id| Member {
        id: ReplicaId(id as u16 + 1),
        incarnation: Incarnation(id as u128),
    };
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Seat {
        group: Group(0),
        epoch: Epoch {
            number: 1,
            first_slot: Slot(0),
            members: (0..n).map(member).collect(),
            protocol: "racos".to_owned(),
            durability: Durability::Disk,
            params: params.iter().map(text).collect(),
            seed: 7,
        },
        me: ReplicaId(me as u16 + 1),
        boot: Boot(boot),
    }
}

impl Net {
    pub(super) fn new(
        n: usize,
        params: &[(&str, &str)],
        sabotage: Option<Sabotage<Replica>>,
    ) -> Net {
        let config = |me| {
            let mut config = Racos::config(&seat(n, me, 1, params)).expect("right");
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
            forgotten: BTreeSet::new(),
            sabotage,
            submitted: 0,
            steps: 1_000_000,
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
        self.submitted += 1;
        let value = Bytes::from(self.submitted.to_le_bytes().to_vec());
        let command = Command {
            id: RequestId {
                client: ClientId(1),
                seq: self.submitted,
            },
            acked: 0,
            class: Class::Write,
            principal: Principal(0),
            body: value.clone(),
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
            Output::Execute { .. } | Output::Retract { .. } => panic!("nothing is executed ahead"),
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
        {
            self.check_holders(entry, "is a candidate");
        }
        // Whoever lost its disk may not know that a value was dead, and spreads it anew.
        if let Message::Spread { manifest, .. } = message {
            self.forgotten.remove(&manifest.entry.id);
        }
        for to in receivers {
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

    /// The host keeps the segments of what is decided and live: everything is.
    fn keep_decided(&mut self, me: usize, entry: Option<&Entry>) {
        if let Some(entry) = entry.filter(|entry| entry.bulk_len() > 0)
            && self.holds(me, entry.id)
        {
            self.nodes[me].kept.insert(entry.id);
        }
    }

    /// Whether a replica's disk has its segment.
    fn holds(&self, me: usize, id: EntryId) -> bool {
        let node = &self.nodes[me];
        let is_it = |(lsn, record): &(Lsn, Record)| match record {
            Record::Manifest {
                manifest,
                is_held: true,
                ..
            } => *lsn == Lsn(0) && manifest.entry.id == id,
            _ => false,
        };
        node.kept.contains(&id) || node.disk.iter().any(is_it)
    }

    fn check_holders(&self, entry: &Entry, what: &str) {
        let config = &self.nodes[0].config;
        let (k, f) = (usize::from(config.code), config.mvc.thresholds.f);
        let all = 0..self.nodes.len();
        let lost = |me: &usize| self.nodes[*me].is_lost;
        let holders = all
            .filter(|me| lost(me) || self.holds(*me, entry.id))
            .count();
        let id = entry.id;
        assert!(holders >= k + f, "C1: {id:?} {what}, {holders} hold it");
    }

    /// Every decided value has `k + f` holders, less those that lost their disks and do not vote.
    fn check_segments(&self) {
        let recent = self.decided.iter().rev().take(8).flatten();
        recent
            .filter(|entry| entry.bulk_len() > 0)
            .for_each(|entry| self.check_holders(entry, "is decided"));
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

    /// It comes back with an empty disk.
    pub(super) fn lose(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.disk.clear();
        node.log.clear();
        node.kept.clear();
        (node.log_durable, node.is_lost) = (0, true);
        let (next, base) = (Slot(0), rabia::Done::default());
        self.start(me, Past::Lost { next, base });
    }

    pub(super) fn fire(&mut self, me: usize, which: usize) {
        let timers = &mut self.nodes[me].timers;
        if let Some(timer) = timers.iter().nth(which % timers.len().max(1)).copied() {
            timers.remove(&timer);
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

    /// What hosts do beside: the machine gets what it wants gathered, and segments of decided values that
    /// are lacking are rebuilt, as far as `k` others are up and have theirs.
    pub(super) fn rebuild(&mut self, me: usize) {
        if self.nodes[me].machine.is_none() {
            return;
        }
        let log = self.nodes[me].log.clone();
        for entry in log.iter().flatten().filter(|entry| entry.bulk_len() > 0) {
            if self.can_gather(entry.id) {
                self.nodes[me].kept.insert(entry.id);
            }
        }
        let gathers = std::mem::take(&mut self.nodes[me].gathers);
        for entry in gathers {
            if log.iter().flatten().any(|decided| decided.id == entry.id) {
                continue;
            }
            if self.can_gather(entry.id) {
                let share = Some(hollow_share(&entry, 1, 0));
                self.step(me, Input::Held(entry.with_share(share)));
            } else {
                self.nodes[me].gathers.push(entry);
            }
        }
    }

    fn can_gather(&self, id: EntryId) -> bool {
        let up = (0..self.nodes.len()).filter(|me| self.nodes[*me].machine.is_some());
        up.filter(|me| self.holds(*me, id)).count() >= usize::from(self.nodes[0].config.code)
    }

    /// Undecided segments on a disk.
    pub(super) fn undecided(&self, me: usize) -> Vec<(EntryId, u64)> {
        let done = base(&self.decided);
        let open = self.nodes[me]
            .disk
            .iter()
            .filter_map(|(_, record)| match record {
                Record::Manifest { manifest, .. } => Some((manifest.entry.id, manifest.life)),
                _ => None,
            });
        open.filter(|(id, _)| !done.contains(*id)).collect()
    }

    /// What waits for what.
    pub(super) fn describe(&self) -> String {
        let of = |node: &Node| {
            let why = node.machine.as_ref().map(Machine::explain);
            let (log, timers) = (node.log.len(), &node.timers);
            format!("\n{log} delivered, {timers:?}, {}", why.unwrap_or_default())
        };
        self.nodes.iter().map(of).collect()
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

fn base(log: &[Option<Entry>]) -> Done {
    let mut base = Done::default();
    for (slot, entry) in (0..).map(Slot).zip(log) {
        base.advance(slot, entry.as_ref());
    }
    base
}
