//! How long a segment may take until it is acknowledged.
//!
//! A connection loses nothing but with itself, and a receiver answers when its segment is on its disk: until then
//! it does not know of it, and says that it has none. So a segment is sent again only when acknowledgements do not
//! take so long, by what was seen of late.

use super::Replica;
use quorate_core::MICROS;

/// Of what was seen, so much is forgotten with each acknowledgement: its 64th part.
const FORGOTTEN: u64 = 64;

/// What acknowledgements took, and segments.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pace {
    /// The longest of late, from the first segment of a value.
    ack_ns: u64,
    pub(super) sent: u64,
    pub(super) sent_again: u64,
}

impl Pace {
    /// An acknowledgement took so long. Longer than `most_ns` is a loss, and not the pace.
    pub(super) fn note(&mut self, took_ns: u64, most_ns: u64) {
        let before = self.ack_ns - self.ack_ns / FORGOTTEN;
        self.ack_ns = before.max(took_ns.min(most_ns));
    }

    /// How long to wait for one, beyond the time that the segments are under way.
    pub(super) fn patience_ns(&self) -> u64 {
        2 * self.ack_ns
    }
}

impl Replica {
    pub(super) fn all_figures(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("segments_sent_total", self.pace.sent as f64),
            ("segments_sent_again_total", self.pace.sent_again as f64),
            ("ack_us", (self.pace.ack_ns / MICROS) as f64),
            ("undecided_segments", self.segments.iter().count() as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use quorate_core::MILLIS;

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
}
