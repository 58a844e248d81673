//! Random schedules: whatever replicas, disks and links do, what they deliver agrees ([`Net`] watches). In
//! the end everything works again, and everybody has everything.

use super::net::Net;
use crate::fast_paxos::{Config, Timer};
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
    fn any(&mut self) -> usize {
        self.rng.usize(0..self.net.nodes.len())
    }

    fn step(&mut self) {
        let me = self.any();
        match self.rng.u32(0..1000) {
            0..600 => self.pass_one(),
            600..720 => self.fire(me),
            720..800 => self.ask(me),
            800..890 => self.toggle_disk(me),
            890..925 => self.fail(me),
            925..965 => self.come_back(),
            965..985 => self.toggle_links(me),
            _ => self.net.hint(me, self.rng.bool()),
        }
    }

    /// A message arrives, twice or never, not always in its turn.
    fn pass_one(&mut self) {
        let waiting = self.net.wire.len();
        if waiting == 0 {
            return;
        }
        let is_in_turn = self.rng.u32(0..4) > 0;
        let place = match is_in_turn {
            true => 0,
            false => self.rng.usize(0..waiting),
        };
        let packet = self.net.wire.remove(place).expect("it is on its way");
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
        let is_up = !self.down.contains(&me) && self.net.nodes[me].is_serving();
        if is_up && self.asked.len() < STEPS / 20 {
            let request = self.net.write(me);
            self.asked.push((me, request));
        }
    }

    /// The disk gets stuck, or done.
    fn toggle_disk(&mut self, me: usize) {
        let node = &mut self.net.nodes[me];
        if node.machine.is_none() {
            return;
        }
        node.is_stuck = !node.is_stuck;
        if !node.is_stuck {
            self.net.flush(me);
        }
    }

    fn fail(&mut self, me: usize) {
        let n = self.net.nodes.len();
        if self.down.len() < n - majority(n) && self.down.insert(me) {
            self.net.crash(me);
            self.asked.retain(|(at, _)| *at != me);
        }
    }

    fn come_back(&mut self) {
        if let Some(me) = self.down.pop_first() {
            self.net.nodes[me].is_stuck = false;
            match self.loser == Some(me) {
                true => self.net.lose_promises(me),
                false => self.net.restart(me),
            }
        }
    }

    fn toggle_links(&mut self, me: usize) {
        if self.net.cut.is_empty() {
            self.net.isolate(me);
        } else {
            self.net.cut.clear();
        }
    }

    /// Everything works again, until all have everything.
    fn heal(&mut self) {
        while !self.down.is_empty() {
            self.come_back();
        }
        self.net.cut.clear();
        for me in 0..self.net.nodes.len() {
            self.net.nodes[me].is_stuck = false;
            self.net.flush(me);
            self.net.hint(me, true);
        }
        for _ in 0..400 {
            self.net.run();
            if self.is_done() {
                return;
            }
            let (first, n) = (self.any(), self.net.nodes.len());
            for me in (0..n).map(|me| (me + first) % n) {
                self.fire(me);
                self.net.run();
            }
        }
    }

    fn is_done(&self) -> bool {
        let nodes = &self.net.nodes;
        let longest = nodes.iter().map(|node| node.log.len()).max();
        let is_served = |(at, request): &(usize, RequestId)| self.net.times(*at, *request) == 1;
        let is_complete = |at: usize| Some(nodes[at].log.len()) == longest;
        (0..nodes.len()).all(is_complete) && self.asked.iter().all(is_served)
    }
}

/// Walks with clusters whose configurations a mutant may have changed. Says which branches were taken.
pub(super) fn walk(
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
        "collision",
        "decided twice",
        "leader deposed",
        "slot proposed again",
        "slots skipped",
        "vote replaced",
        "votes late",
    ] {
        assert!(seen.contains(branch), "{branch} of {seen:?}");
    }
}

#[test]
fn five_members_agree() {
    walk(5, false, 0..60, |_| {});
}

#[test]
fn even_numbers_of_members_agree() {
    walk(2, false, 0..40, |_| {});
    walk(4, false, 0..40, |_| {});
    walk(6, false, 0..40, |_| {});
}

#[test]
fn members_agree_of_which_one_lost_its_promises() {
    walk(5, true, 0..40, |_| {});
}

#[test]
fn small_windows_agree() {
    walk(3, false, 200..240, |config| {
        (config.window, config.slots_max) = (1, 12);
        config.batches.outstanding = 4;
    });
}

#[test]
#[ignore = "thousands of schedules: takes minutes"]
fn members_agree_for_long() {
    for n in [3, 4, 5, 6, 7] {
        walk(n, false, 10_000..12_000, |_| {});
        walk(n, false, 20_000..22_000, |config| {
            (config.window, config.slots_max) = (2, 16);
        });
    }
    walk(5, true, 30_000..32_000, |_| {});
}
