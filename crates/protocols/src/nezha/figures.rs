//! What a replica says of itself to people: view, deadlines, and which path answers took.

use super::replica::Replica;
use quorate_core::MICROS;

impl Replica {
    pub(super) fn all_figures(&self) -> Vec<(&'static str, f64)> {
        let micros = |ns: u64| ns as f64 / MICROS as f64;
        let (now_ns, me) = (self.now.mono_ns, self.config.me);
        let furthest_ns = (self.gateway.estimates).furthest_ns(now_ns, me, self.config.owd_max_ns);
        let (released, held_ns) = self.early.held;
        let (fast, slow) = self.gateway.answered;
        vec![
            ("view", self.view as f64),
            ("leads", f64::from(u8::from(self.leads()))),
            ("delay_us", micros(furthest_ns)),
            ("hold_percent", self.gateway.hold.percent() as f64),
            ("released_total", released as f64),
            ("held_us_total", micros(held_ns)),
            ("answered_fast_total", fast as f64),
            ("answered_slowly_total", slow as f64),
            ("unsynced", self.un.len() as f64),
        ]
    }
}
