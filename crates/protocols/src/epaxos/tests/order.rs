//! The order of delivery, on graphs at random: replicas that learn what is decided in whatever order, and start anew
//! wherever they are, deliver one sequence; and conflicting entries below an entry are in the order in which they are
//! executed ahead of it.

use crate::epaxos::footprint::Footprint;
use crate::epaxos::order::Graph;
use crate::epaxos::state::{Instance, Phase};
use crate::shared::decided::DecidedSet;
use fastrand::Rng;
use quorate_core::{Base, Boot, Entry, EntryId, ReplicaId, Slot};
use std::collections::{BTreeMap, BTreeSet};

type Instances = BTreeMap<EntryId, Instance>;

fn id(rng: &mut Rng, seq: u64) -> EntryId {
    EntryId {
        origin: ReplicaId(rng.u16(1..4)),
        boot: Boot(1),
        seq,
    }
}

fn footprint(rng: &mut Rng) -> Footprint {
    match rng.u8(0..6) {
        0 => Footprint::All,
        1 => Footprint::Mark,
        _ => {
            let buckets: BTreeSet<u64> = (0..rng.usize(1..3)).map(|_| rng.u64(0..3)).collect();
            Footprint::Buckets(buckets.into_iter().collect())
        }
    }
}

fn conflict(one: &Footprint, other: &Footprint) -> bool {
    match (one, other) {
        (Footprint::Mark, Footprint::Buckets(_)) | (Footprint::Buckets(_), Footprint::Mark) => {
            false
        }
        (Footprint::Buckets(mine), Footprint::Buckets(its)) => {
            mine.iter().any(|bucket| its.contains(bucket))
        }
        _ => true,
    }
}

/// Entries of which any two that conflict have an edge, or two.
fn graph(rng: &mut Rng) -> Instances {
    let count = rng.u64(3..14);
    let mut all: Vec<(EntryId, Instance)> = Vec::new();
    for seq in 1..=count {
        let id = id(rng, seq);
        let mut instance = Instance {
            entry: Some(Entry::notice(id, 0, vec![7].into())),
            footprint: Some(footprint(rng)),
            phase: Phase::Committed,
            is_void: rng.u8(0..10) == 0,
            ..Instance::default()
        };
        for (other, known) in &mut all {
            let [mine, its] = [&instance, &*known].map(|it| it.footprint.clone().unwrap());
            let is_known = rng.u8(0..4) > 0;
            let is_below = match (conflict(&mine, &its), &mine) {
                (true, _) => true,
                (false, Footprint::Mark) => rng.bool(),
                _ => false,
            };
            // One that came later may be below an earlier one, too.
            if is_below && is_known && !instance.is_void {
                instance.deps.ids.insert(*other);
            }
            if conflict(&mine, &its) && !known.is_void && (!is_known || rng.u8(0..4) == 0) {
                known.deps.ids.insert(id);
            }
        }
        all.push((id, instance));
    }
    // Between two that are both ordered there is an edge.
    all.into_iter().collect()
}

/// A replica that learns.
struct Learner {
    known: Instances,
    done: DecidedSet,
    log: Vec<EntryId>,
}

impl Learner {
    fn next_run(&self) -> Vec<EntryId> {
        let gone = BTreeSet::new();
        let graph = Graph {
            instances: &self.known,
            done: &self.done,
            next: Slot(self.log.len() as u64),
            gone: &gone,
        };
        let roots = self.known.iter().filter(|(_, known)| known.is_root());
        graph.next_run(roots.map(|(id, _)| *id))
    }

    /// Delivers the first of what comes next, or as much as is certain.
    fn deliver(&mut self, all: &Instances, only_first: bool) -> bool {
        let run = self.next_run();
        let most = if only_first { 1 } else { run.len() };
        for id in run.iter().take(most) {
            let slot = Slot(self.log.len() as u64);
            self.done.advance(slot, all[id].entry.as_ref());
            self.known.remove(id);
            self.log.push(*id);
        }
        !run.is_empty()
    }

