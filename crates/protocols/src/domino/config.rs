//! Parameters, and how many members it takes.

use super::mutants::Fault;
pub use crate::shared::fast_quorums::Thresholds;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use crate::shared::seating::{Batches, Delays, Seating};
use quorate_core::{Epoch, MICROS, MILLIS, Seat};

/// Most entries that a replica keeps before their positions are delivered (`window`).
const WINDOW_MAX: usize = 1024;
/// Entries that are kept beyond twice the window.
const BEYOND_WINDOWS: usize = 64;
/// Entries that a replica keeps at most beside those that leaders ask for.
const SLOTS_MAX: usize = 2 * WINDOW_MAX + BEYOND_WINDOWS;
/// No honest message lists more: what all members may have under way, and what is remembered behind that.
pub(super) const LISTED_MAX: usize = Epoch::MEMBERS_MAX * WINDOW_MAX + SLOTS_MAX;
/// Lanes of members, and the fast one.
pub(super) const LANES_MAX: usize = Epoch::MEMBERS_MAX + 1;

/// The lane that entries of gateways go to (`way`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The fast one (DFP); what loses its position there goes to the gateway's own.
    Fast,
    /// The gateway's own (DM). There is no fast lane.
    Own,
    /// Whichever is expected to commit first.
    Predicted,
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
    /// The lanes that entries go to: the fast one, own ones, or what is predicted to be faster (`way`).
    pub way: Way,
    /// Whether a stamp in the fast lane waits for all members instead of a fast quorum (`predict`).
    pub waits_for_all: bool,
    /// Entries kept, of positions that are not delivered (`window`).
    pub slots_max: u64,
    /// What waits for an entry, and what is in one.
    pub batches: Batches,
    /// The shortest time between two beats, in ns (`heartbeat_ms`).
    pub heartbeat_ns: u64,
    /// How long a position ahead of the own clock may wait for that, in ns (`hold_us`).
    pub hold_ns: u64,
    /// How far ahead stamps are reserved, in ns (`reserve_ms`).
    pub reserve_ns: u64,
    /// How long a leader waits for equal votes, in ns (`collide_us`).
    pub collide_ns: u64,
    /// How long other things take.
    pub delays: Delays,
}

const KNOWN: [&str; 8] = [
    "collide_us",
    "election_ms",
    "heartbeat_ms",
    "hold_us",
    "patience_ms",
    "predict",
    "reserve_ms",
    "way",
];

impl Config {
    /// The configuration of one seat.
    pub(super) fn new(seat: &Seat) -> Result<Config, String> {
        let params = Params::of(&seat.epoch, &KNOWN)?;
        let thresholds = Thresholds::of(params.members()?);
        let delays = Delays::of(&params)?;
        let two_trips_us = (2 * delays.learn_ns / MICROS) as usize;
        let micros = |name, default| params.number(name, default, 1..=10_000_000);
        let collide_us = micros("collide_us", two_trips_us.max(500))?;
        let hold_us = micros("hold_us", 10 * two_trips_us)?;
        let window = params.number("window", 256, 1..=WINDOW_MAX)?;
        let heartbeat_ms = params.number("heartbeat_ms", 0, 0..=10_000)?;
        let reserve_ms = params.number("reserve_ms", 100, 1..=60_000)?;
        Ok(Config {
            seating: Seating::of(seat)?,
            thresholds,
            faults: Faults::default(),
            way: way(&params)?,
            waits_for_all: predicts_all(&params)?,
            slots_max: (2 * window + BEYOND_WINDOWS) as u64,
            batches: Batches::of(&params)?,
            heartbeat_ns: heartbeat_ms as u64 * MILLIS,
            hold_ns: hold_us as u64 * MICROS,
            reserve_ns: reserve_ms as u64 * MILLIS,
            collide_ns: collide_us as u64 * MICROS,
            delays,
        })
    }

    /// Whether there is a fast lane.
    pub(super) fn has_fast_lane(&self) -> bool {
        self.way != Way::Own
    }
}

fn way(params: &Params<'_>) -> Result<Way, String> {
    match params.text("way") {
        None | Some("dfp") => Ok(Way::Fast),
        Some("dm") => Ok(Way::Own),
        Some("predict") => Ok(Way::Predicted),
        Some(other) => Err(format!("way = {other}: must be dfp, dm or predict")),
    }
}

fn predicts_all(params: &Params<'_>) -> Result<bool, String> {
    match params.text("predict") {
        None | Some("quorum") => Ok(false),
        Some("all") => Ok(true),
        Some(other) => Err(format!("predict = {other}: must be quorum or all")),
    }
}
