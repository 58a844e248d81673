//! Parameters, and how many members it takes.

use super::mutants::Fault;
pub use crate::shared::fast_quorums::Thresholds;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use crate::shared::seating::{Batches, Delays, Seating};
use quorate_core::{MICROS, Seat};

/// Most slots that may be used behind the first one not delivered (`window`).
const WINDOW_MAX: usize = 1024;
/// Slots that are kept beyond twice the window.
const SLOTS_BEYOND_WINDOWS: usize = 64;
/// No replica keeps more slots, and no honest message speaks of more.
pub(super) const SLOTS_MAX: usize = 2 * WINDOW_MAX + SLOTS_BEYOND_WINDOWS;
/// The shortest time that a leader gives a fast round, unless `collide_us` says otherwise.
const COLLIDE_US_MIN: usize = 500;

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The members, and the seat of this replica.
    pub seating: Seating,
    /// How many members it takes.
    pub thresholds: Thresholds,
    /// The fault of a mutant.
    pub faults: Faults<Fault>,
    /// No entry gets a slot this far behind the first one that is not delivered (`window`).
    pub window: u64,
    /// Slots kept, from the first one not delivered.
    pub slots_max: u64,
    /// What waits for an entry, and what is in one.
    pub batches: Batches,
    /// How long a leader waits for equal votes, at least, in ns (`collide_us`).
    pub collide_ns: u64,
    /// How long other things take. An entry is proposed again after the shortest retransmission (`retry_us`).
    pub delays: Delays,
}

const KNOWN: [&str; 4] = ["collide_us", "election_ms", "patience_ms", "retry_us"];

impl Config {
    /// The configuration of one seat.
    pub(super) fn new(seat: &Seat) -> Result<Config, String> {
        let params = Params::of(&seat.epoch, &KNOWN)?;
        let thresholds = Thresholds::of(params.members()?);
        let window = params.number("window", 64, 1..=WINDOW_MAX)?;
        let mut delays = Delays::of(&params)?;
        let micros = |ns: u64| (ns / MICROS) as usize;
        let collide_us = micros(2 * delays.learn_ns).max(COLLIDE_US_MIN);
        let collide_us = params.number("collide_us", collide_us, 1..=10_000_000)?;
        let retry_us = params.number("retry_us", micros(delays.rtx_min_ns), 1..=10_000_000)?;
        delays.rtx_min_ns = retry_us as u64 * MICROS;
        delays.rtx_max_ns = delays.rtx_max_ns.max(delays.rtx_min_ns);
        Ok(Config {
            seating: Seating::of(seat)?,
            thresholds,
            faults: Faults::default(),
            window: window as u64,
            slots_max: (2 * window + SLOTS_BEYOND_WINDOWS) as u64,
            batches: Batches::of(&params)?,
            collide_ns: collide_us as u64 * MICROS,
            delays,
        })
    }
}
