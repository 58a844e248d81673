//! What a driver does for snapshots, and what it is told.
//!
//! Files are named by the slot they stand for. The driver performs [`SnapshotWrite`]s in order, on
//! another thread if it has one, and reports back: [`crate::Completed::SnapshotPiece`] for the bytes
//! of each piece, [`crate::Completed::Snapshot`] for the whole file.

use bytes::Bytes;
use quorate_core::Slot;

/// Something to do to the one snapshot file that is being written. In order, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SnapshotWrite {
    /// Begin a file under a temporary name, for the state before `slot`. What is left of an
    /// unfinished one is deleted.
    Begin {
        /// Which snapshot.
        slot: Slot,
    },
    /// The next bytes, without gaps. Report them with [`crate::Completed::SnapshotPiece`], failed or
    /// not: only so many may be under way.
    Piece {
        /// Where in the file.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// That was all: sync the file, give it its name, sync the folder, and report
    /// [`crate::Completed::Snapshot`].
    End {
        /// Which snapshot.
        slot: Slot,
        /// The file's length in bytes.
        bytes: u64,
    },
    /// Delete the unfinished file: it will not be completed.
    Abandon {
        /// Which snapshot.
        slot: Slot,
    },
}

/// A read of a stored snapshot for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotRead {
    /// Hand this back in [`crate::Completed::SnapshotRead`].
    pub token: u64,
    /// Which snapshot.
    pub slot: Slot,
    /// Where in the file.
    pub offset: u64,
    /// How many bytes; never beyond the end of the file.
    pub len: u32,
}

/// What is not needed any more: everything it rests on is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// Log segments with lower numbers may be deleted or recycled: the oldest first, each for good
    /// before the next. With a gap among those left, damage to the record of this release would look
    /// like the loss of what was in the gap.
    pub segments_before: u64,
    /// Snapshots of lower slots may be deleted.
    pub snapshots_before: Slot,
}

/// Bytes of pieces that may be under way to the disk at once.
pub const SNAPSHOT_UNWRITTEN_BYTES_MAX: u64 = 1 << 20;
