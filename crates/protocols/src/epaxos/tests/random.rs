//! Random schedules: whatever replicas, disks and links do, what they deliver is one sequence, and bears out what
//! clients were told ([`Net`] watches). In the end everything works again, and everybody has everything.

use super::net::Net;
use crate::epaxos::{Config, Timer};
use fastrand::Rng;
use quorate_core::{Introspect, RequestId, majority};
use std::collections::BTreeSet;
use std::ops::Range;

const STEPS: usize = 1_500;

struct Walk {
    net: Net,
    rng: Rng,
    /// How many keys clients write.
    keys: u8,
    /// Writes, and where they were asked for.
    asked: Vec<(usize, RequestId)>,
    /// Replicas that are down.
    down: BTreeSet<usize>,
    /// A replica that may lose its promises when it comes back.
    loser: Option<usize>,
}

impl Walk {
    fn step(&mut self) {
        let me = self.rng.usize(0..self.net.nodes.len());
        match self.rng.u32(0..1000) {
            0..620 => self.pass_one(),
            620..720 => self.fire(me),
            720..800 => self.ask(me),
            800..890 => self.stick_or_flush(me),
            890..920 => self.fail(me),
            920..965 => self.come_back(),
            965..985 if self.net.cut.is_empty() => self.net.isolate(me),
            965..985 => self.net.cut.clear(),
            _ => self.net.hint(me, self.rng.bool()),
        }
    }

    /// One of the messages on their way arrives, now and then twice or never.
    fn pass_one(&mut self) {
        let waiting = self.net.wire.len();
        if waiting == 0 {
            return;
        }
        let place = if self.rng.u32(0..4) > 0 { 0 } else { self.rng.usize(0..waiting) };
        let packet = self.net.wire.remove(place).expect("it is on its way");
        let fate = self.rng.u32(0..20);
        if fate == 1 {
            self.net.wire.push_back(packet.clone());
        }
        if fate != 0 {
            self.net.receive(packet);
        }
    }

    fn fire(&mut self, me: usize) {
        let timers = self.net.nodes[me].timers.keys().copied();
        let timers: Vec<Timer> = timers.filter(|timer| *timer != Timer::Patience).collect();
        if let Some(timer) = self.rng.choice(timers) {
            self.net.fire(me, timer);
        }
    }

    fn ask(&mut self, me: usize) {
        let is_up = !self.down.contains(&me) && self.net.nodes[me].is_serving();
        if !is_up || self.asked.len() >= STEPS / 20 {
            return;
        }
        match self.rng.u32(0..12) {
            0 => drop(self.net.read(me)),
            1 => {
                let request = self.net.set_all(me);
                self.asked.push((me, request));
            }
            _ => {
                let key = self.rng.u8(0..self.keys);
                let request = self.net.set(me, key);
                self.asked.push((me, request));
            }
        }
    }

    fn stick_or_flush(&mut self, me: usize) {
        let node = &mut self.net.nodes[me];
        if node.machine.is_some() {
            node.is_stuck ^= true;
            if !node.is_stuck {
                self.net.flush(me);
            }
        }
    }

    fn fail(&mut self, me: usize) {
        let n = self.net.nodes.len();
        if self.down.len() < n - majority(n) && self.down.insert(me) {
            self.net.fail(me);
            self.asked.retain(|(at, _)| *at != me);
        }
    }

    fn come_back(&mut self) {
        let Some(me) = self.down.pop_first() else {
            return;
        };
        self.net.nodes[me].is_stuck = false;
        if self.loser == Some(me) {
            self.net.lose_promises(me);
        } else {
            self.net.restart(me);
        }
    }

    /// Everything works again, until all have everything.
    fn heal(&mut self) {
        while !self.down.is_empty() {
            self.come_back();
        }
        self.net.cut.clear();
        let n = self.net.nodes.len();
        for me in 0..n {
            self.net.nodes[me].is_stuck = false;
            self.net.flush(me);
            self.net.hint(me, true);
        }
        for _ in 0..600 {
            self.net.run();
            if self.is_done() {
                return;
            }
            for me in 0..n {
                self.fire(me);
                self.net.run();
            }
        }
    }

    fn is_done(&self) -> bool {
        let nodes = &self.net.nodes;
        let longest = nodes.iter().map(|node| node.log.len()).max();
        let is_served = |(at, request): &(usize, RequestId)| self.net.times(*at, *request) == 1;
        nodes.iter().all(|node| Some(node.log.len()) == longest) && self.asked.iter().all(is_served)
    }
}

/// What is tried.
pub(super) struct Try {
    pub(super) n: usize,
    pub(super) keys: u8,
    pub(super) has_loser: bool,
    pub(super) seeds: Range<u64>,
}

/// Walks with clusters whose configurations a mutant may have changed. Says which branches were taken.
pub(super) fn walk(of: Try, edit: impl Fn(&mut Config)) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    for seed in of.seeds {
        let mut walk = Walk {
            net: Net::edited(of.n, &[], &edit),
            rng: Rng::with_seed(seed),
            keys: of.keys,
            asked: Vec::new(),
            down: BTreeSet::new(),
            loser: of.has_loser.then_some(of.n - 1),
        };
        for _ in 0..STEPS {
            walk.step();
        }
        walk.heal();
        let states = || (0..of.n).map(|me| walk.net.machine(me).explain());
        assert!(walk.is_done(), "seed {seed}: {:#?}", states().collect::<Vec<_>>());
        seen.extend(walk.net.branches.keys());
    }
    seen
}

fn members(n: usize, keys: u8, seeds: Range<u64>) -> Try {
    Try {
        n,
        keys,
        has_loser: false,
        seeds,
    }
}

#[test]
fn three_members_agree() {
    let seen = walk(members(3, 3, 0..100), |_| {});
    for branch in ["instance made void", "mark proposed", "value validated"] {
        assert!(seen.contains(branch), "{branch} of {seen:?}");
    }
}

#[test]
fn five_members_agree() {
    let seen = walk(members(5, 3, 0..60), |_| {});
    assert!(seen.contains("accepted value goes on"), "{seen:?}");
}

#[test]
fn members_agree_where_everything_conflicts() {
    walk(members(3, 2, 0..40), |config| config.touches = None);
    walk(members(5, 2, 0..20), |config| config.touches = None);
}

#[test]
fn even_numbers_of_members_and_one_agree() {
    for n in [1, 2, 4, 6, 7] {
        walk(members(n, 2, 0..20), |_| {});
    }
}

#[test]
fn members_agree_of_which_one_lost_its_promises() {
    let of = Try {
        has_loser: true,
        ..members(5, 2, 0..30)
    };
    walk(of, |_| {});
}

#[test]
fn many_entries_at_once_agree() {
    walk(members(3, 2, 200..240), |config| config.batches.outstanding = 8);
}

#[test]
#[ignore = "thousands of schedules: takes minutes"]
fn members_agree_for_long() {
    for n in [3, 5, 7] {
        walk(members(n, 2, 10_000..11_000), |_| {});
        walk(members(n, 5, 20_000..21_000), |config| config.batches.outstanding = 8);
    }
}
