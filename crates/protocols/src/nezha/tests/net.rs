//! Replicas among themselves, their disks and clocks, and the application they run.

use super::super::{Config, Nezha, Record, Replica};
use super::history::{BUCKETS, History, State};
use crate::registry::Protocol;
use fastrand::Rng;
use quorate_core::{Class, Entry, EntryId, Event, Input, Now, Outcome, RequestId, Slot};
use quorate_testkit::{Cluster, Disagreement, Packet, Watch, seat};
use std::ops::{Deref, DerefMut};

/// What is watched, and what is broken.
pub(super) struct Watched {
    pub(super) history: History,
    /// By replica: what the application came to after each slot, the ones ahead included.
    states: Vec<Vec<State>>,
    /// Records that are claimed to be written, and are not.
    pub(super) forgets: fn(&Record) -> bool,
    /// Whether disks are done as soon as they are told.
    pub(super) is_eager: bool,
}

type Inner = Cluster<Replica, Watched>;

impl Watch<Replica> for Watched {
    fn now(cluster: &mut Inner, me: usize) -> Now {
        Now {
            clock_error_ns: u64::MAX,
            ..cluster.plain_now(me)
        }
    }

    fn on_written(cluster: &mut Inner, me: usize) {
        if cluster.watch.is_eager {
            cluster.flush(me);
        }
    }

    fn on_record(cluster: &mut Inner, _: usize, record: &Record) -> bool {
        !(cluster.watch.forgets)(record)
    }

    fn on_deliver(cluster: &mut Inner, me: usize, slot: Slot) {
        let (watched, at) = (&mut cluster.watch, slot.0 as usize);
        let entry = cluster.nodes[me].log[at].clone();
        let states = &mut watched.states[me];
        let before = at.checked_sub(1).map(|at| states[at]);
        let before = before.unwrap_or([0; BUCKETS]);
        let state = watched.history.state_after(before, entry.as_ref());
        // What was executed ahead is what was decided, or it is taken back.
        if states.get(at).is_some_and(|ahead| *ahead != state) {
            states.truncate(at);
        }
        if states.len() == at {
            states.push(state);
        }
        watched.history.decide(me, slot, entry, state);
    }

    /// The history has noticed it.
    fn on_disagreement(_: &mut Inner, _: usize, _: Disagreement) {}

    fn on_execute(cluster: &mut Inner, me: usize, slot: Slot, entry: Entry) {
        let watched = &mut cluster.watch;
        let states = &mut watched.states[me];
        if slot.0 as usize != states.len() {
            return;
        }
        let before = states.last().copied().unwrap_or([0; BUCKETS]);
        let state = watched.history.state_after(before, Some(&entry));
        states.push(state);
        let results = vec![watched.history.result(state, &entry); entry.count()];
        let entry = entry.id;
        let applied = Input::Applied {
            slot,
            entry,
            results,
        };
        cluster.step(me, applied);
    }

    fn on_retract(cluster: &mut Inner, me: usize, from: Slot) {
        let decided = cluster.nodes[me].log.len();
        let from = (from.0 as usize).max(decided);
        cluster.watch.states[me].truncate(from);
    }

    fn on_gather(_: &mut Inner, _: usize, _: Entry) {
        panic!("it orders everything whole");
    }

    fn on_forget(_: &mut Inner, _: usize, _: EntryId) {
        panic!("it orders everything whole");
    }

    fn on_reply(cluster: &mut Inner, _: usize, id: RequestId, outcome: Outcome) {
        let history = &mut cluster.watch.history;
        match outcome {
            Outcome::Applied(slot, result) => history.answer(id, slot, result),
            Outcome::ReadAt(slot) => history.end_read(id, slot),
            Outcome::Refused(why) => panic!("refused: {why:?}"),
            Outcome::Decided => panic!("said by a replica"),
        }
    }

    fn on_event(cluster: &mut Inner, me: usize, event: Event) {
        match event {
            Event::Branch(name) => *cluster.branches.entry(name).or_default() += 1,
            Event::Misbehaved { what, .. } => panic!("{me}: {what}"),
            Event::Decided { .. } => {}
        }
    }
}

/// A cluster of Nezha's replicas.
pub(super) struct Net {
    cluster: Inner,
    pub(super) rng: Rng,
    /// What arrived, in its order.
    pub(super) past: Vec<Packet<Replica>>,
    has_disks: bool,
    /// What commands touch.
    pub(super) keys: fn(&mut Rng) -> Vec<u8>,
}

impl Deref for Net {
    type Target = Inner;

    fn deref(&self) -> &Self::Target {
        &self.cluster
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.cluster
    }
}

impl Net {
    pub(super) fn new(n: usize, seed: u64, has_disks: bool, changes: &[fn(&mut Config)]) -> Net {
        let config = |me| {
            let mut config = Nezha::config(&seat(Nezha::NAME, n, me, 1, &[])).expect("right");
            // As the paper has it, unless a test says otherwise: schedules are written message by message.
            config.hold = Some(100);
            changes.iter().for_each(|change| change(&mut config));
            config
        };
        let configs: Vec<Config> = (0..n).map(config).collect();
        let watched = Watched {
            history: History::of(configs[0].touches),
            states: vec![Vec::new(); n],
            forgets: |_| false,
            is_eager: !has_disks,
        };
        Net {
            cluster: Cluster::new(n, watched, move |me, boot| Config {
                boot,
                ..configs[me].clone()
            }),
            rng: Rng::with_seed(seed),
            past: Vec::new(),
            has_disks,
            keys: |rng| vec![rng.u8(0..2)],
        }
    }

    /// How many records are not flushed.
    pub(super) fn unflushed(&self, me: usize) -> usize {
        self.nodes[me].unflushed()
    }

    /// Power fails: what was not flushed is gone.
    pub(super) fn crash(&mut self, me: usize) {
        self.tear(me, 0);
    }

    /// Power fails, and so many records were written that were not flushed.
    pub(super) fn tear(&mut self, me: usize, unflushed: usize) {
        self.cluster.tear(me, unflushed);
        let decided = self.nodes[me].log.len();
        self.watch.states[me].truncate(decided);
    }

    pub(super) fn restart(&mut self, me: usize, is_lost: bool) {
        if is_lost || !self.has_disks {
            self.watch.states[me].clear();
            self.lose_disk(me);
        } else {
            self.nodes[me].is_blank = false;
            self.cluster.restart(me);
        }
    }

    /// A command of a client of this replica.
    pub(super) fn submit(&mut self, me: usize, class: Class) -> RequestId {
        let keys = (self.keys)(&mut self.rng);
        self.submit_keys(me, class, keys)
    }

    pub(super) fn submit_keys(&mut self, me: usize, class: Class, keys: Vec<u8>) -> RequestId {
        let id = self.next_request();
        if class == Class::Read {
            self.watch.history.begin_read(id);
        }
        self.cluster.submit(me, class, keys.into(), Vec::new())
    }

    /// A packet arrives; the last one takes its place.
    pub(super) fn deliver(&mut self, at: usize) {
        let packet = self.wire.swap_remove_back(at).expect("it is on its way");
        self.receive(packet);
    }
}
