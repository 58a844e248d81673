//! Random schedules: whatever replicas, disks and links do, what they deliver and answer agrees ([`Net`] watches). In
//! the end everything works again, and everybody has everything.

use super::net::{Net, Watched};
use crate::nopaxos::{Config, Replica, Timer};
use fastrand::Rng;
use quorate_core::RequestId;
use quorate_testkit::{Losers, Walked};
use std::collections::BTreeSet;
use std::ops::Range;

impl Walked for Net {
    type Machine = Replica;
    type Watch = Watched;
    const SHARES: [u32; 2] = [640, 80];

    fn ends_requests(timer: &Timer) -> bool {
        *timer == Timer::Patience
    }

    /// A write, or now and then a read that nobody waits for.
    fn ask(&mut self, me: usize, rng: &mut Rng) -> Option<RequestId> {
        if !self.nodes[me].is_serving() {
            return None;
        }
        if rng.u32(0..5) == 0 {
            self.read(me);
            return None;
        }
        Some(self.write(me))
    }

    /// Some of what was not flushed came to the disk.
    fn fail(&mut self, me: usize, rng: &mut Rng) {
        let unflushed = self.nodes[me].unflushed();
        self.tear_up(me, rng.usize(0..=unflushed));
    }

    fn come_back(&mut self, me: usize, has_promises: bool) {
        match has_promises {
            true => self.restart(me),
            false => self.lose_disk(me),
        }
    }
}

/// Walks with clusters whose configurations may be changed. Says which branches were taken.
fn walk(
    n: usize,
    losers: Losers,
    seeds: Range<u64>,
    edit: impl Fn(&mut Config),
) -> BTreeSet<&'static str> {
    quorate_testkit::walk(|| Net::edited(n, &[], &edit), losers, seeds)
}

#[test]
fn three_members_agree() {
    let seen = walk(3, Losers::Nobody, 0..100, |_| {});
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
    walk(5, Losers::Nobody, 0..50, |config| {
        config.delays.gap_ns = 50_000
    });
}

#[test]
fn members_agree_of_which_one_lost_its_promises() {
    walk(5, Losers::TheLast, 0..30, |_| {});
}

#[test]
fn small_windows_agree() {
    walk(3, Losers::Nobody, 200..240, |config| {
        (config.window, config.slots_max) = (2, 6);
    });
}

#[test]
#[ignore = "thousands of schedules: takes minutes"]
fn members_agree_for_long() {
    for n in [3, 4, 5, 7] {
        walk(n, Losers::Nobody, 10_000..12_000, |_| {});
        walk(n, Losers::Nobody, 20_000..21_000, |config| {
            config.delays.gap_ns = 50_000
        });
        walk(n, Losers::Nobody, 30_000..31_000, |config| {
            (config.window, config.slots_max) = (1, 4);
        });
    }
    walk(5, Losers::TheLast, 40_000..42_000, |_| {});
}
