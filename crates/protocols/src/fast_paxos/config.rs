//! Parameters, and how many members it takes.

use super::mutants::Fault;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use crate::shared::seating::{Batches, Delays, Seating};
use quorate_core::{MICROS, Seat, majority};

/// Most slots that may be used behind the first one not delivered (`window`).
const WINDOW_MAX: usize = 1024;
/// Slots that are kept beyond twice the window.
const SLOTS_BEYOND_WINDOWS: usize = 64;
/// No replica keeps more slots, and no honest message speaks of more.
pub(super) const SLOTS_MAX: usize = 2 * WINDOW_MAX + SLOTS_BEYOND_WINDOWS;
/// The shortest time that a leader gives a fast round, unless `collide_us` says otherwise.
const COLLIDE_US_MIN: usize = 500;

/// How many members it takes. Every number is the smallest that is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Members that voted for one entry in a fast round when it is chosen, the leader among them.
    pub fast: usize,
    /// Members that accepted the leader's value when it is chosen.
    pub classic: usize,
    /// Members whose promises make a leader.
    pub promise: usize,
    /// Members that know of no later ballot when a read is answered.
    pub read: usize,
    /// How many votes less than promises must show of an entry that a fast round chose are taken for a sign of that;
    /// mutants alone have any.
    pub shown_less: usize,
}

impl Thresholds {
    /// The smallest safe numbers for `n` members. Any two fast quorums and any classic one have a member in common, so
    /// that promises show at most one entry that a fast round may have chosen.
    fn of(n: usize) -> Thresholds {
        let enough = majority(n);
        Thresholds {
            fast: n + 1 - enough.div_ceil(2),
            classic: enough,
            promise: enough,
            read: enough,
            shown_less: 0,
        }
    }

    /// How often `promises` of `n` members show an entry at least that a fast round chose.
    pub(super) fn shown(&self, promises: usize, n: usize) -> usize {
        (promises + self.fast).saturating_sub(n + self.shown_less)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_quorums_are_the_smallest_of_which_two_meet_in_every_majority() {
        for n in 1..=64 {
            let Thresholds { fast, promise, .. } = Thresholds::of(n);
            let meet = |fast: usize| 2 * fast + promise > 2 * n;
            assert!(fast <= n && meet(fast) && !meet(fast - 1), "{n} members");
        }
        let of = |n| Thresholds::of(n).fast;
        assert_eq!([3, 5, 7].map(of), [3, 4, 6]);
        // Where f + ceil(f/2) + 1 are too few: two entries may both look chosen.
        assert_eq!([2, 6].map(of), [2, 5]);
    }
}
