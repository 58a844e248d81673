//! Random schedules: whatever replicas, disks, clocks and links do, what is delivered agrees. In the end everything
//! works again, and everybody has everything.

use super::net::Net;
use crate::domino::{Config, Record, Timer};
use fastrand::Rng;
use quorate_core::{RequestId, majority};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const STEPS: usize = 1_500;
const WRITES_MAX: usize = 60;

/// What may happen in a walk.
#[derive(Clone, Copy, Default)]
pub(super) struct Weather {
    /// The last member loses its promises when it crashes.
    pub(super) loses: bool,
    /// Whether clocks jump.
    pub(super) jumps: bool,
    /// In the end they need not come to rest: a rule is broken, and what is looked for is worse.
    pub(super) is_broken: bool,
    /// What disks do not keep.
    pub(super) unwritten: Option<fn(&Record) -> bool>,
}

struct Walk {
    net: Net,
    rng: Rng,
    weather: Weather,
    down: BTreeSet<usize>,
    /// Writes whose gateways have not crashed since, by where they were asked for.
    asked: BTreeMap<RequestId, usize>,
}

impl Walk {
    fn member(&mut self) -> usize {
        self.rng.usize(..self.net.nodes.len())
    }

    fn one_step(&mut self) {
        let me = self.member();
        let n = self.net.nodes.len();
        match self.rng.u32(..200) {
            0..120 => self.deliver_one(),
            120..146 => self.let_time_pass(me),
            146..164 => self.write(me),
            164..180 => self.turn_disk(me),
            180..186 if self.down.len() < (n - majority(n)).max(1) => self.crash(me),
            186..193 => self.revive(),
            193..196 => self.turn_links(me),
            196..198 if self.weather.jumps => self.jump_clock(me),
            _ => {
                let up = self.rng.bool();
                self.net.hint(me, up);
            }
        }
    }

    fn deliver_one(&mut self) {
        let waiting = self.net.wire.len();
        if waiting == 0 {
            return;
        }
        let at = if self.rng.u8(..4) == 0 {
            self.rng.usize(..waiting)
        } else {
            0
        };
        let Some(packet) = self.net.wire.remove(at) else {
            return;
        };
        let fate = self.rng.u8(..24);
        if fate == 0 {
            self.net.wire.push_back(packet.clone());
        }
        if fate != 1 {
            self.net.receive(packet);
        }
    }

    fn let_time_pass(&mut self, me: usize) {
        self.net.now_ns += self.rng.u64(..2_000_000);
        let timers: Vec<Timer> = self.net.nodes[me].timers.keys().copied().collect();
        let timers = timers.into_iter().filter(|timer| *timer != Timer::Patience);
        if let Some(timer) = self.rng.choice(timers.collect::<Vec<_>>()) {
            self.net.fire(me, timer);
        }
    }

    fn write(&mut self, me: usize) {
        if self.net.nodes[me].is_serving() && self.asked.len() < WRITES_MAX {
            let request = self.net.write(me);
            self.asked.insert(request, me);
        }
    }

    fn turn_disk(&mut self, me: usize) {
        if self.net.nodes[me].machine.is_some() {
            let is_stuck = !self.net.nodes[me].is_stuck;
            self.net.nodes[me].is_stuck = is_stuck;
            if !is_stuck {
                self.net.flush(me);
            }
        }
    }

    fn crash(&mut self, me: usize) {
        if self.down.insert(me) {
            let node = &self.net.nodes[me];
            // Delivered slots and records are one log: where the former were not flushed, the latter were not.
            let is_even = node.log.len() == node.log_flushed;
            let unflushed = if is_even { node.unflushed() } else { 0 };
            let kept = self.rng.usize(..=unflushed);
            self.net.tear(me, kept);
            self.asked.retain(|_, at| *at != me);
        }
    }

    fn revive(&mut self) {
        let Some(me) = self.down.pop_last() else {
            return;
        };
        let last = self.net.nodes.len() - 1;
        self.net.nodes[me].is_stuck = false;
        if self.weather.loses && me == last && !self.net.nodes[me].is_lost {
            self.net.lose_promises(me);
        } else {
            self.net.restart(me);
        }
    }

