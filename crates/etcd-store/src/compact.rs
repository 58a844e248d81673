//! Compaction: forgetting history before a revision.
//!
//! A compaction takes effect at once: revisions before it can no longer be read. The memory is
//! freed afterwards, a little with every command and in slices while the replica is idle, along the
//! journal: a version that was replaced or deleted before the compaction has a change in the
//! journal before it, too. So a compaction delays nobody, however much it frees, and how far the
//! freeing has come can be seen only in the figures, and in the payloads that are live.
//!
//! Changes of the compacted revision itself stay, for whoever watches from there. What they replaced
//! does not count any more; it is freed last, or replicas that were held up in different places would
//! not come to the same payloads.

use crate::command;
use crate::refused::Refused;
use crate::store::{KEY_BYTES, Store, VERSION_BYTES};
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{CompactionRequest, CompactionResponse};

/// Versions of one key freed with one change. Every version to be freed has a change that replaced it,
/// and a deletion goes with its own, too: two would be enough.
const VERSIONS_FREED_PER_CHANGE: usize = 4;

/// How far freeing has come among the changes of a compacted revision.
#[derive(Debug, Default)]
pub(crate) struct FreedAt {
    revision: i64,
    /// The place of the next one within the revision; `None` after the last.
    next: Option<u32>,
}

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
        if first > self.compacted {
            return None;
        }
        let bound = self.freed_below();
        let is_at_end = first == bound && bound == self.compacted;
        let has_more = first < bound || (is_at_end && self.next_within(bound).is_some());
        has_more.then_some(bound)
    }

    /// The place of the next change to look at within a compacted revision.
    fn next_within(&self, revision: i64) -> Option<u32> {
        match self.freed_at.revision == revision {
            true => self.freed_at.next,
            false => Some(0),
        }
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
        let Some((first, bound)) = self.journal.first().zip(self.freeable()) else {
            return false;
        };
        if first.revision < bound {
            let key: Box<[u8]> = first.key.into();
            self.trim(bound, &key);
            self.journal.drop_first();
            return true;
        }
        let place = self.next_within(bound).unwrap_or_default();
        let mut changes = self.journal.within(bound, place);
        let key: Option<Box<[u8]>> = changes.next().map(|change| change.key.into());
        let next = changes.next().map(|change| change.sub);
        drop(changes);
        self.freed_at = FreedAt {
            revision: bound,
            next,
        };
        if let Some(key) = key {
            self.trim(bound, &key);
        }
        true
    }

    /// Forgets some versions of a key that do not count at a revision.
    fn trim(&mut self, revision: i64, key: &[u8]) {
        let Some(history) = self.keys.get_mut(key) else {
            return;
        };
        history.trim(revision, VERSIONS_FREED_PER_CHANGE, |version| {
            self.bytes -= VERSION_BYTES + version.value.bytes_held();
            if let Some(reference) = version.value.reference() {
                self.payloads.release(reference.id);
            }
        });
        if history.is_empty() {
            self.keys.remove(key);
            self.bytes -= KEY_BYTES + key.len() as u64;
        }
    }
}
