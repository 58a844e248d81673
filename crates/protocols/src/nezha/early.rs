//! The early buffer: requests that wait for their deadline, for `far_us` at most on the own monotonic
//! clock.

use super::messages::Body;
use crate::shared::held::{Held, Released};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// A request that leaves the early buffer, at its deadline.
pub(super) struct EarlyRequest {
    pub(super) body: Body,
    /// In ns since the Unix epoch.
    pub(super) deadline: u64,
}

/// `eb`: the early buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    /// The requests, until their deadlines.
    requests: Held<Body>,
    /// How many were released, and how long they were held together, ns: for people.
    pub(super) held: (u64, u64),
    /// How long each of the last ones was held: for people, too.
    pub(super) recent: Recent,
}

/// The last so many are kept.
const RECENT_MAX: usize = 256;

/// The last times, ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent(VecDeque<u64>);

impl Recent {
    fn add(&mut self, ns: u64) {
        if self.0.len() >= RECENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(ns);
    }

    /// Percentiles of them, if there are any.
    pub(super) fn percentiles<const N: usize>(&self, percentiles: [usize; N]) -> Option<[u64; N]> {
        let mut times: Vec<u64> = self.0.iter().copied().collect();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        Some(percentiles.map(|percentile| times[(last * percentile).div_ceil(100)]))
    }
}

impl Hash for Early {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.requests.hash(to);
    }
}

impl Deref for Early {
    type Target = Held<Body>;

    fn deref(&self) -> &Held<Body> {
        &self.requests
    }
}

impl DerefMut for Early {
    fn deref_mut(&mut self) -> &mut Held<Body> {
        &mut self.requests
    }
}

impl Early {
    /// Holds a request until its deadline.
    pub(super) fn hold(&mut self, body: Body, deadline: u64, mono_ns: u64) {
        let id = body.entry.id;
        self.requests.insert(id, body, deadline, mono_ns);
    }

    /// The next one that is due.
    pub(super) fn next_due(
        &mut self,
        clock_ns: u64,
        mono_ns: u64,
        far_ns: u64,
    ) -> Option<EarlyRequest> {
        let due = self.requests.pop_due(clock_ns, mono_ns, far_ns)?;
        let Released {
            it: body,
            until_ns: deadline,
            held_ns,
        } = due;
        self.held = (self.held.0 + 1, self.held.1.saturating_add(held_ns));
        self.recent.add(held_ns);
        Some(EarlyRequest { body, deadline })
    }
}
