//! How long something may take until it is acknowledged.
//!
//! A connection loses nothing but with itself, and a receiver answers when what it got is on its disk: until then
//! it does not know of it, and says that it has none. So it is said again only when acknowledgements do not
//! take so long, by what was seen of late. Said earlier it would queue behind itself, and links that are full
//! would never be empty again.

use crate::time::{MILLIS, SECONDS};

/// Of what was seen, so much is forgotten with each acknowledgement: its 64th part.
const FORGOTTEN: u64 = 64;
/// What was seen alone lets something wait longer than this before it is said again.
const WAITED_NS_MAX: u64 = 200 * MILLIS;
/// An acknowledgement of a long batch that took longer tells of a loss, and not of the pace.
pub const ACK_NS_MAX: u64 = 2 * SECONDS;

/// Bytes that a replica's links together move in a millisecond at least: what takes longer is said again.
const BYTES_PER_MS: u64 = 10_000;
/// Messages of as many bytes are noticed when they are said twice.
const LONG_BYTES: usize = 16 << 10;

/// Whether so many bytes wait for an acknowledgement before they are said again.
#[must_use]
pub fn is_long(bytes: usize) -> bool {
    bytes >= LONG_BYTES
}

/// How long links that have nothing else to move take at most for so many bytes, in ns.
#[must_use]
pub fn under_way_ns(bytes: u64) -> u64 {
    bytes / BYTES_PER_MS * MILLIS
}

/// What acknowledgements took.
#[derive(Clone, Copy, Default, Debug)]
pub struct Pace {
    /// The longest of late.
    ack_ns: u64,
}

impl Pace {
    /// An acknowledgement took so long. Longer than `most_ns` is a loss, and not the pace.
    pub fn note(&mut self, took_ns: u64, most_ns: u64) {
        let before = self.ack_ns - self.ack_ns / FORGOTTEN;
        self.ack_ns = before.max(took_ns.min(most_ns));
    }

    /// How long to wait for one, beyond the time that it is under way.
    #[must_use]
    pub fn patience_ns(&self) -> u64 {
        2 * self.ack_ns
    }

    /// When what is said again now, and was first at `since_ns`, is said once more: at first in twice the time,
    /// so that what has a pace that was not seen yet is not said much too often.
    #[must_use]
    pub fn again_ns(&self, since_ns: u64, now_ns: u64) -> u64 {
        let waited_ns = now_ns.saturating_sub(since_ns);
        now_ns + self.patience_ns().max(waited_ns.min(WAITED_NS_MAX))
    }

    /// What they took of late, in ns.
    #[must_use]
    pub fn ack_ns(&self) -> u64 {
        self.ack_ns
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use super::{MILLIS, SECONDS};

    #[test]
    fn a_segment_has_twice_the_time_that_acknowledgements_took_of_late() {
        let mut pace = Pace::default();
        assert_eq!(pace.patience_ns(), 0);
        pace.note(30 * MILLIS, 200 * MILLIS);
        pace.note(2 * MILLIS, 200 * MILLIS);
        assert!((58 * MILLIS..60 * MILLIS).contains(&pace.patience_ns()));
        (0..300).for_each(|_| pace.note(2 * MILLIS, 200 * MILLIS));
        assert_eq!(pace.patience_ns(), 4 * MILLIS);
        pace.note(u64::MAX, 200 * MILLIS);
        assert_eq!(pace.patience_ns(), 400 * MILLIS);
    }

    #[test]
    fn what_is_said_again_waits_as_long_as_it_has_waited_and_not_for_ever() {
        let mut pace = Pace::default();
        assert_eq!(pace.again_ns(5, 5), 5);
        assert_eq!(pace.again_ns(10 * MILLIS, 30 * MILLIS), 50 * MILLIS);
        pace.note(40 * MILLIS, SECONDS);
        assert_eq!(pace.again_ns(10 * MILLIS, 30 * MILLIS), 110 * MILLIS);
        assert_eq!(pace.again_ns(0, 60 * SECONDS), 60 * SECONDS + 200 * MILLIS);
    }
}
