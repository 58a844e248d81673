//! Forgetting history.
//!
//! A compaction takes effect at once: revisions before it can no longer be read. The memory is
//! freed afterwards, a little with every command and in slices while the replica is idle, along the
//! journal: a version that was replaced or deleted before the compaction has a change in the
//! journal before it, too. So a compaction delays nobody, however much it frees, and how far the
//! freeing has come can be seen only in the figures, and in the payloads that are live.

use crate::command;
use crate::refused::Refused;
use crate::store::{KEY_BYTES, Store, VERSION_BYTES};
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{CompactionRequest, CompactionResponse};

/// Versions of one key freed with one change. Every version to be freed has a change of its own,
/// except one per key: two would be enough.
const VERSIONS_FREED_PER_CHANGE: usize = 4;

impl Store {
    /// Forgets history before a revision.
    pub(crate) fn compact(&mut self, request: &CompactionRequest) -> Result<Bytes, Refused> {
        if request.revision <= self.compacted {
            return Err(Refused::Compacted);
        }
        if request.revision > self.revision {
            return Err(Refused::FutureRevision);
        }
        self.compacted = request.revision;
        let response = CompactionResponse::default();
        Ok(command::applied(self.revision, &response))
    }

    /// Frees what compaction left behind, at most this many changes; says whether there is more.
    pub(crate) fn free(&mut self, changes_max: usize) -> bool {
        for _ in 0..changes_max {
            if !self.free_one() {
                return false;
            }
        }
        !self.is_tidy()
    }

    /// Whether there is nothing to free.
    pub(crate) fn is_tidy(&self) -> bool {
        self.freeable().is_none()
    }

    /// The revision up to which changes can be freed, if there is one.
    fn freeable(&self) -> Option<i64> {
        let first = self.journal.first()?.revision;
        // Most of the time nothing is compacted, and that is seen at once.
        if first >= self.compacted {
            return None;
        }
        Some(self.freed_below()).filter(|bound| first < *bound)
    }

    /// Changes before this revision can be freed. Those that were not told to watchers yet wait:
    /// whoever watched before a compaction sees what came before it. So does what is needed for a
    /// snapshot that is being taken, or a large read.
    fn freed_below(&self) -> i64 {
        let cut_at = self.cut_at.unwrap_or(i64::MAX);
        let wanted = self.wanted.get().min(self.pins.lowest());
        self.compacted.min(wanted).min(cut_at)
    }

    fn free_one(&mut self) -> bool {
        let Some((change, bound)) = self.journal.first().zip(self.freeable()) else {
            return false;
        };
        if let Some(history) = self.keys.get_mut(change.key) {
            history.trim(bound, VERSIONS_FREED_PER_CHANGE, |version| {
                self.bytes -= VERSION_BYTES + version.value.bytes_held();
                if let Some(reference) = version.value.reference() {
                    self.payloads.release(reference.id);
                }
            });
            if history.is_empty() {
                self.keys.remove(change.key);
                self.bytes -= KEY_BYTES + change.key.len() as u64;
            }
        }
        self.journal.drop_first();
        true
    }
}
