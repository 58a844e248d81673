//! Events in virtual time, and packets that are under way for a while.

use super::Scenario;
use fastrand::Rng;
use std::collections::BTreeMap;

/// What will happen, in the order of time.
#[derive(Debug)]
pub(super) struct Timeline<E> {
    events: BTreeMap<(u64, u64), E>,
    added: u64,
    pub(super) now_ns: u64,
}

impl<E> Timeline<E> {
    pub(super) fn new() -> Self {
        Timeline {
            events: BTreeMap::new(),
            added: 0,
            now_ns: 0,
        }
    }

    pub(super) fn after(&mut self, ns: u64, event: E) {
        self.at(self.now_ns.saturating_add(ns), event);
    }

    pub(super) fn at(&mut self, ns: u64, event: E) {
        self.added += 1;
        let at = (ns.max(self.now_ns), self.added);
        self.events.insert(at, event);
    }

    /// Goes on to the next event.
    pub(super) fn next(&mut self) -> Option<E> {
        let ((at, _), event) = self.events.pop_first()?;
        self.now_ns = at;
        Some(event)
    }
}

/// A time with an exponential distribution.
pub(crate) fn exponential(rng: &mut Rng, mean_ns: u64) -> u64 {
    // A whole number of a million parts, so that the logarithm is that of no zero.
    let part = f64::from(rng.u32(1..=1_000_000)) / 1_000_000.0;
    (-part.ln() * mean_ns as f64) as u64
}

/// How long the copies of a packet are under way; there are none of one that is lost.
pub(super) fn ways(rng: &mut Rng, scenario: &Scenario, is_faulty: bool) -> Vec<u64> {
    let copies = match is_faulty {
        true => [0, 1, 1, 1, 1, 1, 1, 1, 1, 2][rng.usize(0..10)],
        false => 1,
    };
    let mut way = || scenario.way_ns + exponential(rng, scenario.jitter_ns);
    (0..copies).map(|_| way()).collect()
}
