//! Random schedules: whatever replicas, disks and links do, what they deliver and answer agrees ([`Net`] watches). In
//! the end everything works again, and everybody has everything.

use super::net::Net;
use crate::nopaxos::{Config, Timer};
use fastrand::Rng;
use quorate_core::{Introspect, RequestId, majority};
use std::collections::BTreeSet;
use std::ops::Range;

const STEPS: usize = 1_200;

struct Walk {
    net: Net,
    rng: Rng,
    /// Writes, and where they were asked for.
    asked: Vec<(usize, RequestId)>,
    /// Replicas that are down.
    down: BTreeSet<usize>,
    /// A replica that may lose its promises when it comes back.
    loser: Option<usize>,
}

impl Walk {
    fn n(&self) -> usize {
        self.net.nodes.len()
    }

    fn step(&mut self) {
        let me = self.rng.usize(0..self.n());
        match self.rng.u32(0..1000) {
            0..640 => self.pass_one(),
            640..720 => self.fire(me),
            720..800 => self.ask(me),
            800..880 => self.toggle_disk(me),
            880..915 => self.fail(me),
            915..955 => self.come_back(),
            955..975 if self.net.cut.is_empty() => self.net.isolate(me),
            955..985 => self.net.cut.clear(),
            _ => self.net.hint(me, self.rng.bool()),
        }
    }

    /// A message arrives, twice or never, not always in its turn.
    fn pass_one(&mut self) {
        let last = self.net.wire.len().saturating_sub(1);
        let at = match self.rng.u32(0..4) {
            0 => self.rng.usize(0..=last),
            _ => 0,
        };
        let Some(packet) = self.net.wire.remove(at) else {
            return;
        };
        match self.rng.u32(0..20) {
            0 => return,
            1 => self.net.wire.push_back(packet.clone()),
            _ => {}
        }
        self.net.receive(packet);
    }

    fn fire(&mut self, me: usize) {
        let timers = self.net.nodes[me].timers.keys().copied();
        let timers: Vec<Timer> = timers.filter(|timer| *timer != Timer::Patience).collect();
        if let Some(timer) = self.rng.choice(timers) {
            self.net.fire(me, timer);
        }
    }

    fn ask(&mut self, me: usize) {
        if !self.net.nodes[me].is_serving() || self.asked.len() >= STEPS / 20 {
            return;
        }
        if self.rng.u32(0..5) == 0 {
            self.net.read(me);
        } else {
            let request = self.net.write(me);
            self.asked.push((me, request));
        }
    }

    /// The disk gets stuck, or done.
    fn toggle_disk(&mut self, me: usize) {
        let node = &mut self.net.nodes[me];
        node.is_stuck = !node.is_stuck && node.machine.is_some();
        if !node.is_stuck {
            self.net.flush(me);
        }
    }

    fn fail(&mut self, me: usize) {
        if self.down.len() < self.n() - majority(self.n()) && self.down.insert(me) {
            let unflushed = self.net.nodes[me].unflushed();
            let written = self.rng.usize(0..=unflushed);
            self.net.tear_up(me, written);
            self.asked.retain(|(at, _)| *at != me);
        }
    }

    fn come_back(&mut self) {
        if let Some(me) = self.down.pop_first() {
            match self.loser == Some(me) {
                true => self.net.lose_disk(me),
                false => self.net.restart(me),
            }
        }
    }

    /// Everything works again, until all have everything.
    fn heal(&mut self) {
        while !self.down.is_empty() {
            self.come_back();
        }
        self.net.cut.clear();
        for me in 0..self.n() {
            self.net.nodes[me].is_stuck = false;
            self.net.flush(me);
            self.net.hint(me, true);
        }
        for round in 0..600 {
            self.net.run();
            if round > 2 && self.is_done() {
                return;
            }
            if round == 2 {
                // Whoever missed all there was hears of something.
                let me = (0..self.n()).find(|me| self.net.nodes[*me].is_serving());
                let me = me.expect("a majority is");
                let request = self.net.write(me);
                self.asked.push((me, request));
            }
            for _ in 0..self.n() {
                let me = self.rng.usize(0..self.n());
                self.fire(me);
                self.net.run();
            }
        }
    }

    fn is_done(&self) -> bool {
        let longest = self.net.nodes.iter().map(|node| node.log.len()).max();
        let is_complete = |node: &quorate_testkit::Node<_>| {
            let has = |(_, request): &(usize, RequestId)| node.times(*request) == 1;
            Some(node.log.len()) == longest && self.asked.iter().all(has)
        };
        self.net.nodes.iter().all(is_complete)
    }
}

/// Walks with clusters whose configurations may be changed. Says which branches were taken.
fn walk(
    n: usize,
    has_loser: bool,
    seeds: Range<u64>,
    edit: impl Fn(&mut Config),
) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    for seed in seeds {
        let mut walk = Walk {
            net: Net::edited(n, &[], &edit),
            rng: Rng::with_seed(seed),
            asked: Vec::new(),
            down: BTreeSet::new(),
            loser: has_loser.then_some(n - 1),
        };
        for _ in 0..STEPS {
            walk.step();
        }
        walk.heal();
        let states: Vec<String> = (0..n).map(|me| walk.net.machine(me).explain()).collect();
        assert!(walk.is_done(), "seed {seed}: {states:#?}");
        seen.extend(walk.net.branches.keys());
    }
    seen
}

#[test]
fn three_members_agree() {
    let seen = walk(3, false, 0..100, |_| {});
    for branch in [
        "gap",
        "entry given up",
        "decided twice",
        "view started",
        "leader suspected",
    ] {
        assert!(seen.contains(branch), "{branch} of {seen:?}");
    }
    assert!(seen.contains("sequencer suspected") && seen.contains("behind those who left"));
}

#[test]
fn five_members_agree_that_have_patience_with_what_is_late() {
    walk(5, false, 0..50, |config| config.delays.gap_ns = 50_000);
}

#[test]
fn members_agree_of_which_one_lost_its_promises() {
    walk(5, true, 0..30, |_| {});
}

#[test]
fn small_windows_agree() {
    walk(3, false, 200..240, |config| {
        (config.window, config.slots_max) = (2, 6);
    });
}

#[test]
#[ignore = "thousands of schedules: takes minutes"]
fn members_agree_for_long() {
    for n in [3, 4, 5, 7] {
        walk(n, false, 10_000..12_000, |_| {});
        walk(n, false, 20_000..21_000, |config| {
            config.delays.gap_ns = 50_000
        });
        walk(n, false, 30_000..31_000, |config| {
            (config.window, config.slots_max) = (1, 4);
        });
    }
    walk(5, true, 40_000..42_000, |_| {});
}
