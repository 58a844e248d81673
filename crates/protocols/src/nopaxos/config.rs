//! Parameters, and the majorities in force.

use super::messages::View;
use super::mutants::Fault;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use crate::shared::seating::{Batches, Seating};
use quorate_core::{MICROS, MILLIS, MemberIndex, Seat, majority};

/// Most stamped entries that may be undecided (`window`).
const WINDOW_MAX: usize = 4096;
/// Slots that replicas keep beyond twice the window.
const SPARE: usize = 8;
/// No replica keeps more slots, and no honest message speaks of more.
pub(super) const SLOTS_MAX: usize = 2 * WINDOW_MAX + SPARE;

/// How many members it takes. Every number is the smallest that is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Members, the leader among them, that replied alike when an entry is committed.
    pub reply: usize,
    /// Members that have the no-ops of a gap when the leader goes on.
    pub gap: usize,
    /// Members whose logs are the leader's when a slot is decided.
    pub sync: usize,
    /// Members that have left earlier views when a view starts.
    pub change: usize,
    /// Members that a read has heard from, in one view.
    pub read: usize,
}

/// How long things take, in ns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delays {
    /// A leader that others wait for is given up when it was silent for this long to twice as long (`view_ms`).
    pub view_ns: u64,
    /// A session is given up when own entries were not stamped for this long to twice as long (`seq_ms`).
    pub seq_ns: u64,
    /// How long a connection to the leader or the sequencer may be down meanwhile.
    pub hurried_ns: u64,
    /// How often the leader has logs compared while there is something new (`sync_us`).
    pub sync_ns: u64,
    /// How long a missing stamp may be late before it is taken for lost (`gap_us`).
    pub gap_ns: u64,
    /// How long a request waits before it is refused, at least (`patience_ms`).
    pub patience_ns: u64,
    /// How long what is decided elsewhere may take to come by itself.
    pub learn_ns: u64,
    /// First repeat of what went unanswered; doubles up to `repeat_max_ns`.
    pub repeat_min_ns: u64,
    /// Longest time between repeats.
    pub repeat_max_ns: u64,
}

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The members, and the seat of this replica.
    pub seating: Seating,
    /// The majorities in force.
    pub thresholds: Thresholds,
    /// The sequencer stamps nothing this far behind the first slot it has not delivered (`window`).
    pub window: u64,
    /// Slots that a replica keeps, from the first one not delivered.
    pub slots_max: u64,
    /// How long things take.
    pub delays: Delays,
    /// What waits for an entry, and what is in one.
    pub batches: Batches,
    /// The fault of a mutant.
    pub faults: Faults<Fault>,
}

const KNOWN: [&str; 5] = ["sync_us", "gap_us", "view_ms", "seq_ms", "patience_ms"];

impl Config {
    /// The configuration of one seat.
    pub(super) fn new(seat: &Seat) -> Result<Config, String> {
        let params = Params::of(&seat.epoch, &KNOWN)?;
        let window = params.number("window", 1024, 1..=WINDOW_MAX)?;
        let all_alike = majority(params.members()?);
        Ok(Config {
            thresholds: Thresholds {
                reply: all_alike,
                gap: all_alike,
                sync: all_alike,
                change: all_alike,
                read: all_alike,
            },
            window: window as u64,
            slots_max: (2 * window + SPARE) as u64,
            delays: Delays::of(&params)?,
            batches: Batches::of(&params)?,
            seating: Seating::of(seat)?,
            faults: Faults::default(),
        })
    }

    /// Who leads a view.
    pub(super) fn leader(&self, view: View) -> MemberIndex {
        self.in_turn(view.lead)
    }

    /// Who stamps in the session of a view.
    pub(super) fn sequencer(&self, view: View) -> MemberIndex {
        self.in_turn(view.session)
    }

    fn in_turn(&self, turn: u64) -> MemberIndex {
        MemberIndex::new((turn % self.seating.members.len() as u64) as usize)
    }
}

impl Delays {
    fn of(params: &Params<'_>) -> Result<Delays, String> {
        let millis = |name, usual| {
            let number = params.number(name, usual, 1..=86_400_000)?;
            Ok::<_, String>(number as u64 * MILLIS)
        };
        let micros = |name, usual, least| {
            let number = params.number(name, usual, least..=10_000_000)?;
            Ok::<_, String>(number as u64 * MICROS)
        };
        let (view_ns, seq_ns) = (millis("view_ms", 100)?, millis("seq_ms", 100)?);
        let round_trip_ns = micros("rtt_us", 400, 1)?;
        Ok(Delays {
            view_ns,
            seq_ns,
            hurried_ns: view_ns.min(seq_ns).min(20 * MILLIS),
            sync_ns: micros("sync_us", 1_000, 1)?,
            gap_ns: micros("gap_us", 0, 0)?,
            patience_ns: millis("patience_ms", 5_000)?,
            learn_ns: round_trip_ns,
            repeat_min_ns: (4 * round_trip_ns).max(2 * MILLIS),
            repeat_max_ns: (view_ns / 2).max(4 * round_trip_ns),
        })
    }
}
