//! What a replica says of itself to people: view, deadlines, which path answers took, and how long the ways to
//! and from its peers are thought to take.

use super::Replica;
use quorate_core::{MICROS, ReplicaId};

/// The percentiles of delays, by name.
const DELAYS: [(&str, usize); 3] = [
    ("request_delay_p50_us", 50),
    ("request_delay_p90_us", 90),
    ("request_delay_p99_us", 99),
];

impl Replica {
    pub(super) fn all_figures(&self) -> Vec<(&'static str, f64)> {
        let micros = |ns: u64| ns as f64 / MICROS as f64;
        let now_ns = self.now.mono_ns;
        let reach_ns = self.gateway.reach_ns(&self.config, now_ns);
        let (released, held_ns) = self.early.held;
        let (fast, slow) = self.gateway.answered;
        let mut figures = vec![
            ("view", self.view as f64),
            ("leads", f64::from(u8::from(self.leads()))),
            ("delay_us", micros(reach_ns)),
            ("hold_percent", self.gateway.hold.percent() as f64),
            ("released_total", released as f64),
            ("held_us_total", micros(held_ns)),
            ("answered_fast_total", fast as f64),
            ("answered_slowly_total", slow as f64),
            ("unsynced", self.unsynced.len() as f64),
        ];
        if let Some([p50, p99]) = self.early.recent.percentiles([50, 99]) {
            figures.extend([("held_p50_us", micros(p50)), ("held_p99_us", micros(p99))]);
        }
        figures
    }

    /// Of each peer, where known:
    /// - `request_delay_p50_us` (and 90, 99): how long its requests took to here, by its clock and this one;
    /// - `told_delay_us`: how long requests from here take to it, as it says;
    /// - `clock_ahead_us`: how far its clock is ahead of this one, if the ways there and back take equally long.
    pub(super) fn all_peer_figures(&self) -> Vec<(ReplicaId, &'static str, f64)> {
        let micros = |ns: i64| ns as f64 / MICROS as f64;
        let (now_ns, max_ns) = (self.now.mono_ns, self.config.owd_max_ns);
        let mut figures = Vec::new();
        for (member, id) in self.config.all().iter().zip(&self.config.members) {
            if member == self.config.me {
                continue;
            }
            let delays = &self.delays.members[member];
            for (name, percentile) in DELAYS {
                if let Some(delay_ns) = delays.nearest(percentile) {
                    figures.push((*id, name, micros(delay_ns)));
                }
            }
            let Some(told_ns) = self.gateway.estimates.of(member, now_ns) else {
                continue;
            };
            figures.push((*id, "told_delay_us", micros(told_ns as i64)));
            // What is at the cap says nothing.
            let from_ns = delays.nearest(self.config.percentile);
            if let Some(from_ns) = from_ns.filter(|_| told_ns < max_ns) {
                let ahead_ns = (told_ns as i64 - from_ns) / 2;
                figures.push((*id, "clock_ahead_us", micros(ahead_ns)));
            }
        }
        figures
    }
}