    fn turn_links(&mut self, me: usize) {
        match self.net.cut.is_empty() {
            true => self.net.isolate(me),
            false => self.net.cut.clear(),
        }
    }

    fn jump_clock(&mut self, me: usize) {
        const HOUR_NS: i64 = 3_600_000_000_000;
        self.net.nodes[me].clock_ns = match self.rng.u8(..4) {
            0 => 0,
            1 => self.rng.i64(-HOUR_NS / 60..HOUR_NS / 60),
            2 => self.rng.i64(-50_000_000..50_000_000),
            _ => self.rng.i64(-1_000_000..1_000_000),
        };
    }

    fn heal(&mut self) {
        while !self.down.is_empty() {
            self.revive();
        }
        self.net.cut.clear();
        for me in 0..self.net.nodes.len() {
            self.net.nodes[me].is_stuck = false;
            self.net.flush(me);
            self.net.hint(me, true);
        }
        let requests: Vec<RequestId> = self.asked.keys().copied().collect();
        match self.weather.is_broken {
            true => self.net.pass(4_000_000_000),
            false => self.net.come_to_rest(&requests),
        }
    }
}

/// Walks with clusters in which a rule may be broken. Says which branches were taken.
pub(super) fn walk(
    n: usize,
    params: &[(&str, &str)],
    weather: Weather,
    seeds: Range<u64>,
    breaks: impl Fn(&mut Config),
) -> BTreeSet<&'static str> {
    let mut branches = BTreeSet::new();
    for seed in seeds {
        let mut walk = Walk {
            net: Net::broken(n, params, &breaks),
            rng: Rng::with_seed(seed),
            weather,
            down: BTreeSet::new(),
            asked: BTreeMap::new(),
        };
        walk.net.watch.unwritten = weather.unwritten;
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..STEPS {
                walk.one_step();
            }
            walk.heal();
        }));
        if let Err(panic) = result {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
        branches.extend(walk.net.branches.keys());
    }
    branches
}

const SUNNY: Weather = Weather {
    loses: false,
    jumps: false,
    is_broken: false,
    unwritten: None,
};

const ROUGH: Weather = Weather {
    jumps: true,
    ..SUNNY
};

#[test]
fn three_members_agree() {
    let seen = walk(3, &[], ROUGH, 0..150, |_| {});
    for branch in [
        "accept ahead",
        "candidate behind",
        "collision",
        "committed at the gateway",
        "lane taken over",
        "position lost",
        "position proposed again",
        "time of a slot learnt",
        "votes late",
    ] {
        assert!(seen.contains(branch), "{branch} of {seen:?}");
    }
}

#[test]
fn five_members_agree() {
    walk(5, &[], SUNNY, 0..60, |_| {});
}

#[test]
fn even_numbers_of_members_agree() {
    walk(2, &[], ROUGH, 0..60, |_| {});
    walk(4, &[], ROUGH, 0..60, |_| {});
    walk(6, &[], SUNNY, 0..40, |_| {});
}

#[test]
fn one_member_agrees_with_itself() {
    walk(1, &[], ROUGH, 0..30, |_| {});
}

#[test]
fn members_agree_of_which_one_lost_its_promises() {
    let weather = Weather {
        loses: true,
        ..SUNNY
    };
    walk(5, &[], weather, 0..60, |_| {});
}

#[test]
fn members_with_their_own_lanes_alone_agree() {
    walk(3, &[("way", "dm")], ROUGH, 0..100, |_| {});
}

#[test]
fn short_reservations_many_entries_and_rare_beats_agree() {
    let params = [
        ("reserve_ms", "1"),
        ("outstanding", "8"),
        ("heartbeat_ms", "10"),
    ];
    walk(3, &params, ROUGH, 0..100, |_| {});
    walk(
        3,
        &[("way", "predict"), ("window", "1")],
        ROUGH,
        0..60,
        |_| {},
    );
}

#[test]
#[ignore = "thousands of schedules: takes minutes"]
fn members_agree_for_long() {
    for n in 2..=7 {
        walk(n, &[], ROUGH, 10_000..12_000, |_| {});
        walk(n, &[("way", "dm")], ROUGH, 20_000..21_000, |_| {});
    }
}
