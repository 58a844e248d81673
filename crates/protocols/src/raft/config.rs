//! Parameters, and the majorities in force.

use super::mutants::Fault;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use crate::shared::seating::{Batches, Delays, Seating};
use quorate_core::{ENTRY_BYTES_MAX, Seat, majority};

/// Most slots that may be appended and not delivered (`window`).
const WINDOW_MAX: usize = 1024;
/// Beyond the window, slots that leaders one after the other may append without committing any.
const SLOTS_BEYOND_WINDOW: usize = 1024;
/// No log is longer, and no honest message has more entries.
pub(super) const SLOTS_MAX: usize = WINDOW_MAX + SLOTS_BEYOND_WINDOW;

/// How many of something it takes. Every number is the smallest that is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Votes that make a leader, and members that would give one before it asks.
    pub votes: usize,
    /// Members whose log has an entry when it is committed.
    pub commit: usize,
    /// Members that know of no later term when a read is answered.
    pub confirm: usize,
    /// Others that take note of a new life before it votes. They meet what remains of every majority
    /// that the former life was part of.
    pub rejoin: usize,
}

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The members, and the seat of this replica.
    pub seating: Seating,
    /// The majorities in force.
    pub thresholds: Thresholds,
    /// The fault of a mutant.
    pub faults: Faults<Fault>,
    /// A leader appends nothing of clients this far behind the first slot it has not delivered (`window`).
    pub window: usize,
    /// Slots in a log, at most.
    pub slots_max: usize,
    /// What waits for an entry, and what is in one.
    pub batches: Batches,
    /// Bytes of entries in one message, about at most (`append_bytes`).
    pub append_bytes_max: usize,
    /// How long things take.
    pub delays: Delays,
}

const KNOWN: [&str; 3] = ["append_bytes", "election_ms", "patience_ms"];

impl Config {
    /// The configuration of one seat.
    pub(super) fn new(seat: &Seat) -> Result<Config, String> {
        let epoch = &seat.epoch;
        let params = Params::of(epoch, &KNOWN)?;
        let n = params.members()?;
        let window = params.number("window", 8, 1..=WINDOW_MAX)?;
        let enough = majority(n);
        Ok(Config {
            seating: Seating::of(seat)?,
            thresholds: Thresholds {
                votes: enough,
                commit: enough,
                confirm: enough,
                rejoin: enough,
            },
            faults: Faults::default(),
            window,
            slots_max: window + SLOTS_BEYOND_WINDOW,
            batches: Batches::of(&params)?,
            append_bytes_max: params.number("append_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
            delays: Delays::of(&params)?,
        })
    }
}
