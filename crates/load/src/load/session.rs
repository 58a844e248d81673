//! What all clients of a run share: endpoints, connections, what is sent, what was counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Keys;
use super::connection::Connection;
use super::history::History;
use super::payload::Payload;
use super::phase::Turn;
use crate::latency::Latency;

/// One run's shared state.
#[derive(Debug)]
pub(super) struct Session {
    pub endpoints: Vec<Endpoint>,
    pub connections: Vec<Connection>,
    pub payload: Payload,
    pub settings: Settings,
    pub history: Option<History>,
    /// Times in the history count from here.
    pub began: Instant,
    /// For the progress bar.
    pub completed: AtomicU64,
}

/// How clients choose and send operations.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub read_share: f64,
    pub serializable: bool,
    pub keys: Keys,
    pub timeout: Duration,
    /// Whether the time of every completion is kept, to find silences.
    pub gap: bool,
}

/// An endpoint and what its clients saw.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub url: String,
    pub authority: String,
    stats: Mutex<Stats>,
}

/// What the clients of one endpoint counted during one phase.
#[derive(Debug, Default)]
pub(super) struct Stats {
    pub reads: Latency,
    pub writes: Latency,
    pub misses: u64,
    pub errors: BTreeMap<String, u64>,
    /// The last success.
    pub last: Option<Instant>,
    /// Every success, if silences are looked for.
    pub completions: Vec<Instant>,
}

/// A read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

impl Endpoint {
    pub(super) fn new(url: &str, authority: &str) -> Endpoint {
        let stats = Mutex::default();
        Endpoint {
            url: url.to_owned(),
            authority: authority.to_owned(),
            stats,
        }
    }

    /// What was counted since this was last called.
    pub(super) fn take_stats(&self) -> Stats {
        std::mem::take(&mut self.stats())
    }

    /// Counts a failed operation or connection attempt.
    pub(super) fn failed(&self, text: &str) {
        let mut stats = self.stats();
        match stats.errors.get_mut(text) {
            Some(count) => *count += 1,
            None => drop(stats.errors.insert(text.to_owned(), 1)),
        }
    }

    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Counts a success that `turn` asked for and that ended at `end`.
    pub(super) fn succeeded(&self, endpoint: usize, kind: Kind, turn: Turn, end: Instant) {
        self.completed.fetch_add(1, Relaxed);
        let latency_ns = end.saturating_duration_since(turn.intended).as_nanos() as u64;
        let mut stats = self.endpoints[endpoint].stats();
        match kind {
            Kind::Read => stats.reads.record(latency_ns),
            Kind::Write => stats.writes.record(latency_ns),
        }
        stats.last = Some(end);
        if self.settings.gap {
            stats.completions.push(end);
        }
    }

    /// Counts a read that found nothing.
    pub(super) fn missed(&self, endpoint: usize) {
        self.endpoints[endpoint].stats().misses += 1;
    }

    /// Nanoseconds since the run began.
    pub(super) fn at(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.began).as_nanos() as u64
    }
}
