//! Parameters, and the numbers and rules in force.

use super::mutants::Fault;
use super::pattern::SEGMENTS_MAX;
use crate::shared::admission::QueueLimits;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use crate::shared::rejoin::VoterSeat;
use quorate_core::{
    Boot, ENTRY_BYTES_MAX, MICROS, MILLIS, MemberIndex, MemberSet, ReplicaId, Seat, Slot, majority,
};
use std::ops::RangeInclusive;

/// Most slots that may be proposed beyond the first one not committed.
pub(super) const WINDOW_MAX: usize = 65_536;
/// Slots kept, per slot of the window: a peer may be that much ahead.
pub(super) const SLOTS_PER_WINDOW: usize = 4;
/// Views that may begin beyond that before anything is committed.
pub(super) const INITS_MAX: u64 = 1024;

/// What a message costs to process unless told (`docs/results/chora-cost.toml`).
const MESSAGE_NS: usize = 1_000;

/// How many members it takes. Every number is the smallest that is safe: `q = f + 1` of `2f + 1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Acknowledgements that commit a prefix.
    pub commit: usize,
    /// Votes that make an initiator.
    pub vote: usize,
    /// Members whose logs a read has heard of, the asker included.
    pub read: usize,
    /// Others that take note of a new life before it counts.
    pub rejoin: usize,
}

/// When messages leave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ModeRule {
    /// As the load and the network suggest.
    Auto,
    /// At once, always.
    Responsive,
    /// Once per round, while there is anything to say.
    Pulsing,
    /// One or the other, and another one soon, at every replica by itself: for tests.
    Random,
}

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The members, ascending.
    pub members: Vec<ReplicaId>,
    /// Position of this replica among them.
    pub me: MemberIndex,
    /// This start of the process.
    pub boot: Boot,
    /// The boot under which VIEW-INITs are named.
    pub init_boot: Boot,
    /// First slot of the epoch.
    pub first_slot: Slot,
    /// How many members each decision takes.
    pub thresholds: Thresholds,
    /// The rule that a mutant breaks; none without a mutant.
    pub faults: Faults<Fault>,
    /// Members that propose, at most (`proposers`).
    pub proposers: usize,
    /// Whether one proposes alone while all clients are there (`proposers = auto`).
    pub is_adaptive: bool,
    /// When messages leave (`mode`).
    pub mode: ModeRule,
    /// `T`: the first length of a round (`round_us`), or what it is taken for before it is measured.
    pub round_ns: u64,
    /// Whether it is measured (`round_us = auto`).
    pub is_round_measured: bool,
    /// The lengths of a round that the tuner may choose, ns.
    pub round_range_ns: RangeInclusive<u64>,
    /// Slots beyond the first one not committed in which something may be proposed (`window`), one for
    /// each member at least.
    pub window: usize,
    /// Segments in a VIEW-INIT, at most: the newest.
    pub segments_max: usize,
    /// Slots kept, from the first one not committed.
    pub slots_max: usize,
    /// Own entries under way at once in responsive mode (`outstanding`).
    pub outstanding: usize,
    /// What may wait for an entry.
    pub queue: QueueLimits,
    /// Commands in an entry, at most (`batch_commands`).
    pub batch_commands_max: usize,
    /// Bytes in an entry, at most unless one command is larger (`batch_bytes`).
    pub batch_bytes_max: usize,
    /// `T_stall`: without progress for this long to twice as long, a view is given up (`stall_ms`).
    pub stall_ns: u64,
    /// `T_rejoin`: how long a proposer that was left out is watched before it is taken back
    /// (`rejoin_ms`).
    pub rejoin_ns: u64,
    /// A proposer that had nothing to propose for so long will not miss its next slot (`idle_ms`).
    pub idle_ns: u64,
    /// How long a request waits before it is refused, at least (`patience_ms`).
    pub patience_ns: u64,
    /// How long after a message that was overtaken is taken for lost.
    pub grace_ns: u64,
    /// `T_gap`: first repair; doubles up to `gap_max_ns`.
    pub gap_ns: u64,
    /// Longest time between repairs.
    pub gap_max_ns: u64,
    /// What a message is said to cost to process (`message_ns`): for figures only.
    pub message_ns: u64,
}

const KNOWN: [&str; 8] = [
    "proposers",
    "mode",
    "round_us",
    "stall_ms",
    "rejoin_ms",
    "idle_ms",
    "message_ns",
    "patience_ms",
];

