//! What a replica counts of its segments.

use super::Replica;
use quorate_core::MICROS;

/// Segments given to others.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sent {
    pub(super) all: u64,
    pub(super) again: u64,
}

impl Replica {
    pub(super) fn all_figures(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("segments_sent_total", self.sent.all as f64),
            ("segments_sent_again_total", self.sent.again as f64),
            ("ack_us", (self.pace.ack_ns() / MICROS) as f64),
            ("undecided_segments", self.segments.iter().count() as f64),
        ]
    }
}
