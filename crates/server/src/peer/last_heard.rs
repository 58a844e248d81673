//! How long a connection has been silent.

use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

/// When something arrived on a connection last.
#[derive(Debug)]
pub(crate) struct LastHeard(pub(super) Mutex<Instant>);

impl LastHeard {
    /// A connection that begins.
    pub(crate) fn now() -> LastHeard {
        LastHeard(Mutex::new(Instant::now()))
    }

    /// Something has arrived.
    pub(super) fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// When the last arrival was.
    pub(super) fn at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
