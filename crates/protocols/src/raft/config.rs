//! Parameters, and the majorities in force.

use super::mutants::Fault;
use crate::shared::admission::QueueLimits;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use crate::shared::rejoin::VoterSeat;
use quorate_core::{
    Boot, ENTRY_BYTES_MAX, Epoch, MICROS, MILLIS, MemberIndex, MemberSet, ReplicaId, Seat, Slot,
    majority,
};

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
    /// The members, ascending.
    pub members: Vec<ReplicaId>,
    /// Position of this replica among them.
    pub me: MemberIndex,
    /// This start of the process.
    pub boot: Boot,
    /// First slot of the epoch.
    pub first_slot: Slot,
    /// The majorities in force.
    pub thresholds: Thresholds,
    /// The fault of a mutant.
    pub faults: Faults<Fault>,
    /// A leader appends nothing of clients this far behind the first slot it has not delivered (`window`).
    pub window: usize,
    /// Slots in a log, at most.
    pub slots_max: usize,
    /// Own entries under way at once (`outstanding`).
    pub outstanding: usize,
    /// What may wait for an entry.
    pub queue: QueueLimits,
    /// Commands in an entry, at most (`batch_commands`).
    pub batch_commands_max: usize,
    /// Bytes in an entry, at most unless one command is larger (`batch_bytes`).
    pub batch_bytes_max: usize,
    /// Bytes of entries in one message, about at most (`append_bytes`).
    pub append_bytes_max: usize,
    /// A leader not heard for this long to twice as long is given up (`election_ms`).
    pub election_ns: u64,
    /// How long a request waits for a leader before it is refused, at least (`patience_ms`).
    pub patience_ns: u64,
    /// How long what is decided elsewhere may take to come by itself.
    pub learn_delay_ns: u64,
    /// First retransmission; doubles up to `rtx_max_ns`.
    pub rtx_min_ns: u64,
    /// Longest time between retransmissions.
    pub rtx_max_ns: u64,
}

const KNOWN: [&str; 9] = [
    "window",
    "outstanding",
    "queue",
    "batch_commands",
    "batch_bytes",
    "append_bytes",
    "rtt_us",
    "election_ms",
    "patience_ms",
];

impl Config {
    /// The configuration of one seat.
    pub(super) fn new(seat: &Seat) -> Result<Config, String> {
        let epoch = &seat.epoch;
        let params = Params {
            epoch,
            known: &KNOWN,
        };
        params.check_names()?;
        let (n, most) = (epoch.n(), Epoch::MEMBERS_MAX);
        if n == 0 || n > most {
            return Err(format!("{n} members: must be 1 to {most}"));
        }
        let me = epoch.index_of(seat.me).map(MemberIndex::new);
        let rtt_ns = params.number("rtt_us", 400, 1..=10_000_000)? as u64 * MICROS;
        let election_ns = params.number("election_ms", 100, 1..=600_000)? as u64 * MILLIS;
        let window = params.number("window", 8, 1..=WINDOW_MAX)?;
        let enough = majority(n);
        Ok(Config {
            members: epoch.member_ids().collect(),
            me: me.ok_or_else(|| format!("replica {} is not a member", seat.me))?,
            boot: seat.boot,
            first_slot: epoch.first_slot,
            thresholds: Thresholds {
                votes: enough,
                commit: enough,
                confirm: enough,
                rejoin: enough,
            },
            faults: Faults::default(),
            window,
            slots_max: window + SLOTS_BEYOND_WINDOW,
            outstanding: params.number("outstanding", 2, 1..=1024)?,
            queue: QueueLimits::of(&params)?,
            batch_commands_max: params.number("batch_commands", 1024, 1..=1 << 20)?,
            batch_bytes_max: params.number("batch_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
            append_bytes_max: params.number("append_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
            election_ns,
            patience_ns: params.number("patience_ms", 5000, 1..=86_400_000)? as u64 * MILLIS,
            learn_delay_ns: rtt_ns,
            rtx_min_ns: (4 * rtt_ns).max(2 * MILLIS),
            rtx_max_ns: (election_ns / 2).max(4 * rtt_ns),
        })
    }

    /// All members but this replica.
    pub(super) fn others(&self) -> MemberSet {
        MemberSet::first(self.members.len()) - MemberSet::only(self.me)
    }

    /// Position of a member.
    pub(super) fn member(&self, id: ReplicaId) -> Option<MemberIndex> {
        let position = self.members.iter().position(|member| *member == id);
        position.map(MemberIndex::new)
    }

    /// What decides whether this replica may vote.
    pub(super) fn voter_seat(&self) -> VoterSeat {
        VoterSeat {
            me: self.me,
            boot: self.boot,
            members: self.members.len(),
            notes_needed: self.thresholds.rejoin,
        }
    }
}

/// How many replicas may fail while the others still elect leaders and commit.
pub(super) fn failures_survived(epoch: &Epoch) -> usize {
    let n = epoch.n();
    n.saturating_sub(majority(n))
}
