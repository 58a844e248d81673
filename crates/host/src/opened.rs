//! What comes of opening a host.

use crate::fragments::FragmentsOpened;
use crate::log::Position;
use quorate_core::{Epoch, Slot};
use std::fmt;

/// What opening a host found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The first slot not applied.
    pub next: Slot,
    /// Segments that hold the log, ascending.
    pub segments: Vec<u64>,
    /// Where an unfinished, never acknowledged write was cut off, if one was.
    pub torn: Option<Position>,
    /// Records read.
    pub records: u64,
    /// The snapshot the state was loaded from, if one was.
    pub snapshot: Option<Slot>,
    /// Snapshots that cannot be used, and what is wrong with each.
    pub bad_snapshots: Vec<(Slot, String)>,
    /// Damage to the log: where acknowledged bytes begin that hold no valid record, and where the
    /// next valid one is. The same place twice: only bytes that hold nothing are not as they were
    /// written, and nothing is lost.
    pub damage: Vec<(Position, Position)>,
    /// How far the log was durable, as its marks say: damage before this is noticed.
    pub marked: Position,
    /// Slots that were decided and have to be fetched from peers: ranges without their ends.
    pub missing: Vec<(Slot, Slot)>,
    /// The first slot behind all that are known to be decided.
    pub until: Slot,
    /// Promises may be among what was lost: the replica does not vote before it has recovered.
    pub lost_promises: bool,
    /// Fragments of payloads.
    pub bulk: FragmentsOpened,
}

/// Why a host cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// Reading the log failed.
    Io(String),
    /// A valid record means nothing here: another program or another epoch wrote it.
    Unreadable {
        /// Where it is.
        at: Position,
        /// What is wrong with it.
        what: String,
    },
    /// A segment belongs to another cluster, replica, or incarnation.
    Foreign {
        /// Which segment.
        segment: u64,
        /// What differs.
        what: String,
    },
    /// Decided slots are missing, which only running replicas can fetch.
    Missing {
        /// The first.
        from: Slot,
        /// The first behind them that is there.
        before: Slot,
    },
    /// The group is in this epoch by now: the driver tries again with its seat in it.
    Epoch(Box<Epoch>),
    /// A segment was written by a newer version of the format.
    Version {
        /// Which segment.
        segment: u64,
        /// The version it says.
        found: u32,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io(why) => write!(f, "the log cannot be read: {why}"),
            OpenError::Unreadable { at, what } => write!(
                f,
                "log segment {} holds at byte {} what this program cannot use: {what}",
                at.segment, at.offset
            ),
            OpenError::Foreign { segment, what } => {
                write!(f, "log segment {segment} does not belong here: {what}")
            }
            OpenError::Missing { from, before } => write!(
                f,
                "the log lacks slots from {from} to before {before}, and no snapshot covers them: \
                 start the replica, and it fetches them from its peers"
            ),
            OpenError::Epoch(epoch) => write!(f, "the group is in epoch {} by now", epoch.number),
            OpenError::Version { segment, found } => write!(
                f,
                "log segment {segment} has format version {found}, newer than this program reads"
            ),
        }
    }
}

impl std::error::Error for OpenError {}
