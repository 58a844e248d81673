//! Connections that servers closed.

use std::fmt;
use std::time::Duration;

/// How many connections of an attack a server closed, and how long that took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Closed {
    count: u32,
    /// The longest time from the beginning of a connection.
    longest: Duration,
}

impl Closed {
    /// One more was closed, so long after it began.
    pub(super) fn note(&mut self, took: Duration) {
        self.count += 1;
        self.longest = self.longest.max(took);
    }

    /// Adds those of another client.
    pub(super) fn merge(&mut self, other: Closed) {
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, seconds) = (self.count, self.longest.as_secs_f64());
        write!(out, "{count} closed by replicas, within {seconds:.1} s")
    }
}