impl Config {
    /// The configuration of one seat.
    pub fn new(seat: &Seat) -> Result<Config, String> {
        let epoch = &seat.epoch;
        let params = Params::of(epoch, &KNOWN)?;
        let (n, me) = (epoch.n(), epoch.index_of(seat.me));
        let rtt_ns = params.number("rtt_us", 400, 1..=10_000_000)? as u64 * MICROS;
        let round_ns = round_ns(&params, rtt_ns)?;
        // Every proposer has a slot in it: else the last of them would wait for slots that nobody fills.
        let window = params.number("window", 1024, 1..=WINDOW_MAX)?.max(n);
        let stall_ns = params.number("stall_ms", 100, 1..=600_000)? as u64 * MILLIS;
        let gap_ns = (4 * round_ns).max(2 * rtt_ns).max(MILLIS);
        Ok(Config {
            members: epoch.member_ids().collect(),
            me: me
                .map(MemberIndex::new)
                .ok_or_else(|| format!("replica {} is not a member", seat.me))?,
            boot: seat.boot,
            init_boot: Boot(0).of_epoch(epoch.number),
            first_slot: epoch.first_slot,
            thresholds: Thresholds {
                commit: majority(n),
                vote: majority(n),
                read: majority(n),
                rejoin: majority(n),
            },
            faults: Faults::default(),
            proposers: proposers(&params, n)?,
            is_adaptive: params.text("proposers") == Some("auto"),
            mode: mode(&params)?,
            round_ns,
            is_round_measured: matches!(params.text("round_us"), None | Some("auto")),
            round_range_ns: (20 * MICROS).min(round_ns)..=(2 * MILLIS).max(round_ns),
            window,
            segments_max: SEGMENTS_MAX,
            slots_max: SLOTS_PER_WINDOW * window,
            outstanding: params.number("outstanding", 4, 1..=1024)?,
            queue: QueueLimits::of(&params)?,
            batch_commands_max: params.number("batch_commands", 1024, 1..=1 << 20)?,
            batch_bytes_max: params.number("batch_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
            stall_ns,
            rejoin_ns: params.number("rejoin_ms", 1000, 1..=86_400_000)? as u64 * MILLIS,
            idle_ns: params.number("idle_ms", 10, 0..=86_400_000)? as u64 * MILLIS,
            patience_ns: params.number("patience_ms", 5000, 1..=86_400_000)? as u64 * MILLIS,
            grace_ns: round_ns.max(rtt_ns / 2),
            gap_ns,
            gap_max_ns: (stall_ns / 2).max(gap_ns),
            message_ns: params.number("message_ns", MESSAGE_NS, 1..=1_000_000_000)? as u64,
        })
    }

    /// The set of all members.
    pub(super) fn all(&self) -> MemberSet {
        MemberSet::first(self.members.len())
    }

    /// All members but this replica.
    pub(super) fn others(&self) -> MemberSet {
        self.all() - MemberSet::only(self.me)
    }

    /// The number of a member.
    pub(super) fn id(&self, member: MemberIndex) -> ReplicaId {
        self.members[member]
    }

    /// The position of a member.
    pub(super) fn member(&self, id: ReplicaId) -> Option<MemberIndex> {
        let position = self.members.iter().position(|member| *member == id);
        position.map(MemberIndex::new)
    }

    /// What decides whether this replica may make promises.
    pub(super) fn voter_seat(&self) -> VoterSeat {
        VoterSeat {
            me: self.me,
            boot: self.boot,
            members: self.members.len(),
            notes_needed: self.thresholds.rejoin,
        }
    }

    /// This replica's number.
    pub(super) fn my_id(&self) -> ReplicaId {
        self.id(self.me)
    }
}

fn proposers(params: &Params<'_>, n: usize) -> Result<usize, String> {
    match params.text("proposers") {
        Some("auto") => Ok(n),
        _ => {
            let proposers = params.number("proposers", n, 1..=n);
            proposers.map_err(|why| format!("{why}, or auto"))
        }
    }
}

fn mode(params: &Params<'_>) -> Result<ModeRule, String> {
    match params.text("mode") {
        None | Some("auto") => Ok(ModeRule::Auto),
        Some("responsive") => Ok(ModeRule::Responsive),
        Some("pulsing") => Ok(ModeRule::Pulsing),
        Some("random") => Ok(ModeRule::Random),
        Some(other) => Err(format!(
            "mode = {other}: must be auto, responsive, pulsing or random"
        )),
    }
}

/// The first length of a round: as given, or half of what a message is said to take.
fn round_ns(params: &Params<'_>, rtt_ns: u64) -> Result<u64, String> {
    match params.text("round_us") {
        None | Some("auto") => Ok((rtt_ns / 4).max(MICROS)),
        Some(_) => {
            let round_us = params.number("round_us", 50, 1..=1_000_000);
            let round_us = round_us.map_err(|why| format!("{why}, or auto"))?;
            Ok(round_us as u64 * MICROS)
        }
    }
}
