//! What the application shares with what feeds the replica's server.
//!
//! The application appends what was taken and returns: it never waits for a server. Snapshots need both sides: the
//! newest RDB, and the bodies since.

use crate::body::Entry;
use crate::history::History;
use quorate_redis_effects::{Files, Rdb, STREAM_ID, genesis};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An RDB, and what was carried out before it was taken.
#[derive(Clone)]
pub struct Base {
    /// The file of everything that a server held.
    pub rdb: Arc<dyn Rdb>,
    /// The bodies that it holds: those with a lower position.
    pub position: u64,
    /// The digest of the replies to them.
    pub replies: u64,
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Base")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

/// What is under the lock.
pub(crate) struct Inner {
    pub(crate) history: History,
    pub(crate) base: Base,
    /// States that came from peers, and took the place of the own one.
    installs: u64,
}

/// What the application shares with what feeds the replica's server.
pub struct Shared {
    inner: Mutex<Inner>,
    files: Arc<dyn Files>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("Shared")
            .field("base", &inner.base)
            .field("end", &inner.history.end())
            .finish_non_exhaustive()
    }
}

fn first() -> Inner {
    Inner {
        history: History::new(0),
        base: Base {
            rdb: Arc::new(genesis(STREAM_ID)),
            position: 0,
            replies: 0,
        },
        installs: 0,
    }
}

impl Shared {
    /// Nothing was taken yet. `wake` is called by the application and must not wait for anything.
    #[must_use]
    pub fn new(files: Arc<dyn Files>, wake: Box<dyn Fn() + Send + Sync>) -> Arc<Shared> {
        Arc::new(Shared {
            inner: Mutex::new(first()),
            files,
            wake,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under the lock can panic half-way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn files(&self) -> &dyn Files {
        &*self.files
    }

    /// Bodies that were taken.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.lock().history.end()
    }

    /// Whether no body was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the bodies since the newest RDB.
    #[must_use]
    pub fn history_bytes(&self) -> u64 {
        self.lock().history.bytes()
    }

    /// Bytes of the bodies from a position on.
    #[must_use]
    pub fn bytes_from(&self, position: u64) -> u64 {
        self.lock().history.bytes_from(position)
    }

    /// The newest RDB.
    #[must_use]
    pub fn base(&self) -> Base {
        self.lock().base.clone()
    }

    /// How often a state came from peers: a server that was begun before one is of no use.
    #[must_use]
    pub fn installs(&self) -> u64 {
        self.lock().installs
    }

    /// Up to so many entries from a position on; `None` if they are forgotten: a newer RDB has them.
    #[must_use]
    pub fn from(&self, position: u64, most: usize) -> Option<Vec<Entry>> {
        self.lock().history.from(position, most)
    }

    /// Takes a newer RDB of the own server; what it holds is forgotten.
    pub fn rebase(&self, base: Base) {
        let mut inner = self.lock();
        let is_of_history = base.position <= inner.history.end();
        if is_of_history && base.position >= inner.base.position {
            inner.history.forget(base.position);
            inner.base = base;
        }
    }

    pub(crate) fn publish(&self, entry: Entry) {
        self.lock().history.push(entry);
        (self.wake)();
    }

    /// Another state takes the place of the own one.
    pub(crate) fn install(&self, base: Base, history: History) {
        let mut inner = self.lock();
        (inner.base, inner.history) = (base, history);
        inner.installs += 1;
        drop(inner);
        (self.wake)();
    }

    /// The state is as it was at first.
    pub(crate) fn begin_anew(&self) {
        let Inner { base, history, .. } = first();
        self.install(base, history);
    }
}
