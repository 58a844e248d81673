//! Names of the entries that a replica or gateway forms.

use quorate_core::{Boot, EntryId, ReplicaId};
use std::hash::{Hash, Hasher};

/// Gives the entries of one replica or gateway their names.
///
/// Invariant: sequence numbers ascend from 1 within a start of the process, so that no two entries have one
/// name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryNames {
    origin: ReplicaId,
    boot: Boot,
    /// Sequence number of the last entry; 0 before the first.
    last_seq: u64,
}

impl EntryNames {
    /// No entry has a name yet.
    pub(crate) fn new(origin: ReplicaId, boot: Boot) -> Self {
        EntryNames {
            origin,
            boot,
            last_seq: 0,
        }
    }

    /// The name of the next entry.
    pub(crate) fn next(&mut self) -> EntryId {
        self.last_seq += 1;
        EntryId {
            origin: self.origin,
            boot: self.boot,
            seq: self.last_seq,
        }
    }

    /// Whether an entry has this sequence number.
    pub(crate) fn has_given(&self, seq: u64) -> bool {
        seq <= self.last_seq
    }
}

impl Hash for EntryNames {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.last_seq.hash(to);
    }
}