    /// What is below an entry, as it is executed ahead.
    fn ahead(&self, id: EntryId) -> Option<Vec<EntryId>> {
        let (mut gone, mut all) = (BTreeSet::new(), Vec::new());
        while !all.contains(&id) {
            let graph = Graph {
                instances: &self.known,
                done: &self.done,
                next: Slot(self.log.len() as u64),
                gone: &gone,
            };
            let run = graph.run_to(id)?;
            let end = run
                .iter()
                .position(|it| *it == id)
                .map_or(run.len(), |at| at + 1);
            gone.extend(run[..end].iter().copied());
            all.extend(run[..end].iter().copied());
        }
        Some(all)
    }
}

/// A root of everything, so that all is delivered in the end.
fn with_last_root(mut all: Instances) -> Instances {
    let last = EntryId {
        origin: ReplicaId(9),
        boot: Boot(1),
        seq: 1,
    };
    let root = Instance {
        entry: Some(Entry::notice(last, 0, vec![7].into())),
        footprint: Some(Footprint::All),
        phase: Phase::Committed,
        deps: crate::epaxos::Deps {
            ids: all.keys().copied().collect(),
            after: Slot(0),
        },
        ..Instance::default()
    };
    all.insert(last, root);
    all
}

#[test]
fn all_deliver_one_sequence_whatever_they_learn_first_and_wherever_they_start() {
    let mut predicted = 0;
    for seed in 0..4_000 {
        let rng = &mut Rng::with_seed(seed);
        let all = with_last_root(graph(rng));
        let mut longest: Vec<EntryId> = Vec::new();
        let mut ahead: Vec<Vec<EntryId>> = Vec::new();
        for _ in 0..4 {
            let mut learner = Learner {
                known: Instances::new(),
                done: DecidedSet::default(),
                log: Vec::new(),
            };
            // It begins in the middle of what another has delivered.
            for id in longest.iter().take(rng.usize(0..=longest.len())) {
                learner.done.advance(Slot(0), all[id].entry.as_ref());
                learner.log.push(*id);
            }
            let mut left: Vec<EntryId> = all.keys().copied().collect();
            left.retain(|id| !learner.log.contains(id));
            rng.shuffle(&mut left);
            while let Some(id) = left.pop() {
                learner.known.insert(id, all[&id].clone());
                ahead.extend(learner.ahead(id));
                while learner.deliver(&all, rng.bool()) {}
            }
            while learner.deliver(&all, false) {}
            assert_eq!(
                learner.log.len(),
                all.len(),
                "seed {seed}: all is delivered"
            );
            if longest.is_empty() {
                longest.clone_from(&learner.log);
            }
            assert_eq!(learner.log, longest, "seed {seed}: one sequence");
        }
        let place = |id: &EntryId| longest.iter().position(|it| it == id);
        for run in &ahead {
            for (at, earlier) in run.iter().enumerate() {
                for later in &run[at + 1..] {
                    let [one, other] = [earlier, later].map(|id| &all[id]);
                    let touched = |it: &Instance| it.footprint.clone().unwrap();
                    if !one.is_void && !other.is_void && conflict(&touched(one), &touched(other)) {
                        predicted += 1;
                        assert!(
                            place(earlier) < place(later),
                            "seed {seed}: {earlier:?} {later:?}"
                        );
                    }
                }
            }
        }
    }
    assert!(predicted > 10_000, "{predicted}");
}

#[test]
fn long_chains_are_no_deep_recursion() {
    let mut all = Instances::new();
    let name = |seq| EntryId {
        origin: ReplicaId(1),
        boot: Boot(1),
        seq,
    };
    for seq in 1..=20_000 {
        let mut instance = Instance {
            entry: Some(Entry::notice(name(seq), 0, vec![7].into())),
            footprint: Some(Footprint::All),
            phase: Phase::Committed,
            ..Instance::default()
        };
        if seq > 1 {
            instance.deps.ids.insert(name(seq - 1));
        }
        all.insert(name(seq), instance);
    }
    let (gone, done) = (BTreeSet::new(), DecidedSet::default());
    let graph = Graph {
        instances: &all,
        done: &done,
        next: Slot(0),
        gone: &gone,
    };
    let run = graph.run_to(name(20_000)).unwrap();
    assert_eq!(run.len(), 20_000);
    assert!(run.is_sorted());
}
