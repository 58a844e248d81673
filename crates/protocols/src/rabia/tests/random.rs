//! Randomised runs: first the world hurts the cluster and only safety is asked for; then it
//! heals and everything submitted at a replica that lived must be delivered everywhere.

use super::cluster::{Cluster, DELAY_NS, Dice, Weather};
use crate::rabia::{Config, Rabia, Record};
use crate::registry::{Protocol, Sabotage};
use quorate_core::{Class, MICROS, Outcome, Refusal, RequestId, SECONDS, Slot};
use std::collections::BTreeSet;

/// A read, where it was asked, and the first slot it need not see.
struct Read {
    node: usize,
    id: RequestId,
    at_least: Slot,
    boot: u64,
}

struct Run {
    cluster: Cluster,
    dice: Dice,
    f: usize,
    /// Writes with the replica and boot that took them.
    writes: Vec<(usize, u64, RequestId)>,
    reads: Vec<Read>,
    /// Whether replicas come back with nothing now and then.
    losses: bool,
}

impl Run {
    fn new(n: usize, params: &[(&str, &str)], seed: u64, sabotage: fn(&mut Config)) -> Run {
        let mut cluster = Cluster::with(n, params, seed, sabotage);
        let mut dice = Dice::new(seed ^ 0x5eed);
        cluster.watch.weather = Weather {
            delay_ns: (20 * MICROS, 20 * MICROS + dice.below(6) * 200 * MICROS),
            flush_ns: (10 * MICROS, 10 * MICROS + dice.below(4) * 300 * MICROS),
            loss_percent: [0, 2, 10, 30][dice.below(4) as usize],
            dup_percent: [0, 10][dice.below(2) as usize],
        };
        let f = cluster.nodes[0].config.thresholds.f;
        Run {
            cluster,
            dice,
            f,
            writes: Vec::new(),
            reads: Vec::new(),
            losses: false,
        }
    }

    fn boot(&self, node: usize) -> u64 {
        self.cluster.nodes[node].config.boot.0
    }

    fn submit(&mut self) {
        let node = self.dice.below(self.cluster.nodes.len() as u64) as usize;
        if !self.cluster.is_up(node) {
            return;
        }
        let boot = self.boot(node);
        if self.dice.percent(25) {
            let at_least = self.cluster.first_without_effect();
            let id = self.cluster.submit(node, Class::Read);
            self.reads.push(Read {
                node,
                id,
                at_least,
                boot,
            });
        } else {
            let id = self.cluster.write(node);
            self.writes.push((node, boot, id));
        }
    }

    fn hurt(&mut self) {
        let n = self.cluster.nodes.len() as u64;
        let node = self.dice.below(n) as usize;
        match self.dice.below(10) {
            0..=2 => {
                // Any number may be down at once: only liveness needs n - f.
                let down = (0..n as usize)
                    .filter(|node| !self.cluster.is_up(*node))
                    .count();
                if self.cluster.is_up(node) && (down < self.f || self.dice.percent(20)) {
                    self.cluster.crash(node);
                }
            }
            3..=5 => {
                let down = (0..n as usize).find(|node| !self.cluster.is_up(*node));
                if let Some(node) = down {
                    self.cluster.restart(node);
                }
            }
            6 if self.losses => self.lose_everything(node),
            7 => {
                let other = self.dice.below(n) as usize;
                self.cluster.watch.blocked.insert((node, other));
            }
            _ => self.cluster.watch.blocked.clear(),
        }
    }

    /// A replica comes back with nothing, if no more than f are without their promises then.
    fn lose_everything(&mut self, node: usize) {
        let without = |other: &usize| *other != node && !self.cluster.is_serving(*other);
        let n = self.cluster.nodes.len();
        if (0..n).filter(without).count() < self.f {
            self.cluster.crash(node);
            self.cluster.restart_lost(node);
        }
    }

    fn storm(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for _ in 0..self.dice.below(4) {
                self.submit();
            }
            if self.dice.percent(15) {
                self.hurt();
            }
            let wait = self.dice.below(800) * MICROS;
            self.cluster.run_for(wait);
            if self.cluster.watch.violation.is_some() {
                return;
            }
        }
    }

    fn heal(&mut self) {
        self.cluster.watch.weather = Weather {
            delay_ns: (DELAY_NS, DELAY_NS),
            ..Weather::default()
        };
        self.cluster.watch.blocked.clear();
        for node in 0..self.cluster.nodes.len() {
            if !self.cluster.is_up(node) {
                self.cluster.restart(node);
            }
        }
        // A request at every replica brings along who saw nothing of the last slots.
        for node in 0..self.cluster.nodes.len() {
            let id = self.cluster.write(node);
            self.writes.push((node, self.boot(node), id));
        }
    }

    /// Whether a read was answered with a slot that some write completed before it lies behind.
    fn has_stale_read(&self) -> bool {
        let is_stale = |read: &Read| {
            let mut replies = self.cluster.nodes[read.node].replies.iter();
            replies.any(|(id, outcome)| {
                *id == read.id && matches!(outcome, Outcome::ReadAt(slot) if *slot < read.at_least)
            })
        };
        self.reads.iter().any(is_stale)
    }

    fn check_drained(&mut self, seed: u64) {
        let is_silent = self.cluster.run_until_silent(20 * SECONDS);
        self.cluster.assert_sound();
        assert!(is_silent, "seed {seed}: silence in the end");
        for (node, boot, id) in &self.writes {
            let is_refused = |(refused, _): &(RequestId, Outcome)| refused == id;
            let is_taken = !self.cluster.nodes[*node].replies.iter().any(is_refused);
            if self.boot(*node) == *boot && is_taken {
                assert!(
                    self.cluster.has_everywhere(*id),
                    "seed {seed}: {id:?} is lost"
                );
            }
        }
        assert!(!self.has_stale_read(), "seed {seed}: a stale read (I10)");
        for read in &self.reads {
            let mut replies = self.cluster.nodes[read.node].replies.iter();
            match replies.find(|(id, _)| *id == read.id) {
                Some((_, Outcome::ReadAt(_))) => {}
                Some((_, Outcome::Refused(Refusal::NotServing))) => {}
                Some((_, other)) => panic!("seed {seed}: a read is answered {other:?}"),
                None => assert!(
                    self.boot(read.node) != read.boot,
                    "seed {seed}: a read is lost"
                ),
            }
        }
        for node in 0..self.cluster.nodes.len() {
            assert_eq!(
                self.cluster.entries(node),
                self.cluster.entries(0),
                "seed {seed} (I7)"
            );
        }
    }
}

