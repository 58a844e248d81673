//! What a replica says of itself to people: view, mode, and how well rounds fit.

use super::Replica;
use quorate_core::{MICROS, MILLIS};

impl Replica {
    /// What is not measured yet is left out.
    pub(super) fn all_figures(&self) -> Vec<(&'static str, f64)> {
        let load = &self.rounds.load;
        let (network, counts) = (&load.network, load.network.counts);
        let micros = |ns: u64| ns as f64 / MICROS as f64;
        let truth = |is_so: bool| f64::from(u8::from(is_so));
        let synchrony = |percent| load.tail_ns(percent).map(|ns| network.synchrony(ns));
        let pulses = network.pulses;
        let known = [
            ("view", self.view as f64),
            ("proposers", self.proposers() as f64),
            ("proposes", truth(self.may_propose())),
            ("pulsing", truth(self.rounds.is_pulsing())),
            ("mode_ms", network.mode_ns() as f64 / MILLIS as f64),
            ("round_us", micros(load.round_ns())),
            ("round_needed_us", micros(load.needed_ns())),
            ("message_us", network.message_ns() as f64 / MICROS as f64),
            ("pulsing_us_total", micros(counts.pulsing_ns)),
            ("rounds_total", counts.rounds as f64),
            ("rounds_early_total", counts.early as f64),
            ("round_slots_total", counts.slots as f64),
            ("round_messages_total", counts.messages as f64),
            ("repairs_total", counts.repairs as f64),
            ("entries_total", counts.entries as f64),
            ("multicasts_total", counts.multicasts as f64),
        ];
        let measured = [
            ("round_mean_us", pulses.map(|p| p.round_ns / MICROS as f64)),
            ("early_share", pulses.map(|pulses| pulses.early)),
            ("efficiency", pulses.map(|pulses| pulses.efficiency)),
            ("effectiveness", pulses.map(|pulses| pulses.effectiveness)),
            ("kappa", network.kappa),
            ("synchrony_90", synchrony(90)),
            ("synchrony_99", synchrony(99)),
            ("multicasts_per_commit", network.multicasts_per_commit),
        ];
        let measured = measured.into_iter();
        let measured = measured.filter_map(|(name, value)| Some((name, value?)));
        known.into_iter().chain(measured).collect()
    }
}
