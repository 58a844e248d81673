//! Replicas, what is on its way between them, their disks and clocks, and the application they run.

use super::super::{Config, Message, Nezha, Record, Replica, Timer};
use super::history::{BUCKETS, History, State};
use crate::registry::Protocol;
use crate::shared::decided::DecidedSet;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{
    Base, Boot, Class, ClientId, Command, Durability, Entry, Epoch, Event, Group, Incarnation,
    Input, Introspect, Lsn, MILLIS, Machine, Member, Now, Out, Outcome, Output, Past, Peers,
    Principal, ReplicaId, RequestId, Seat, Slot, Wire,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One replica and its host.
pub(super) struct Node {
    pub(super) machine: Option<Replica>,
    out: Out<Replica>,
    disk: Vec<(Lsn, Record)>,
    /// What survived earlier starts.
    kept: Vec<Record>,
    flushed: Lsn,
    gated: VecDeque<(Lsn, Peers, Message)>,
    pub(super) timers: BTreeSet<Timer>,
    pub(super) log: Vec<Option<Entry>>,
    base: DecidedSet,
    /// What the application came to after each slot, the ones ahead included.
    states: Vec<State>,
    pub(super) clock_ns: i64,
    boots: u64,
}

/// Everything.
pub(super) struct Net {
    pub(super) rng: Rng,
    pub(super) nodes: Vec<Node>,
    pub(super) mail: Vec<(usize, usize, Bytes)>,
    pub(super) now_ns: u64,
    pub(super) history: History,
    pub(super) branches: BTreeMap<&'static str, usize>,
    changes: Vec<fn(&mut Config)>,
    /// What arrived, in its order.
    pub(super) past: Vec<(usize, usize, Bytes)>,
    /// Records that are claimed to be written, and are not.
    pub(super) forgets: fn(&Record) -> bool,
    pub(super) has_disks: bool,
    /// Whether disks are done as soon as they are told.
    pub(super) is_eager: bool,
    /// What commands touch.
    pub(super) keys: fn(&mut Rng) -> Vec<u8>,
    seq: u64,
}

pub(super) fn epoch(n: u16) -> Epoch {
    Epoch {
        number: 1,
        first_slot: Slot(0),
        members: (1..=n).map(member).collect(),
        protocol: Nezha::NAME.to_owned(),
        durability: Durability::Disk,
        seed: 7,
        params: BTreeMap::new(),
    }
}

fn member(id: u16) -> Member {
    Member {
        id: ReplicaId(id),
        incarnation: Incarnation(u128::from(id)),
    }
}

impl Net {
    pub(super) fn new(n: usize, seed: u64, has_disks: bool, changes: &[fn(&mut Config)]) -> Net {
        let mut net = Net {
            rng: Rng::with_seed(seed),
            nodes: Vec::new(),
            mail: Vec::new(),
            now_ns: 1_000 * MILLIS,
            history: History::default(),
            branches: BTreeMap::new(),
            changes: changes.to_vec(),
            past: Vec::new(),
            forgets: |_| false,
            has_disks,
            is_eager: !has_disks,
            keys: |rng| vec![rng.u8(0..2)],
            seq: 0,
        };
        for _ in 0..n {
            net.nodes.push(Node {
                machine: None,
                out: Out::default(),
                disk: Vec::new(),
                kept: Vec::new(),
                flushed: Lsn(0),
                gated: VecDeque::new(),
                timers: BTreeSet::new(),
                log: Vec::new(),
                base: DecidedSet::default(),
                states: Vec::new(),
                clock_ns: 0,
                boots: 0,
            });
        }
        (0..n).for_each(|me| net.boot(me, Past::Fresh));
        net
    }

    fn now(&self, me: usize) -> Now {
        let clock = self.now_ns as i64 + self.nodes[me].clock_ns;
        Now {
            mono_ns: self.now_ns,
            clock_ns: clock.max(0) as u64,
            clock_error_ns: u64::MAX,
        }
    }

    fn boot(&mut self, me: usize, past: Past<Replica>) {
        self.nodes[me].boots += 1;
        let seat = Seat {
            group: Group(0),
            epoch: epoch(self.nodes.len() as u16),
            me: ReplicaId(me as u16 + 1),
            boot: Boot(self.nodes[me].boots * 16 + me as u64),
        };
        let mut config = Nezha::config(&seat).expect("it is a configuration");
        // As the paper has it, unless a test says otherwise: schedules are written message by message.
        config.hold = Some(100);
        self.changes.iter().for_each(|change| change(&mut config));
        self.history.touches = config.touches;
        let now = self.now(me);
        let node = &mut self.nodes[me];
        node.out = Out::default();
        node.flushed = Lsn(0);
        node.machine = Some(Replica::recover(&config, past, now, &mut node.out));
        self.perform(me);
    }

    /// How many records are not flushed.
    pub(super) fn unflushed(&self, me: usize) -> usize {
        let node = &self.nodes[me];
        let is_unflushed = |(lsn, _): &&(Lsn, Record)| *lsn > node.flushed;
        node.disk.iter().filter(is_unflushed).count()
    }

    /// Power fails: what was not flushed is gone.
    pub(super) fn crash(&mut self, me: usize) {
        self.tear(me, 0);
    }

    /// Power fails, and so many records were written that were not flushed.
    pub(super) fn tear(&mut self, me: usize, unflushed: usize) {
        let node = &mut self.nodes[me];
        let is_flushed = |(lsn, _): &&(Lsn, Record)| *lsn <= node.flushed;
        let kept = node.disk.iter().filter(is_flushed).count() + unflushed;
        let kept = node.disk.drain(..).take(kept);
        node.kept.extend(kept.map(|(_, record)| record));
        node.machine = None;
        node.gated.clear();
        node.timers.clear();
        node.states.truncate(node.log.len());
    }

    pub(super) fn restart(&mut self, me: usize, is_lost: bool) {
        let is_lost = is_lost || !self.has_disks;
        let node = &mut self.nodes[me];
        if is_lost {
            node.kept.clear();
            node.log.clear();
            node.states.clear();
            node.base = DecidedSet::default();
        }
        let (next, base) = (Slot(node.log.len() as u64), node.base.clone());
        // As the host prunes them: decided entries, and slots.
        let keeps = |record: &Record| {
            use quorate_core::Record as _;
            match (record.slot(), record.entry()) {
                (Some(slot), _) => slot >= next,
                (None, Some(entry)) => !base.contains(entry.id),
                (None, None) => true,
            }
        };
        node.kept.retain(keeps);
        let records = node.kept.clone();
        let past = match is_lost {
            true => Past::Lost { next, base },
            false => Past::Intact {
                next,
                base,
                records,
            },
        };
        self.boot(me, past);
    }

    pub(super) fn step(&mut self, me: usize, input: Input<Replica>) {
        let now = self.now(me);
        let node = &mut self.nodes[me];
        let Some(machine) = &mut node.machine else {
            return;
        };
        machine.step(now, input, &mut node.out);
        machine.check();
        self.perform(me);
    }

    /// A command of a client of this replica.
    pub(super) fn submit(&mut self, me: usize, class: Class) -> RequestId {
        let keys = (self.keys)(&mut self.rng);
        self.submit_keys(me, class, keys)
    }

    pub(super) fn submit_keys(&mut self, me: usize, class: Class, keys: Vec<u8>) -> RequestId {
        self.seq += 1;
        let id = RequestId {
            client: ClientId(1),
            seq: self.seq,
        };
        if class == Class::Read {
            self.history.begin_read(id);
        }
        let command = Command {
            id,
            acked: 0,
            class,
            principal: Principal(0),
            body: keys.into(),
            payloads: Vec::new(),
        };
        self.step(me, Input::Submit(vec![command]));
        id
    }

    pub(super) fn deliver(&mut self, at: usize) {
        let (from, to, bytes) = self.mail.swap_remove(at);
        self.hand(from, to, bytes);
    }

    /// A message arrives.
    pub(super) fn hand(&mut self, from: usize, to: usize, bytes: Bytes) {
        let message = Message::from_bytes(bytes).expect("what was said can be read");
        let from = ReplicaId(from as u16 + 1);
        self.step(to, Input::Message { from, message });
    }

    pub(super) fn flush(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        let lsn = node.out.persisted();
        if node.machine.is_some() && node.flushed < lsn {
            node.flushed = lsn;
            self.release(me);
            self.step(me, Input::Durable(lsn));
        }
    }

    fn release(&mut self, me: usize) {
        while let Some((after, ..)) = self.nodes[me].gated.front()
            && *after <= self.nodes[me].flushed
        {
            let (_, to, message) = self.nodes[me].gated.pop_front().expect("a front");
            self.post(me, to, &message);
        }
    }

    fn post(&mut self, me: usize, to: Peers, message: &Message) {
        for other in 0..self.nodes.len() {
            let is_for = match to {
                Peers::All => other != me,
                Peers::One(peer) => usize::from(peer.0) == other + 1,
            };
            if is_for {
                self.mail.push((me, other, message.to_bytes()));
            }
        }
    }

    fn perform(&mut self, me: usize) {
        let outputs: Vec<Output<Replica>> = self.nodes[me].out.drain().collect();
        for output in outputs {
            self.perform_one(me, output);
        }
        if self.is_eager {
            self.flush(me);
        }
    }

    fn perform_one(&mut self, me: usize, output: Output<Replica>) {
        match output {
            Output::Send { to, message, after } if after <= self.nodes[me].flushed => {
                self.post(me, to, &message);
            }
            Output::Send { to, message, after } => {
                self.nodes[me].gated.push_back((after, to, message));
            }
            Output::Persist { record, .. } if (self.forgets)(&record) => {}
            Output::Persist { lsn, record } => self.nodes[me].disk.push((lsn, record)),
            Output::Arm { timer, .. } => drop(self.nodes[me].timers.insert(timer)),
            Output::Disarm(timer) => drop(self.nodes[me].timers.remove(&timer)),
            Output::CatchUp { from, .. } => self.give_log(usize::from(from.0) - 1, me),
            Output::Inform { peer, .. } => self.give_log(me, usize::from(peer.0) - 1),
            Output::Deliver { slot, entry } => self.append(me, slot, entry),
            Output::Execute { slot, entry } => self.execute(me, slot, &entry),
            Output::Retract { from } => {
                let node = &mut self.nodes[me];
                let from = (from.0 as usize).max(node.log.len());
                node.states.truncate(from);
            }
            Output::Reply { id, outcome } => match outcome {
                Outcome::Applied(slot, result) => self.history.answer(id, slot, result),
                Outcome::ReadAt(slot) => self.history.end_read(id, slot),
                Outcome::Refused(why) => panic!("refused: {why:?}"),
                Outcome::Decided => panic!("said by a replica"),
            },
            Output::Emit(Event::Branch(name)) => *self.branches.entry(name).or_default() += 1,
            Output::Emit(Event::Misbehaved { what, .. }) => panic!("{me}: {what}"),
            Output::Emit(Event::Decided { .. }) | Output::Note(_) => {}
            Output::Gather(_) | Output::Forget(_) => panic!("it orders everything whole"),
            Output::Tell { .. } => panic!("there are no remote gateways"),
        }
    }

    /// The hosts exchange what is decided.
    pub(super) fn give_log(&mut self, from: usize, to: usize) {
        let missing = self.nodes[from].log.clone();
        if self.nodes[to].machine.is_none() || missing.len() <= self.nodes[to].log.len() {
            return;
        }
        let first = self.nodes[to].log.len();
        for (slot, entry) in missing.into_iter().enumerate().skip(first) {
            self.append(to, Slot(slot as u64), entry);
        }
        let node = &self.nodes[to];
        let (next, base) = (Slot(node.log.len() as u64), node.base.clone());
        self.step(to, Input::Installed { next, base });
    }

    fn append(&mut self, me: usize, slot: Slot, entry: Option<Entry>) {
        let at = slot.0 as usize;
        let node = &mut self.nodes[me];
        assert_eq!(at, node.log.len(), "in order, without gaps");
        let before = at.checked_sub(1).map(|at| node.states[at]);
        let before = before.unwrap_or([0; BUCKETS]);
        let state = self.history.state_after(before, entry.as_ref());
        // What was executed ahead is what was decided, or it is taken back.
        if node.states.get(at).is_some_and(|ahead| *ahead != state) {
            node.states.truncate(at);
        }
        if node.states.len() == at {
            node.states.push(state);
        }
        node.base.advance(slot, entry.as_ref());
        node.log.push(entry.clone());
        self.history.decide(me, slot, entry, state);
    }

    fn execute(&mut self, me: usize, slot: Slot, entry: &Entry) {
        let states = &mut self.nodes[me].states;
        let at = slot.0 as usize;
        if at != states.len() {
            return;
        }
        let before = states.last().copied().unwrap_or([0; BUCKETS]);
        let state = self.history.state_after(before, Some(entry));
        states.push(state);
        let results = vec![self.history.result(state, entry); entry.count()];
        let entry = entry.id;
        self.step(
            me,
            Input::Applied {
                slot,
                entry,
                results,
            },
        );
    }
}
