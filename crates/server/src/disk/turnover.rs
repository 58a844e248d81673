//! What becomes of segments: made new, used again, or removed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counted since the replica began, by several threads.
#[derive(Debug, Default)]
pub(crate) struct Turnover {
    filled_bytes: AtomicU64,
    reused: AtomicU64,
    removed: AtomicU64,
}

impl Turnover {
    /// Counts zeros that were written to a new segment, in bytes.
    pub(super) fn filled(&self, bytes: u64) {
        self.filled_bytes.fetch_add(bytes, Relaxed);
    }

    /// A released segment is written over.
    pub(super) fn reused(&self) {
        self.reused.fetch_add(1, Relaxed);
    }

    /// A released segment is gone, because enough are kept.
    pub(super) fn removed(&self) {
        self.removed.fetch_add(1, Relaxed);
    }

    /// Bytes that new segments were filled with, segments that were used again, and segments that were
    /// removed.
    pub(crate) fn read(&self) -> (u64, u64, u64) {
        let [filled, reused, removed] =
            [&self.filled_bytes, &self.reused, &self.removed].map(|count| count.load(Relaxed));
        (filled, reused, removed)
    }
}
