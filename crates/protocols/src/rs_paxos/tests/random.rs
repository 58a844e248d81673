//! Random schedules: whatever replicas, disks and links do, what they decide agrees, and every chosen
//! value can be rebuilt ([`Net`] watches). In the end everything works again, and everybody has
//! everything.

use super::net::Net;
use crate::rs_paxos::Timer;
use fastrand::Rng;
use quorate_core::RequestId;
use std::collections::BTreeSet;

const STEPS: usize = 1_500;

struct Walk {
    net: Net,
    rng: Rng,
    /// Writes, and where they were asked for.
    asked: Vec<(usize, RequestId)>,
    /// Replicas that are down.
    down: BTreeSet<usize>,
    /// How many may be down at once.
    down_max: usize,
}

impl Walk {
    fn new(net: Net, seed: u64) -> Walk {
        let config = &net.nodes[0].config;
        let down_max = config.seating.members.len() - config.thresholds.read;
        Walk {
            net,
            rng: Rng::with_seed(seed),
            asked: Vec::new(),
            down: BTreeSet::new(),
            down_max,
        }
    }

    fn any(&mut self) -> usize {
        self.rng.usize(0..self.net.nodes.len())
    }

    fn step(&mut self) {
        let me = self.any();
        match self.rng.u32(0..1000) {
            0..550 => self.pass_one(),
            550..700 => self.fire(me),
            700..780 => self.ask(me),
            780..860 => self.flush(me),
            860..900 => {
                self.net.gather(me);
            }
            900..930 => self.fail(me),
            930..970 => self.come_back(),
            970..985 => self.toggle_links(me),
            _ => self.net.hint(me, self.rng.bool()),
        }
    }

    /// A message arrives, twice or never, not always in its turn.
    fn pass_one(&mut self) {
        if self.net.wire.is_empty() {
            return;
        }
        let place = match self.rng.u32(0..4) {
            0 => self.rng.usize(0..self.net.wire.len()),
            _ => 0,
        };
        let packet = self.net.wire.remove(place).expect("it is on its way");
        match self.rng.u32(0..20) {
            0 => {}
            1 => {
                self.net.wire.push_back(packet.clone());
                self.net.receive(packet);
            }
            _ => self.net.receive(packet),
        }
    }

    fn fire(&mut self, me: usize) {
        let timers: Vec<Timer> = self.net.nodes[me].timers.keys().copied().collect();
        let is_patience = |timer: &Timer| *timer == Timer::Patience;
        if let Some(timer) = self.rng.choice(timers).filter(|timer| !is_patience(timer)) {
            self.net.fire(me, timer);
        }
    }

    fn ask(&mut self, me: usize) {
        if self.down.contains(&me) || self.asked.len() > STEPS / 20 {
            return;
        }
        let request = match self.rng.u32(0..4) {
            0 => self.net.write(me),
            _ => self.net.write_bulk(me),
        };
        self.asked.push((me, request));
    }

    /// The disk gets stuck, or done.
    fn flush(&mut self, me: usize) {
        let node = &mut self.net.nodes[me];
        node.is_stuck = !node.is_stuck && node.machine.is_some();
        if !node.is_stuck && node.machine.is_some() {
            self.net.flush(me);
        }
    }

    fn fail(&mut self, me: usize) {
        if self.down.len() < self.down_max && self.down.insert(me) {
            self.net.crash(me);
            self.asked.retain(|(at, _)| *at != me);
        }
    }

    fn come_back(&mut self) {
        if let Some(me) = self.down.pop_first() {
            self.net.restart(me);
        }
    }

    fn toggle_links(&mut self, me: usize) {
        if self.net.cut.is_empty() {
            self.net.isolate(me);
        } else {
            self.net.cut.clear();
        }
    }

    /// Everything works again.
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
            // A round of everybody's timers, one after the other, whoever begins.
            let (first, n) = (self.any(), self.net.nodes.len());
            for me in (0..n).map(|me| (me + first) % n) {
                self.fire(me);
                self.net.run();
            }
        }
    }

    fn is_done(&self) -> bool {
        let all = 0..self.net.nodes.len();
        let longest = all.clone().map(|me| self.net.names(me).len()).max();
        let is_complete = |me: usize| Some(self.net.names(me).len()) == longest;
        all.clone().all(is_complete)
            && self
                .asked
                .iter()
                .all(|(at, request)| self.net.times(*at, *request) == 1)
    }
}

fn walk(net: impl Fn() -> Net, seeds: std::ops::Range<u64>, branches: &[&str]) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut fragments = 0;
    for seed in seeds {
        let mut walk = Walk::new(net(), seed);
        for _ in 0..STEPS {
            walk.step();
        }
        walk.heal();
        let lacking = walk
            .asked
            .iter()
            .filter(|(at, r)| walk.net.times(*at, *r) != 1)
            .count();
        assert!(
            walk.is_done(),
            "seed {seed}: {lacking} of {}",
            walk.asked.len()
        );
        seen.extend(walk.net.branches.keys());
        fragments += walk.net.count("fragment");
    }
    assert!(fragments > 100, "{fragments}");
    for branch in branches {
        assert!(seen.contains(branch), "{branch} of {seen:?}");
    }
}

#[test]
fn four_members_agree() {
    let branches = ["smaller code", "fragment missing", "payloads gathered"];
    walk(|| Net::coded(4, &[]), 0..60, &branches);
}

#[test]
fn five_members_agree() {
    let branches = ["smaller code", "fragment missing", "payloads gathered"];
    walk(|| Net::coded(5, &[]), 0..60, &branches);
    walk(
        || Net::coded(5, &[("profile", "flex")]),
        100..140,
        &["smaller code"],
    );
}

#[test]
fn seven_members_agree() {
    walk(
        || Net::coded(7, &[]),
        0..40,
        &["fragment missing", "payloads gathered"],
    );
}

#[test]
fn large_values_agree() {
    let params = [("spread_min", "10")];
    walk(
        || Net::coded(5, &params),
        0..40,
        &["smaller code", "payloads gathered"],
    );
}

#[test]
fn members_that_code_nothing_agree() {
    walk(
        || Net::new(3, &[]),
        0..60,
        &["fragment missing", "payloads gathered"],
    );
}

/// The schedules above are such that what goes wrong shows.
#[test]
#[should_panic(expected = "(I")]
fn one_accept_too_few_is_noticed() {
    let lowered = || {
        let mut net = Net::coded(5, &[]);
        let mut configs: Vec<_> = net.nodes.drain(..).map(|node| node.config).collect();
        configs
            .iter_mut()
            .for_each(|config| config.thresholds.write -= 1);
        Net::of(configs)
    };
    walk(lowered, 0..60, &[]);
}
