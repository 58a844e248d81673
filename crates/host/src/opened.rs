//! What comes of opening a host.

use crate::fragments::FragmentsOpened;
use crate::position::Position;
use quorate_core::Slot;

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
    pub fragment_store: FragmentsOpened,
}
