//! A protocol under random schedules: packets lost, repeated and reordered, disks that are late, crashes.

use super::sequencer::Sequencer;
use quorate_core::{Lsn, Output, Slot};
use quorate_testkit::{Cluster, Disagreement, Watch, seat};
use std::collections::BTreeSet;

const REPLICAS: usize = 3;
const SEEDS: u64 = 400;

/// Nothing is broken.
struct Honest;

impl Watch<Sequencer> for Honest {}

/// A mutant: messages do not wait for the records they rest on.
#[derive(Default)]
struct Hasty {
    disagreements: usize,
}

impl Watch<Sequencer> for Hasty {
    fn on_output(
        _: &mut Cluster<Sequencer, Self>,
        _: usize,
        output: &mut Output<Sequencer>,
    ) -> bool {
        if let Output::Send { after, .. } = output {
            *after = Lsn(0);
        }
        true
    }

    fn on_disagreement(cluster: &mut Cluster<Sequencer, Self>, _: usize, _: Disagreement) {
        cluster.watch.disagreements += 1;
    }
}

/// Random numbers that depend on the seed alone.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

/// Runs one random schedule, then heals everything.
fn run<W: Watch<Sequencer>>(seed: u64, watch: W) -> Cluster<Sequencer, W> {
    let mut cluster = Cluster::new(REPLICAS, watch, |me, boot| {
        seat("fixed-sequencer", REPLICAS, me, boot.0, &[])
    });
    let mut chance = Chance(seed);
    for _ in 0..300 {
        let me = chance.below(REPLICAS);
        match chance.below(12) {
            0 if cluster.nodes[me].machine.is_some() => cluster.crash(me),
            0 | 1 if cluster.nodes[me].machine.is_none() => cluster.restart(me),
            2 => drop(cluster.write(0)),
            3 => cluster.nodes[me].is_stuck = chance.below(2) == 0,
            4 => drop(cluster.fire(me, ())),
            5 => cluster.flush(me),
            _ if cluster.wire.is_empty() => {}
            kind => {
                let at = chance.below(cluster.wire.len());
                let packet = cluster.wire[at].clone();
                if kind != 6 {
                    cluster.wire.remove(at);
                }
                if kind != 7 {
                    cluster.receive(packet);
                }
            }
        }
    }
    for me in 0..REPLICAS {
        cluster.nodes[me].is_stuck = false;
        if cluster.nodes[me].machine.is_none() {
            cluster.restart(me);
        }
        cluster.flush(me);
    }
    for me in 0..REPLICAS {
        cluster.hint(me, true);
    }
    cluster.run();
    cluster
}

#[test]
fn members_agree_and_come_to_equal_logs() {
    for seed in 0..SEEDS {
        let mut cluster = run(seed, Honest);
        cluster.write(0);
        cluster.run();
        let logs: BTreeSet<_> = cluster.nodes.iter().map(|node| node.names()).collect();
        assert_eq!(logs.len(), 1, "seed {seed}: {logs:?}");
        assert!(cluster.nodes[0].next() > Slot(0), "seed {seed}");
    }
}

#[test]
fn messages_ahead_of_their_records_are_found() {
    let found = (0..SEEDS).find(|seed| run(*seed, Hasty::default()).watch.disagreements > 0);
    assert!(
        found.is_some(),
        "no seed finds that messages do not wait for records"
    );
}
