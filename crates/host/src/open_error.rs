//! Why a host cannot be opened.

use crate::position::Position;
use quorate_core::{Epoch, Slot};
use std::fmt;

/// Why a host cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// Reading the log failed.
    Io(String),
    /// A valid record means nothing here: another program or another epoch wrote it.
    Unreadable {
        /// The place of the record.
        at: Position,
        /// What is wrong with it.
        what: String,
    },
    /// A segment belongs to another cluster, replica, or incarnation.
    Foreign {
        /// The segment's number.
        segment: u64,
        /// What differs from this replica's.
        what: String,
    },
    /// Decided slots are missing, which only running replicas can fetch.
    Missing {
        /// The first slot that is missing.
        from: Slot,
        /// The first behind them that is there.
        before: Slot,
    },
    /// The group is in this epoch by now: the driver tries again with its seat in it.
    Epoch(Box<Epoch>),
    /// A segment was written by a newer version of the format.
    Version {
        /// The segment's number.
        segment: u64,
        /// The version that its header says.
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
