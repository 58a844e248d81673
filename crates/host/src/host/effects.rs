//! What a host wants done, and what it is told of that.

use crate::api::{Answer, Flush, Frame, HostEvent, LogRead, Token, Write};
use crate::payloads::{Coding, Fragments};
use crate::position::Position;
use crate::snapshot::{Release, SnapshotRead, SnapshotWrite};
use bytes::Bytes;
use quorate_core::{Countdown, Slot};

/// What a host wants done by whoever drives it. Within each field the order counts, unless it says otherwise; fields
/// do not wait for each other, unless they say so: what depends on a write comes once its completion was reported.
#[derive(Debug)]
pub struct Effects<A> {
    /// Frames to send to peers. Sent before the flush is performed, they travel while the disk works.
    pub frames: Vec<Frame>,
    /// Answers to requests, by their tokens.
    pub answers: Vec<(Token, Answer<A>)>,
    /// Reads to perform, in any order, and to report ([`Completed::Read`]).
    pub reads: Vec<LogRead>,
    /// Events for metrics, logs and the operator.
    pub events: Vec<HostEvent>,
    /// The countdowns that the application wants started or stopped, after the events: one of them may say that all
    /// that run are void ([`HostEvent::Installed`]). What they come to is ordered by
    /// [`Directive::OrderDue`](crate::Directive::OrderDue); see [`Countdowns`](crate::Countdowns).
    pub countdowns: Vec<Countdown>,
    /// Writes to perform, to sync if they ask for it, and to report ([`Completed::Flush`]). There
    /// is no other before that.
    pub flush: Option<Flush>,
    /// A step in writing long fragments, to be written and synced apart from the log and reported
    /// ([`Completed::FragmentStep`]). There is no other before that.
    pub fragment_step: Option<Write>,
    /// Payloads of which fragments are to be made, in any order, and reported
    /// ([`Completed::Coding`]).
    pub coding: Vec<Coding>,
    /// What to do to snapshot files, and to report ([`Completed::SnapshotPiece`] and
    /// [`Completed::Snapshot`]).
    pub snapshot_writes: Vec<SnapshotWrite>,
    /// Reads of stored snapshots to perform, and to report
    /// ([`Completed::SnapshotRead`]).
    pub snapshot_reads: Vec<SnapshotRead>,
    /// What may be deleted or recycled; it supersedes those before.
    pub release: Option<Release>,
    /// Segments of the store of fragments that may be deleted or recycled, in any order.
    pub released_fragments: Vec<u64>,
}

impl<A> Default for Effects<A> {
    fn default() -> Self {
        Effects {
            frames: Vec::new(),
            answers: Vec::new(),
            reads: Vec::new(),
            events: Vec::new(),
            countdowns: Vec::new(),
            flush: None,
            fragment_step: None,
            coding: Vec::new(),
            snapshot_writes: Vec::new(),
            snapshot_reads: Vec::new(),
            release: None,
            released_fragments: Vec::new(),
        }
    }
}

/// Something that a driver was asked to do and has done.
#[derive(Debug)]
pub enum Completed {
    /// The flush that ends here was performed ([`Flush::through`]).
    Flush(Position),
    /// A read of the log or of the fragments was performed, or failed.
    Read {
        /// The token of the read ([`LogRead::token`]).
        token: u64,
        /// The bytes, or why there are none.
        bytes: Result<Bytes, String>,
    },
    /// The step in writing long fragments that was taken last is on stable storage.
    FragmentStep,
    /// Fragments were made.
    Coding(Fragments),
    /// The number of bytes of [`SnapshotWrite::Piece`]s that were written (not synced), or never will be.
    SnapshotPiece(u64),
    /// A snapshot is durable under its name; or writing it failed, at whatever place. After a failure the driver
    /// ignores writes up to the next [`SnapshotWrite::Begin`].
    Snapshot {
        /// The slot of the snapshot.
        slot: Slot,
        /// Why writing it failed, if it did.
        result: Result<(), String>,
    },
    /// A read of a stored snapshot was performed. Fewer bytes than asked for are an error.
    SnapshotRead {
        /// The token of the read ([`SnapshotRead::token`]).
        token: u64,
        /// The bytes, or why there are none.
        bytes: Result<Bytes, String>,
    },
}
