//! What is left of a quota, as every write looks at it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that the store may still grow by, as of the last look.
#[derive(Debug)]
pub(crate) struct Room(AtomicU64);

impl Default for Room {
    fn default() -> Self {
        Room(AtomicU64::new(u64::MAX))
    }
}

impl Room {
    /// Whether a write of so many bytes fits, as of the last look.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        bytes as u64 <= self.0.load(Ordering::Relaxed)
    }

    /// Notes what is left.
    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}
