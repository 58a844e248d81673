//! What configurations have in common where one replica leads at a time: who sits where, what is batched,
//! and how long things take.

use crate::shared::admission::QueueLimits;
use crate::shared::params::Params;
use crate::shared::rejoin::VoterSeat;
use quorate_core::{
    Boot, ENTRY_BYTES_MAX, MICROS, MILLIS, MemberIndex, MemberSet, ReplicaId, Seat, Slot,
};

/// The members of an epoch, and the seat of this replica among them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seating {
    /// The members, ascending.
    pub members: Vec<ReplicaId>,
    /// Position of this replica among them.
    pub me: MemberIndex,
    /// This start of the process.
    pub boot: Boot,
    /// First slot of the epoch.
    pub first_slot: Slot,
}

impl Seating {
    /// The members of the seat's epoch.
    pub(crate) fn of(seat: &Seat) -> Result<Seating, String> {
        let epoch = &seat.epoch;
        let me = epoch.index_of(seat.me).map(MemberIndex::new);
        Ok(Seating {
            members: epoch.member_ids().collect(),
            me: me.ok_or_else(|| format!("replica {} is not a member", seat.me))?,
            boot: seat.boot,
            first_slot: epoch.first_slot,
        })
    }

    /// All members but this replica.
    pub(crate) fn others(&self) -> MemberSet {
        MemberSet::first(self.members.len()) - MemberSet::only(self.me)
    }

    /// Position of a member.
    pub(crate) fn member(&self, id: ReplicaId) -> Option<MemberIndex> {
        let position = self.members.iter().position(|member| *member == id);
        position.map(MemberIndex::new)
    }

    /// Position of a member that is not this replica.
    pub(crate) fn peer(&self, id: ReplicaId) -> Option<MemberIndex> {
        self.member(id).filter(|member| *member != self.me)
    }

    /// This replica's number.
    pub(crate) fn my_id(&self) -> ReplicaId {
        self.members[self.me]
    }

    /// What decides whether this replica may make promises, where `notes_needed` others have to note a new life.
    pub(crate) fn voter_seat(&self, notes_needed: usize) -> VoterSeat {
        VoterSeat {
            me: self.me,
            boot: self.boot,
            members: self.members.len(),
            notes_needed,
        }
    }
}

/// What waits for an entry, and what is in one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batches {
    /// Own entries under way at once (`outstanding`).
    pub outstanding: usize,
    /// What may wait for an entry.
    pub queue: QueueLimits,
    /// Commands in an entry, at most (`batch_commands`).
    pub commands_max: usize,
    /// Bytes in an entry, at most unless one command is larger (`batch_bytes`).
    pub bytes_max: usize,
}

impl Batches {
    /// What an epoch's parameters say.
    pub(crate) fn of(params: &Params<'_>) -> Result<Batches, String> {
        Ok(Batches {
            outstanding: params.number("outstanding", 2, 1..=1024)?,
            queue: QueueLimits::of(params)?,
            commands_max: params.number("batch_commands", 1024, 1..=1 << 20)?,
            bytes_max: params.number("batch_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
        })
    }
}

/// How long things take, in ns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delays {
    /// A leader not heard for this long to twice as long is given up (`election_ms`).
    pub election_ns: u64,
    /// How long a request waits for a leader before it is refused, at least (`patience_ms`).
    pub patience_ns: u64,
    /// How long what is decided elsewhere may take to come by itself.
    pub learn_ns: u64,
    /// First retransmission; doubles up to `rtx_max_ns`.
    pub rtx_min_ns: u64,
    /// Longest time between retransmissions.
    pub rtx_max_ns: u64,
}

impl Delays {
    /// What an epoch's parameters say.
    pub(crate) fn of(params: &Params<'_>) -> Result<Delays, String> {
        let rtt_ns = params.number("rtt_us", 400, 1..=10_000_000)? as u64 * MICROS;
        let election_ns = params.number("election_ms", 100, 1..=600_000)? as u64 * MILLIS;
        Ok(Delays {
            election_ns,
            patience_ns: params.number("patience_ms", 5000, 1..=86_400_000)? as u64 * MILLIS,
            learn_ns: rtt_ns,
            rtx_min_ns: (4 * rtt_ns).max(2 * MILLIS),
            rtx_max_ns: (election_ns / 2).max(4 * rtt_ns),
        })
    }
}
