//! What members are told when they ask: not once for every message of theirs. Messages that waited on a slow
//! link come late and all at once, and an answer to each would keep the link full.

use std::hash::{Hash, Hasher};

/// When one member was told something that it asks for again and again.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Repeat {
    /// How often, since it last had what it asked for.
    count: u32,
    /// The first time, on the own monotonic clock, ns.
    first_ns: u64,
    /// The last time, on the own monotonic clock, ns.
    last_ns: u64,
}

impl Repeat {
    /// Whether to tell it now, which is noted: at first at once, and then whenever it has waited again for as
    /// long as it has so far, between `min_ns` and [`WAIT_NS_MAX`].
    pub(super) fn is_due(&mut self, now_ns: u64, min_ns: u64) -> bool {
        let waited_ns = self.last_ns.saturating_sub(self.first_ns);
        let wait_ns = waited_ns.clamp(min_ns, WAIT_NS_MAX.max(min_ns));
        let is_due = self.count == 0 || now_ns >= self.last_ns + wait_ns;
        if is_due {
            if self.count == 0 {
                self.first_ns = now_ns;
            }
            self.last_ns = now_ns;
            self.count += 1;
        }
        is_due
    }
}

impl Hash for Repeat {
    /// Without the times, as everything that is repeated.
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.count > 0).hash(to);
    }
}

/// A member that asks is told within this time, however long it has asked: what it was told may be lost.
const WAIT_NS_MAX: u64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_at_every_moment_is_told_ever_more_seldom() {
        let mut repeat = Repeat::default();
        let is_told = |now_ns: &u64| repeat.is_due(*now_ns, 10);
        let told: Vec<u64> = (100..1_000).filter(is_told).collect();
        assert_eq!(told, [100, 110, 120, 140, 180, 260, 420, 740]);
    }

    #[test]
    fn nobody_waits_longer_than_the_most() {
        let mut repeat = Repeat::default();
        let second_ns = 1_000_000_000;
        let told: Vec<u64> = (0..100)
            .filter(|s| repeat.is_due(s * second_ns, 1))
            .collect();
        let longest = told.windows(2).map(|two| two[1] - two[0]).max();
        assert_eq!(longest, Some(10));
    }
}
