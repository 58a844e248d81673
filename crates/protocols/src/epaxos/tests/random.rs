//! Random schedules: whatever replicas, disks and links do, what they deliver is one sequence, and bears out what
//! clients were told ([`Net`] watches).

use super::net::{Net, Watched};
use crate::epaxos::{Config, Replica, Timer};
use fastrand::Rng;
use quorate_core::{MICROS, RequestId};
use quorate_testkit::{Losers, Walked};
use std::collections::BTreeSet;
use std::ops::Range;

impl Walked for Net {
    type Machine = Replica;
    type Watch = Watched;

    fn ends_requests(timer: &Timer) -> bool {
        *timer == Timer::Patience
    }

    /// A client writes one of few keys, or everything, or reads.
    fn ask(&mut self, me: usize, rng: &mut Rng) -> Option<RequestId> {
        if !self.nodes[me].is_serving() {
            return None;
        }
        match rng.u32(0..12) {
            0 => {
                self.read(me);
                None
            }
            1 => Some(self.set_all(me)),
            _ => Some(self.set(me, rng.u8(0..3))),
        }
    }

    fn fail(&mut self, me: usize, _: &mut Rng) {
        self.die(me);
    }
}

/// Walks with clusters whose configurations may be changed. Says which branches were taken.
pub(super) fn walk(
    n: usize,
    losers: Losers,
    seeds: Range<u64>,
    edit: impl Fn(&mut Config),
) -> BTreeSet<&'static str> {
    quorate_testkit::walk(|| Net::edited(n, &[], &edit), losers, seeds)
}

#[test]
fn three_members_agree() {
    let seen = walk(3, Losers::Nobody, 0..80, |_| {});
    for branch in ["instance made void", "mark proposed", "value validated"] {
        assert!(seen.contains(branch), "{branch} of {seen:?}");
    }
}

#[test]
fn five_members_agree() {
    let seen = walk(5, Losers::Nobody, 0..40, |_| {});
    assert!(seen.contains("accepted value goes on"), "{seen:?}");
}

#[test]
fn members_agree_where_everything_conflicts() {
    walk(3, Losers::Nobody, 0..40, |config| config.touches = None);
    walk(5, Losers::Nobody, 0..20, |config| config.touches = None);
}

#[test]
fn other_numbers_of_members_agree() {
    for n in [1, 2, 4, 6, 7] {
        walk(n, Losers::Nobody, 0..15, |_| {});
    }
}

#[test]
fn members_agree_of_which_one_lost_its_promises() {
    walk(5, Losers::TheLast, 0..30, |_| {});
}

#[test]
fn many_entries_at_once_agree() {
    walk(3, Losers::Nobody, 200..230, |config| {
        config.batches.outstanding = 8
    });
}

/// Walks with clusters whose entries are held, and whose clocks are apart.
pub(super) fn walk_held(
    n: usize,
    params: &[(&str, &str)],
    seeds: Range<u64>,
    edit: impl Fn(&mut Config),
) -> BTreeSet<&'static str> {
    let make = || {
        let mut net = Net::edited(n, params, &edit);
        net.watch.tick_ns = 20 * MICROS;
        for (me, node) in net.nodes.iter_mut().enumerate() {
            node.clock_ns = 70 * MICROS as i64 * me as i64;
        }
        net
    };
    quorate_testkit::walk(make, Losers::Nobody, seeds)
}

#[test]
fn members_that_hold_entries_agree() {
    let held = [("toq_us", "200")];
    let seen = walk_held(3, &held, 0..40, |_| {});
    for branch in ["entry kept late", "instance made void", "value validated"] {
        assert!(seen.contains(branch), "{branch} of {seen:?}");
    }
    walk_held(5, &held, 0..20, |_| {});
    walk_held(3, &held, 60..80, |config| config.touches = None);
    walk_held(5, &held, 40..50, |config| config.touches = None);
    for n in [1, 2, 4, 6, 7] {
        walk_held(n, &held, 0..5, |_| {});
    }
}

#[test]
fn members_that_are_not_all_asked_agree() {
    let thrifty = ("thrifty", "true");
    for n in [3, 5] {
        walk_held(n, &[thrifty], 0..15, |_| {});
        walk_held(n, &[thrifty, ("toq_us", "200")], 0..15, |_| {});
    }
}

#[test]
#[ignore = "thousands of schedules: takes minutes"]
fn members_agree_for_long() {
    for n in [3, 4, 5, 7] {
        walk(n, Losers::Nobody, 10_000..11_000, |_| {});
        walk(n, Losers::Nobody, 20_000..21_000, |config| {
            (config.touches, config.batches.outstanding) = (None, 8);
        });
    }
    walk(5, Losers::TheLast, 30_000..31_000, |_| {});
    for n in [3, 4, 5, 7] {
        walk_held(n, &[("toq_us", "300")], 10_000..11_000, |_| {});
        walk_held(n, &[("toq_us", "100")], 20_000..21_000, |config| {
            (config.touches, config.batches.outstanding) = (None, 8);
        });
    }
}
