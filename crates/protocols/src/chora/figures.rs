//! What a replica says of itself to people: view, mode, and how well rounds fit.

use super::Replica;
use quorate_core::MICROS;

impl Replica {
    pub(super) fn all_figures(&self) -> Vec<(&'static str, f64)> {
        let load = &self.rounds.load;
        let totals = load.totals;
        let micros = |ns: u64| ns as f64 / MICROS as f64;
        let proposers = self.init.as_ref().map_or(0, |init| init.pattern.len());
        vec![
            ("view", self.view as f64),
            ("proposers", proposers as f64),
            ("proposes", f64::from(u8::from(self.may_propose()))),
            ("pulsing", f64::from(u8::from(self.rounds.is_pulsing()))),
            ("round_us", micros(load.round_ns())),
            ("round_needed_us", micros(load.needed_ns())),
            ("rounds_total", totals.rounds as f64),
            ("rounds_early_total", totals.early as f64),
            ("round_slots_total", totals.slots as f64),
            ("effectiveness", totals.effectiveness),
            ("repairs_total", totals.repairs as f64),
        ]
    }
}
