//! What replicas wait for where one of them leads at a time, and how long nothing moved.

use quorate_core::Due;

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// Something said here went unanswered for a while.
    Retransmit,
    /// The leader, or a candidate, was silent for long.
    Election,
    /// Slots decided elsewhere have not become known here for a while.
    CatchUp,
    /// Requests have waited as long as they should.
    Patience,
}

/// The timers that run, but for the one of patience.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(crate) struct Armed {
    pub(crate) retransmit: bool,
    pub(crate) election: bool,
    pub(crate) catch_up: bool,
}

/// How long nothing moved.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(crate) struct Backoff {
    /// Retransmissions since the last delivery.
    repeats: u32,
    /// Something was delivered since the last retransmission timer.
    is_stirring: bool,
}

impl Backoff {
    /// Something was delivered.
    pub(crate) fn moved(&mut self) {
        (self.repeats, self.is_stirring) = (0, true);
    }

    /// A retransmission timer came due. Says whether nothing was delivered since the last one.
    pub(crate) fn is_still(&mut self) -> bool {
        let is_still = !std::mem::take(&mut self.is_stirring);
        self.repeats += u32::from(is_still);
        is_still
    }

    /// Retransmissions since the last delivery.
    pub(crate) fn repeats(&self) -> u32 {
        self.repeats
    }

    /// When the next retransmission is due: later with each that moved nothing. Times in ns.
    pub(crate) fn due(&self, min_ns: u64, max_ns: u64) -> Due {
        let wait_ns = (min_ns << self.repeats.min(16)).min(max_ns);
        Due::Within(wait_ns..=wait_ns + wait_ns / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_take_longer_until_something_moves() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.due(4, 100), Due::Within(4..=5));
        assert!(backoff.is_still() && backoff.is_still());
        assert_eq!(backoff.due(4, 100), Due::Within(16..=20));
        assert_eq!(backoff.due(4, 12), Due::Within(12..=15));
        backoff.moved();
        assert!(!backoff.is_still() && backoff.is_still());
        assert_eq!(backoff.repeats(), 1);
    }
}