/// Gives the rare branches taken.
fn storms(
    n: usize,
    params: &[(&str, &str)],
    seeds: std::ops::Range<u64>,
) -> BTreeSet<&'static str> {
    let mut branches = BTreeSet::new();
    for seed in seeds {
        let mut run = Run::new(n, params, seed, |_| {});
        run.losses = seed % 2 == 1;
        run.storm(60);
        run.cluster.assert_sound();
        run.heal();
        run.check_drained(seed);
        branches.extend(run.cluster.branches.keys());
    }
    branches
}

/// A rare branch that no run takes would be untested.
#[test]
fn every_rare_branch_is_taken_by_some_run() {
    let paper = [("mode", "three_step"), ("fast_rules", "false")];
    let mut branches = storms(3, &[], 6000..6100);
    branches.extend(storms(4, &paper, 6100..6200));
    branches.extend(storms(3, &[("grace_us", "200")], 6200..6230));
    // A full share takes more than a storm's few batches.
    let all = Rabia::branches().iter().copied();
    let all: Vec<_> = all.filter(|b| *b != "pool share full").collect();
    assert_eq!(branches.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn three_replicas_survive_the_weather() {
    storms(3, &[], 0..150);
    storms(3, &[("reads", "log")], 200..250);
}

#[test]
fn three_replicas_survive_the_weather_without_holding_votes() {
    storms(3, &[("vote_hold_us", "0"), ("window", "4")], 1000..1100);
}

#[test]
fn three_replicas_in_the_papers_mode_survive_the_weather() {
    let paper = [
        ("mode", "three_step"),
        ("fast_rules", "false"),
        ("window", "1"),
    ];
    storms(3, &paper, 2000..2060);
    storms(3, &[("mode", "three_step"), ("echo", "false")], 2100..2160);
}

#[test]
fn replicas_that_wait_for_more_survive_the_weather() {
    storms(3, &[("grace_us", "300"), ("freeze_us", "200")], 5400..5460);
    let paper = [
        ("mode", "three_step"),
        ("fast_rules", "false"),
        ("grace_us", "300"),
    ];
    storms(5, &paper, 5500..5530);
}

#[test]
fn five_replicas_survive_the_weather() {
    storms(5, &[("window", "3")], 3000..3060);
    storms(5, &[("f", "1"), ("vote_hold_us", "200")], 3100..3130);
}

#[test]
fn lanes_survive_the_weather() {
    storms(3, &[("lanes", "3")], 5000..5080);
    storms(
        3,
        &[("lanes", "2"), ("window", "5"), ("vote_hold_us", "0")],
        5100..5150,
    );
    storms(5, &[("lanes", "5")], 5200..5230);
    storms(5, &[("lanes", "5"), ("f", "1")], 5300..5330);
}

#[test]
fn four_replicas_survive_the_weather() {
    storms(4, &[], 4000..4100);
    storms(4, &[("window", "4"), ("outstanding", "4")], 4100..4200);
}

/// Whether some seed gives a violation, of which an assertion of a replica is one.
fn some_run_fails(
    n: usize,
    params: &[(&str, &str)],
    sabotage: fn(&mut Config),
    forget: Option<fn(&Record) -> bool>,
    amnesia: bool,
    seeds: std::ops::Range<u64>,
) -> bool {
    seeds.into_iter().any(|seed| {
        let fails = std::panic::catch_unwind(|| {
            let mut run = Run::new(n, params, seed, sabotage);
            run.cluster.watch.forget = forget;
            run.cluster.watch.amnesia = amnesia;
            run.losses = seed % 2 == 1;
            run.storm(60);
            run.cluster.watch.violation.is_some() || run.has_stale_read()
        });
        fails.unwrap_or(true)
    })
}

#[test]
fn random_runs_of_whole_replicas_find_every_mutant_and_nothing_else() {
    let params = [("vote_hold_us", "0"), ("lanes", "2")];
    assert!(!some_run_fails(3, &params, |_| {}, None, false, 0..300));
    let mut unnoticed = Vec::new();
    // What they break is seen by hosts, or by whoever waits.
    let others = [
        "no-batch-record",
        "no-floor-record",
        "no-null",
        "grace-forever",
    ];
    let mutants = Rabia::mutants().into_iter();
    for mutant in mutants.filter(|mutant| !others.contains(&mutant.name)) {
        let is_found = match mutant.sabotage {
            Sabotage::Forget(forget) => {
                some_run_fails(3, &params, |_| {}, Some(forget), false, 0..300)
            }
            Sabotage::Amnesia => some_run_fails(3, &params, |_| {}, None, true, 0..300),
            Sabotage::Config(lower) => some_run_fails(3, &params, lower, None, false, 0..300),
            _ => continue,
        };
        if !is_found {
            unnoticed.push(mutant.name);
        }
    }
    assert_eq!(unnoticed, [""; 0]);
}
