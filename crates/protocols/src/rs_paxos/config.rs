//! Parameters, and the quorums in force.

use super::quorum::Quorums;
use crate::params::Params;
use quorate_core::{Boot, ENTRY_BYTES_MAX, Epoch, MICROS, MILLIS, ReplicaId, Seat, Slot};

/// Members are kept in bit masks.
pub(super) const MEMBERS_MAX: usize = 64;
/// Most slots that may be proposed and not delivered.
pub(super) const WINDOW_MAX: usize = 1024;
/// Slots kept, per slot of the window.
pub(super) const SLOTS_PER_WINDOW: usize = 4;

/// How many of something it takes. Every number is the smallest that is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// `QR`: promises that make a leader, and members that would give one before it asks.
    pub read: usize,
    /// `QW`: accepts that choose a value.
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
}

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The members, ascending.
    pub members: Vec<ReplicaId>,
    /// Position of this replica among them.
    pub me: usize,
    /// This start of the process.
    pub boot: Boot,
    /// First slot of the epoch.
    pub first_slot: Slot,
    /// The quorums.
    pub thresholds: Thresholds,
    /// `alpha`: a leader proposes nothing new this far behind the first slot it has not delivered
    /// (`window`).
    pub window: usize,
    /// Slots kept, from the first one not delivered.
    pub slots_max: usize,
    /// Own entries under way at once (`outstanding`).
    pub outstanding: usize,
    /// Commands waiting for an entry, at most (`queue`).
    pub queue_commands_max: usize,
    /// Bytes waiting for an entry, about at most.
    pub queue_bytes_max: usize,
    /// Commands in an entry, at most (`batch_commands`).
    pub batch_commands_max: usize,
    /// Bytes in an entry, at most unless one command is larger (`batch_bytes`).
    pub batch_bytes_max: usize,
    /// Bytes of entries in one part of a promise, about at most (`promise_bytes`).
    pub promise_bytes_max: usize,
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

const PARAMS: [&str; 10] = [
    "qr",
    "window",
    "outstanding",
    "queue",
    "batch_commands",
    "batch_bytes",
    "promise_bytes",
    "rtt_us",
    "election_ms",
    "patience_ms",
];

impl Config {
    /// The configuration of one seat.
    pub fn new(seat: &Seat) -> Result<Config, String> {
        let epoch = &seat.epoch;
        let params = params(epoch);
        params.check_names()?;
        let me = epoch.index_of(seat.me);
        let rtt_ns = params.number("rtt_us", 400, 1..=10_000_000)? as u64 * MICROS;
        let window = params.number("window", 8, 1..=WINDOW_MAX)?;
        let election_ns = params.number("election_ms", 100, 1..=600_000)? as u64 * MILLIS;
        Ok(Config {
            thresholds: Thresholds::new(quorums(epoch)?),
            members: epoch.members.iter().map(|m| m.id).collect(),
            me: me.ok_or_else(|| format!("replica {} is not a member", seat.me))?,
            boot: seat.boot,
            first_slot: epoch.first_slot,
            window,
            slots_max: SLOTS_PER_WINDOW * window,
            outstanding: params.number("outstanding", 2, 1..=1024)?,
            queue_commands_max: params.number("queue", 16_384, 1..=1 << 24)?,
            queue_bytes_max: 256 << 20,
            batch_commands_max: params.number("batch_commands", 1024, 1..=1 << 20)?,
            batch_bytes_max: params.number("batch_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
            promise_bytes_max: params.number("promise_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
            election_ns,
            patience_ns: params.number("patience_ms", 5000, 1..=86_400_000)? as u64 * MILLIS,
            learn_delay_ns: rtt_ns,
            rtx_min_ns: (4 * rtt_ns).max(2 * MILLIS),
            rtx_max_ns: (election_ns / 2).max(4 * rtt_ns),
        })
    }

    /// Members other than this replica, as a mask.
    pub(super) fn others(&self) -> u64 {
        u64::MAX >> (64 - self.members.len()) & !(1 << self.me)
    }

    /// Position of a member.
    pub(super) fn member(&self, id: ReplicaId) -> Option<usize> {
        self.members.iter().position(|member| *member == id)
    }

    /// This replica's number.
    pub(super) fn my_id(&self) -> ReplicaId {
        self.members[self.me]
    }
}

/// The quorums an epoch's parameters ask for.
pub(super) fn quorums(epoch: &Epoch) -> Result<Quorums, String> {
    let n = epoch.n();
    if n == 0 || n > MEMBERS_MAX {
        return Err(format!("{n} members: must be 1 to {MEMBERS_MAX}"));
    }
    let read = params(epoch).number("qr", Quorums::uncoded(n).read, 1..=n)?;
    Ok(Quorums { n, read })
}

fn params(epoch: &Epoch) -> Params<'_> {
    let known = &PARAMS;
    Params { epoch, known }
}
