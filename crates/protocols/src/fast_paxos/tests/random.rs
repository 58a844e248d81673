//! Random schedules: whatever replicas, disks and links do, what they deliver agrees ([`Net`] watches). In
//! the end everything works again, and everybody has everything.

use super::net::{Net, Watched};
use crate::fast_paxos::{Config, Replica, Timer};
use quorate_testkit::{Losers, Walked};
use std::collections::BTreeSet;
use std::ops::Range;

impl Walked for Net {
    type Machine = Replica;
    type Watch = Watched;

    fn ends_requests(timer: &Timer) -> bool {
        *timer == Timer::Patience
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
    let seen = walk(3, Losers::Nobody, 0..100, |_| {});
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
    walk(5, Losers::Nobody, 0..60, |_| {});
}

#[test]
fn even_numbers_of_members_agree() {
    walk(2, Losers::Nobody, 0..40, |_| {});
    walk(4, Losers::Nobody, 0..40, |_| {});
    walk(6, Losers::Nobody, 0..40, |_| {});
}

#[test]
fn members_agree_of_which_one_lost_its_promises() {
    walk(5, Losers::TheLast, 0..40, |_| {});
}

#[test]
fn small_windows_agree() {
    walk(3, Losers::Nobody, 200..240, |config| {
        (config.window, config.slots_max) = (1, 12);
        config.batches.outstanding = 4;
    });
}

#[test]
#[ignore = "thousands of schedules: takes minutes"]
fn members_agree_for_long() {
    for n in [3, 4, 5, 6, 7] {
        walk(n, Losers::Nobody, 10_000..12_000, |_| {});
        walk(n, Losers::Nobody, 20_000..22_000, |config| {
            (config.window, config.slots_max) = (2, 16);
        });
    }
    walk(5, Losers::TheLast, 30_000..32_000, |_| {});
}
