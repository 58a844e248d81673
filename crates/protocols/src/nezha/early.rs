//! The early buffer: requests that wait for their deadline, for `far_us` at most on the own monotonic
//! clock.

use super::digest::Tup;
use super::messages::Body;
use quorate_core::EntryId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

/// Alarms in vain after which they follow each other no more slowly: every millisecond.
const ALARMS_MAX: u32 = 20;

/// A request that leaves the early buffer, at its deadline.
pub(super) struct EarlyRequest {
    pub(super) body: Body,
    /// In ns since the Unix epoch.
    pub(super) deadline: u64,
}

/// `eb`: the early buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    /// In deadline order, with when they came.
    waiting: BTreeMap<Tup, (Body, u64)>,
    deadlines: BTreeMap<EntryId, u64>,
    /// In the order in which they came.
    arrivals: BTreeSet<(u64, Tup)>,
    /// Alarms since something was released.
    alarms: u32,
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
        self.deadlines.hash(to);
        self.waiting.values().for_each(|(body, _)| body.hash(to));
        self.arrivals.iter().for_each(|(_, tup)| tup.hash(to));
    }
}

impl Early {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn insert(&mut self, body: Body, deadline: u64, mono_ns: u64) {
        let id = body.entry.id;
        let tup = Tup { deadline, id };
        self.deadlines.insert(id, deadline);
        self.arrivals.insert((mono_ns, tup));
        self.waiting.insert(tup, (body, mono_ns));
    }

    pub(super) fn get(&self, id: EntryId) -> Option<&Body> {
        let deadline = *self.deadlines.get(&id)?;
        let (body, _) = self.waiting.get(&Tup { deadline, id })?;
        Some(body)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = EntryId> {
        self.deadlines.keys().copied()
    }

    pub(super) fn remove(&mut self, id: EntryId) -> Option<Body> {
        let deadline = self.deadlines.remove(&id)?;
        self.take(Tup { deadline, id })
    }

    fn take(&mut self, tup: Tup) -> Option<Body> {
        let (body, mono_ns) = self.waiting.remove(&tup)?;
        self.deadlines.remove(&tup.id);
        self.arrivals.remove(&(mono_ns, tup));
        Some(body)
    }

    /// How long until something is due: now, for 0.
    pub(super) fn wait(&self, clock_ns: u64, mono_ns: u64, far_ns: u64) -> Option<u64> {
        let (first, _) = self.waiting.first_key_value()?;
        let (oldest, _) = self.arrivals.first()?;
        let by_clock = first.deadline.saturating_sub(clock_ns);
        let by_hold = (oldest + far_ns).saturating_sub(mono_ns);
        Some(by_clock.min(by_hold))
    }

    /// The time for something to be due has come.
    pub(super) fn note_alarm(&mut self) {
        self.alarms = self.alarms.saturating_add(1);
    }

    /// How long to wait at least, in ns. A clock that stands still, or has been set back, shows the same
    /// deadline a moment ahead at every alarm: looked at less and less often, it costs nothing.
    pub(super) fn wait_min_ns(&self) -> u64 {
        1 << self.alarms.min(ALARMS_MAX)
    }

    /// The next one that is due.
    pub(super) fn pop_due(
        &mut self,
        clock_ns: u64,
        mono_ns: u64,
        far_ns: u64,
    ) -> Option<EarlyRequest> {
        if self.wait(clock_ns, mono_ns, far_ns)? > 0 {
            return None;
        }
        let (tup, _) = self.waiting.first_key_value()?;
        let tup = *tup;
        let (_, since_ns) = self.waiting.get(&tup)?;
        let held_ns = mono_ns.saturating_sub(*since_ns);
        self.alarms = 0;
        self.held = (self.held.0 + 1, self.held.1.saturating_add(held_ns));
        self.recent.add(held_ns);
        let body = self.take(tup)?;
        let deadline = tup.deadline;
        Some(EarlyRequest { body, deadline })
    }

    /// Takes all that waits.
    pub(super) fn drain(&mut self) -> Vec<Body> {
        self.deadlines.clear();
        self.arrivals.clear();
        let all = std::mem::take(&mut self.waiting).into_values();
        all.map(|(body, _)| body).collect()
    }
}
