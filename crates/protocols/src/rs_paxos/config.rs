//! Parameters, and the quorums in force.

use super::coding::{self, Coding};
use super::mutants::Fault;
use super::quorum::Quorums;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use crate::shared::seating::{Batches, Delays, Seating};
use quorate_core::{ENTRY_BYTES_MAX, Epoch, MILLIS, Seat};

/// Most slots that may be proposed and not delivered.
pub(super) const WINDOW_MAX: usize = 1024;
/// Slots kept, per slot of the window.
pub(super) const SLOTS_PER_WINDOW: usize = 4;

/// How many of something it takes. Every number is the smallest that is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// `QR`: promises that make a leader, and members that would give one before it asks.
    pub read: usize,
    /// `QW(1)`: accepts that choose a value that is not coded.
    pub write: usize,
    /// `QL`: members that know of no later leader when a read is answered.
    pub leader: usize,
    /// `J = max(QR, QL)`: others that take note of a new life before it votes. They meet what
    /// remains of every quorum that the former life was part of.
    pub rejoin: usize,
}

impl Thresholds {
    fn new(quorums: Quorums) -> Thresholds {
        Thresholds {
            read: quorums.read,
            write: quorums.write(1),
            leader: quorums.leader(),
            rejoin: quorums.read.max(quorums.leader()),
        }
    }

    /// `QW(X)`: accepts that choose a value of which any `code` fragments rebuild the whole.
    #[must_use]
    pub fn write_of(&self, code: u8) -> usize {
        self.write + usize::from(code) - 1
    }
}

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The members, and the seat of this replica.
    pub seating: Seating,
    /// The quorums in force.
    pub thresholds: Thresholds,
    /// The fault of a mutant.
    pub faults: Faults<Fault>,
    /// The largest `X` (`k`): 1 for Multi-Paxos.
    pub code_max: u8,
    /// Values of so many bytes are payloads (`payload_min`).
    pub payload_min: usize,
    /// Entries with so many bytes of payloads are spread before they get a slot (`spread_min`).
    pub spread_min: u64,
    /// `alpha`: a leader proposes nothing new this far behind the first slot it has not delivered
    /// (`window`).
    pub window: usize,
    /// Slots kept, from the first one not delivered.
    pub slots_max: usize,
    /// What waits for an entry, and what is in one.
    pub batches: Batches,
    /// Bytes in an entry of values that are large enough to be spread, at most unless one is larger
    /// (`spread_bytes`).
    pub spread_bytes_max: usize,
    /// Bytes of entries in one part of a promise, about at most (`promise_bytes`).
    pub promise_bytes_max: usize,
    /// How long a lease runs on its leader's clock (`lease_ms`); 0 for none.
    pub lease_ns: u64,
    /// How long a member that granted one helps nobody else, on its own clock: as long as the lease
    /// may run if each of both clocks is `drift_ppm` off.
    pub hold_ns: u64,
    /// How long things take.
    pub delays: Delays,
}

/// Parameters of both protocols.
const COMMON: [&str; 8] = [
    "payload_min",
    "spread_min",
    "spread_bytes",
    "promise_bytes",
    "election_ms",
    "lease_ms",
    "drift_ppm",
    "patience_ms",
];

/// Parameters of RS-Paxos alone; what Multi-Paxos adds is in `../multi_paxos/config.rs`.
const OWN: &[&str] = &["k", "profile"];

impl Config {
    /// The configuration of one seat of RS-Paxos.
    pub fn coded(seat: &Seat) -> Result<Config, String> {
        let known = known(OWN);
        let params = params(&seat.epoch, &known)?;
        Config::new(seat, &params, coding::coded(&params)?)
    }

    /// The configuration of one seat with these quorums and codes.
    pub(crate) fn new(seat: &Seat, params: &Params<'_>, coding: Coding) -> Result<Config, String> {
        let _epoch = &seat.epoch;
        let window = params.number("window", 8, 1..=WINDOW_MAX)?;
        let lease_ns = params.number("lease_ms", 0, 0..=60_000)? as u64 * MILLIS;
        let drift_ppm = params.number("drift_ppm", 500, 0..=100_000)? as u64;
        Ok(Config {
            thresholds: Thresholds::new(coding.quorums),
            faults: Faults::default(),
            code_max: coding.code_max,
            payload_min: params.number("payload_min", 4096, 1..=ENTRY_BYTES_MAX)?,
            seating: Seating::of(seat)?,
            spread_min: params.number("spread_min", 256 << 10, 1..=1 << 40)? as u64,
            window,
            slots_max: SLOTS_PER_WINDOW * window,
            batches: Batches::of(params)?,
            spread_bytes_max: params.number("spread_bytes", 4 << 20, 1..=ENTRY_BYTES_MAX)?,
            promise_bytes_max: params.number("promise_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
            lease_ns,
            hold_ns: hold_ns(lease_ns, drift_ppm),
            delays: Delays::of(params)?,
        })
    }

    /// The largest `X` under which so many members can choose a value; 1 if they cannot at all.
    pub(super) fn code_for(&self, alive: usize) -> u8 {
        let spare = (alive + 1).saturating_sub(self.thresholds.write);
        spare.clamp(1, usize::from(self.code_max)) as u8
    }
}

/// How long a clock that may run `drift_ppm` too fast has to count to be sure that one that may run
/// as much too slow has counted the lease: `hold / (1 + rho) >= lease / (1 - rho)`.
fn hold_ns(lease_ns: u64, drift_ppm: u64) -> u64 {
    const MILLION: u64 = 1_000_000;
    (lease_ns * (MILLION + drift_ppm)).div_ceil(MILLION - drift_ppm)
}

/// How many replicas may fail while the others still elect leaders and choose values: the coded
/// ones with a smaller `X`.
pub(crate) fn failures_survived(coding: Result<Coding, String>) -> usize {
    coding.map_or(0, |coding| coding.quorums.failures(1))
}

/// What an epoch fixes of the algebra of RS-Paxos.
pub(super) fn coded(epoch: &Epoch) -> Result<Coding, String> {
    coding::coded(&params(epoch, &known(OWN))?)
}

/// The names of all parameters: those of one protocol, and those of both.
pub(crate) fn known(own: &[&'static str]) -> Vec<&'static str> {
    own.iter().copied().chain(COMMON).collect()
}

/// The parameters of an epoch, if all their names are known.
pub(crate) fn params<'a>(epoch: &'a Epoch, known: &'a [&'a str]) -> Result<Params<'a>, String> {
    Params::of(epoch, known)
}
