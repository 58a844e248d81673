//! Replicas, what is on its way between them, their disks and clocks, and an application that shows what
//! came before what.

use super::super::{Config, Message, Nezha, Record, Replica, Timer};
use crate::done::Done;
use crate::registry::Protocol;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{
    Base, Boot, Class, ClientId, Command, Durability, Entry, Epoch, Event, Group, Incarnation,
    Input, Lsn, MILLIS, Machine, Member, Now, Out, Outcome, Output, Past, Peers, Principal,
    ReplicaId, RequestId, Seat, Slot, Wire,
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
    base: Done,
    /// What the application came to after each slot, the ones ahead included.
    states: Vec<u64>,
    pub(super) clock_ns: i64,
    boots: u64,
}

/// Everything.
pub(super) struct Net {
    pub(super) rng: Rng,
    pub(super) nodes: Vec<Node>,
    pub(super) mail: Vec<(usize, usize, Bytes)>,
    pub(super) now_ns: u64,
    /// What is decided, and what the application came to.
    pub(super) decided: Vec<(Option<Entry>, u64)>,
    /// What clients were told.
    pub(super) answered: BTreeMap<RequestId, (Slot, Bytes)>,
    /// Reads that wait, and the first slot they need not see.
    reads: BTreeMap<RequestId, Slot>,
    pub(super) reads_done: usize,
    pub(super) branches: BTreeMap<&'static str, usize>,
    change: fn(&mut Config),
    /// Records that are claimed to be written, and are not.
    pub(super) forgets: fn(&Record) -> bool,
    pub(super) has_disks: bool,
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
    pub(super) fn new(n: usize, seed: u64, has_disks: bool, change: fn(&mut Config)) -> Net {
        let mut net = Net {
            rng: Rng::with_seed(seed),
            nodes: Vec::new(),
            mail: Vec::new(),
            now_ns: 1_000 * MILLIS,
            decided: Vec::new(),
            answered: BTreeMap::new(),
            reads: BTreeMap::new(),
            reads_done: 0,
            branches: BTreeMap::new(),
            change,
            forgets: |_| false,
            has_disks,
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
                base: Done::default(),
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
        (self.change)(&mut config);
        let now = self.now(me);
        let node = &mut self.nodes[me];
        node.out = Out::default();
        node.flushed = Lsn(0);
        node.machine = Some(Replica::recover(&config, past, now, &mut node.out));
        self.perform(me);
    }

    /// Power fails: what was not flushed may be gone.
    pub(super) fn crash(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        let flushed = node.flushed;
        let kept = node.disk.drain(..).filter(|(lsn, _)| *lsn <= flushed);
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
            node.base = Done::default();
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
        self.seq += 1;
        let id = RequestId {
            client: ClientId(1),
            seq: self.seq,
        };
        if class == Class::Read {
            let last = self.answered.values().map(|(slot, _)| slot.0 + 1).max();
            let decided = self.decided.len() as u64;
            self.reads.insert(id, Slot(last.unwrap_or(0).max(decided)));
        }
        let bucket = self.rng.u8(0..2);
        let command = Command {
            id,
            acked: 0,
            class,
            principal: Principal(0),
            body: Bytes::copy_from_slice(&[bucket]),
            payloads: Vec::new(),
        };
        self.step(me, Input::Submit(vec![command]));
        id
    }

    pub(super) fn deliver(&mut self, at: usize) {
        let (from, to, bytes) = self.mail.swap_remove(at);
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
        if !self.has_disks {
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
            Output::Reply { id, outcome } => self.reply(id, outcome),
            Output::Emit(Event::Branch(name)) => *self.branches.entry(name).or_default() += 1,
            Output::Emit(Event::Misbehaved { what, .. }) => panic!("{me}: {what}"),
            Output::Emit(Event::Decided { .. }) | Output::Note(_) => {}
            Output::Gather(_) | Output::Forget(_) => panic!("it orders everything whole"),
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
        let before = at.checked_sub(1).map_or(0, |at| node.states[at]);
        let state = state_after(before, entry.as_ref());
        // What was executed ahead is what was decided, or it is taken back.
        if node.states.get(at).is_some_and(|ahead| *ahead != state) {
            node.states.truncate(at);
        }
        if node.states.len() == at {
            node.states.push(state);
        }
        node.base.advance(slot, entry.as_ref());
        node.log.push(entry.clone());
        match self.decided.get(at) {
            None => {
                self.decided.push((entry, state));
                self.check_answers();
            }
            Some((first, _)) => assert_eq!(*first, entry, "{me} delivers {slot:?}"),
        }
    }

    fn execute(&mut self, me: usize, slot: Slot, entry: &Entry) {
        let states = &mut self.nodes[me].states;
        let at = slot.0 as usize;
        if at != states.len() {
            return;
        }
        let state = state_after(states.last().copied().unwrap_or(0), Some(entry));
        states.push(state);
        let results = vec![Bytes::copy_from_slice(&state.to_le_bytes()); entry.count()];
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

    fn reply(&mut self, id: RequestId, outcome: Outcome) {
        match outcome {
            Outcome::Applied(slot, result) => {
                let before = self.answered.insert(id, (slot, result));
                assert_eq!(before, None, "{id:?} is answered twice");
                self.check_answers();
            }
            Outcome::ReadAt(slot) => {
                if let Some(seen) = self.reads.remove(&id) {
                    assert!(slot >= seen, "a stale read: at {slot:?}, not {seen:?}");
                    self.reads_done += 1;
                }
            }
            Outcome::Refused(why) => panic!("refused: {why:?}"),
        }
    }

    /// What clients were told is what is decided, once it is.
    pub(super) fn check_answers(&self) {
        for (id, (slot, result)) in &self.answered {
            let Some((entry, state)) = self.decided.get(slot.0 as usize) else {
                continue;
            };
            let has = |entry: &Entry| entry.commands().flatten().any(|command| command.id == *id);
            assert!(
                entry.as_ref().is_some_and(has),
                "{id:?} was answered in {slot:?}"
            );
            assert_eq!(
                result[..],
                state.to_le_bytes(),
                "the result of {id:?} in {slot:?}"
            );
        }
    }
}

fn state_after(before: u64, entry: Option<&Entry>) -> u64 {
    let words = entry.map_or([0; 3], |entry| {
        [u64::from(entry.id.origin.0), entry.id.boot.0, entry.id.seq]
    });
    let mix = |state: u64, word: u64| {
        (state ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    words.into_iter().fold(before.wrapping_add(1), mix)
}
