//! Parameters, and the majorities in force.

use super::lanes::Lanes;
use super::mutants::Fault;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use crate::shared::seating::{Batches, Seating};
use quorate_core::{Epoch, MICROS, MILLIS, Seat, majority};

/// Most slots that may be used and not delivered (`window`).
const WINDOW_MAX: usize = 4096;
/// Most slots beyond what was seen that a lane is filled with no-ops (`ahead`).
const AHEAD_MAX: usize = 4096;
/// No replica keeps more slots, and no honest message speaks of more.
pub(super) const SLOTS_MAX: usize = 2 * (WINDOW_MAX + AHEAD_MAX) + Epoch::MEMBERS_MAX;
/// Own slots that are reserved at once.
const RESERVED_OWN_SLOTS: u64 = 32;

/// How many members it takes. Every number is the smallest that is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Members that accepted a value at one ballot when it is decided.
    pub accept: usize,
    /// Members whose promises let a replica propose at a ballot.
    pub promise: usize,
    /// Members that a read has heard from, the asker included.
    pub read: usize,
}

/// How acceptances are said (`ack`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acks {
    /// Every slot by itself, as in the paper's measurements (`each`); and what is decided, too.
    Each,
    /// What became durable together in one message (`range`); what is decided rides on the next suggestion.
    Range,
}

/// How long things take, in ns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delays {
    /// A lane that others wait for is taken over when its leader was silent for this long to twice as long
    /// (`suspect_ms`).
    pub suspect_ns: u64,
    /// As long, where the connection to the lane's leader broke.
    pub hurried_ns: u64,
    /// How long skipped slots wait for a message to all that tells of them (`skip_us`).
    pub skip_ns: u64,
    /// How long a request waits before it is refused, at least (`patience_ms`).
    pub patience_ns: u64,
    /// How long what is decided elsewhere may take to come by itself.
    pub learn_ns: u64,
    /// First retransmission; doubles up to `rtx_max_ns`.
    pub rtx_min_ns: u64,
    /// Longest time between retransmissions.
    pub rtx_max_ns: u64,
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
    /// Nothing of clients is suggested this far behind the first slot that is not delivered (`window`).
    pub window: u64,
    /// Slots beyond what was seen that a lane is filled with no-ops (`ahead`; the paper's beta).
    pub ahead: u64,
    /// Slots kept, from the first one not delivered.
    pub slots_max: u64,
    /// Slots of all lanes for which own ones are reserved at once.
    pub reserved_slots: u64,
    /// How acceptances are said.
    pub acks: Acks,
    /// What waits for an entry, and what is in one.
    pub batches: Batches,
    /// How long things take.
    pub delays: Delays,
}

const KNOWN: [&str; 5] = ["ahead", "ack", "suspect_ms", "skip_us", "patience_ms"];

impl Config {
    /// The configuration of one seat.
    pub(super) fn new(seat: &Seat) -> Result<Config, String> {
        let epoch = &seat.epoch;
        let params = Params::of(epoch, &KNOWN)?;
        let n = params.members()?;
        // Every member has a slot in it: else the last of them would wait for slots that nobody fills.
        let window = params.number("window", 1024, 1..=WINDOW_MAX)?.max(n) as u64;
        let ahead = params.number("ahead", 1000, 1..=AHEAD_MAX)? as u64;
        let enough = majority(n);
        Ok(Config {
            seating: Seating::of(seat)?,
            thresholds: Thresholds {
                accept: enough,
                promise: enough,
                read: enough,
            },
            faults: Faults::default(),
            window,
            ahead,
            slots_max: 2 * (window + ahead) + n as u64,
            // What a start leaves unused has to be filled by no-ops, a window at a time.
            reserved_slots: (RESERVED_OWN_SLOTS * n as u64).min(window + ahead),
            acks: acks(&params)?,
            batches: Batches::of(&params)?,
            delays: delays(&params)?,
        })
    }

    /// The lanes of the epoch: which member owns which slot.
    pub(super) fn lanes(&self) -> Lanes {
        Lanes {
            first: self.seating.first_slot,
            members: self.seating.members.len() as u64,
        }
    }
}

fn acks(params: &Params<'_>) -> Result<Acks, String> {
    match params.text("ack") {
        None | Some("range") => Ok(Acks::Range),
        Some("each") => Ok(Acks::Each),
        Some(other) => Err(format!("ack = {other}: must be each or range")),
    }
}

fn delays(params: &Params<'_>) -> Result<Delays, String> {
    let rtt_ns = params.number("rtt_us", 400, 1..=10_000_000)? as u64 * MICROS;
    let suspect_ns = params.number("suspect_ms", 200, 1..=600_000)? as u64 * MILLIS;
    Ok(Delays {
        suspect_ns,
        hurried_ns: (20 * MILLIS).min(suspect_ns),
        skip_ns: params.number("skip_us", 5_000, 1..=10_000_000)? as u64 * MICROS,
        patience_ns: params.number("patience_ms", 5000, 1..=86_400_000)? as u64 * MILLIS,
        learn_ns: rtt_ns,
        rtx_min_ns: (4 * rtt_ns).max(2 * MILLIS),
        rtx_max_ns: (suspect_ns / 2).max(4 * rtt_ns),
    })
}
