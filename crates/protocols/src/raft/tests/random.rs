//! Random schedules: whatever replicas, disks and links do, what they deliver agrees ([`Net`] watches). In
//! the end everything works again, and everybody has everything.

use super::net::{Net, Watched};
use crate::raft::{Config, Replica, Timer};
use fastrand::Rng;
use quorate_core::RequestId;
use quorate_testkit::{Losers, Walked};
use std::collections::BTreeSet;
use std::ops::Range;

impl Walked for Net {
    type Machine = Replica;
    type Watch = Watched;
    const SHARES: [u32; 2] = [560, 160];

    fn ends_requests(timer: &Timer) -> bool {
        *timer == Timer::Patience
    }

    /// Clients are served where promises are lost, too.
    fn ask(&mut self, me: usize, _: &mut Rng) -> Option<RequestId> {
        Some(self.write(me))
    }

    /// One at a time loses its promises.
    fn may_fail(&self, down: &BTreeSet<usize>) -> bool {
        let mut all = 0..self.nodes.len();
        all.all(|me| down.contains(&me) || self.votes(me))
    }

    fn is_whole(&self, me: usize) -> bool {
        self.votes(me)
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
    let seen = walk(3, Losers::Nobody, 0..150, |_| {});
    for branch in ["log cut", "decided elsewhere", "slot ended for a peer"] {
        assert!(seen.contains(branch), "{branch} of {seen:?}");
    }
}

#[test]
fn five_members_agree() {
    let seen = walk(5, Losers::Nobody, 0..80, |_| {});
    assert!(seen.contains("candidate behind"), "{seen:?}");
}

#[test]
fn members_that_lose_their_promises_agree() {
    let seen = walk(3, Losers::Everybody, 0..100, |_| {});
    assert!(seen.contains("rejoined"), "{seen:?}");
    walk(5, Losers::Everybody, 0..40, |_| {});
}

#[test]
fn small_windows_agree() {
    walk(3, Losers::Nobody, 200..250, |config| {
        (config.window, config.append_bytes_max) = (1, 1);
    });
}

#[test]
#[ignore = "thousands of schedules: takes minutes"]
fn members_agree_for_long() {
    for n in [3, 4, 5, 7] {
        walk(n, Losers::Nobody, 10_000..13_000, |_| {});
        walk(n, Losers::Everybody, 10_000..13_000, |_| {});
        walk(n, Losers::Nobody, 20_000..22_000, |config| {
            (config.window, config.append_bytes_max) = (1, 1);
        });
    }
}
