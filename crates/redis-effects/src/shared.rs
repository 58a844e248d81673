//! What the application and the driver of one replica share.
//!
//! The application appends what it accepted and returns: it never waits for a server. The driver takes from there what
//! its server is to have. Snapshots need both: the newest RDB, and the stream since.

use crate::command::{Import, ServerVersion};
use crate::rdb::{Files, GENESIS_OFFSET, Rdb, genesis};
use bytes::Bytes;
use quorate_core::ReplicaId;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name under which replicas of servers know the stream. It is no secret, and drivers do not trust it.
pub const STREAM_ID: &str = "51756f72617465206f72646572732074686973ff";

/// Claims kept for a driver that does not look, at most.
const CLAIMS_MAX: usize = 64;

/// Where the stream stands, as of what was applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamState {
    /// The number of claims that were accepted.
    pub epoch: u64,
    /// The replica that executes in this epoch.
    pub executor: Option<ReplicaId>,
    /// The length of the stream in whole units.
    pub len: u64,
    /// The highest version that executed.
    pub version_max: Option<ServerVersion>,
    /// A digest of all bytes of the stream.
    pub digest: u64,
    /// The import of another server's data, if there is one: nobody executes meanwhile.
    pub import: Option<Import>,
}

/// An epoch that began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claimed {
    pub(crate) epoch: u64,
    pub(crate) by: Option<ReplicaId>,
    /// The process that claimed, where that is known.
    pub(crate) boot: Option<u64>,
    /// The length of the stream at which the epoch before ended; `None` if claims were missed.
    pub(crate) len: Option<u64>,
}

/// The newest RDB, and at which offset it was taken.
#[derive(Clone)]
pub(crate) struct Base {
    pub(crate) rdb: Arc<dyn Rdb>,
    pub(crate) offset: u64,
}

/// Consecutive bytes of the stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    begin: u64,
    end: u64,
    chunks: VecDeque<Bytes>,
}

impl History {
    pub(crate) fn new(begin: u64) -> Self {
        History {
            begin,
            end: begin,
            chunks: VecDeque::new(),
        }
    }

    pub(crate) fn begin(&self) -> u64 {
        self.begin
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.begin
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.end += bytes.len() as u64;
        self.chunks.push_back(bytes);
    }

    /// Forgets what is before an offset.
    pub(crate) fn forget(&mut self, before: u64) {
        while let Some(first) = self.chunks.front_mut()
            && self.begin < before
        {
            let gone = (before - self.begin).min(first.len() as u64);
            drop(first.split_to(gone as usize));
            self.begin += gone;
            if first.is_empty() {
                self.chunks.pop_front();
            }
        }
    }

    /// Up to about so many bytes from an offset on; `None` if they are forgotten, or were never there.
    pub(crate) fn from(&self, offset: u64, bytes_max: u64) -> Option<Vec<Bytes>> {
        if offset < self.begin || offset > self.end {
            return None;
        }
        let (mut at, mut left, mut found) = (self.begin, bytes_max, Vec::new());
        for chunk in &self.chunks {
            let end = at + chunk.len() as u64;
            if end > offset {
                let from = offset.saturating_sub(at);
                let to = (from + left).min(chunk.len() as u64);
                found.push(chunk.slice(from as usize..to as usize));
                left -= to - from;
                if left == 0 {
                    break;
                }
            }
            at = end;
        }
        Some(found)
    }

    pub(crate) fn chunks(&self) -> &VecDeque<Bytes> {
        &self.chunks
    }
}

/// What is under the lock.
pub(crate) struct Inner {
    pub(crate) state: StreamState,
    pub(crate) history: History,
    pub(crate) base: Base,
    pub(crate) claims: VecDeque<Claimed>,
    /// States that came from peers, and took the place of the own one.
    pub(crate) installs: u64,
}

/// What the application and the driver of one replica share.
pub struct Shared {
    inner: Mutex<Inner>,
    /// What the stream begins over.
    genesis: Base,
    files: Arc<dyn Files>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("Shared")
            .field("state", &inner.state)
            .field("history", &(inner.history.begin(), inner.history.end()))
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// A stream without a byte. `wake` is called by the application and must not wait for anything.
    #[must_use]
    pub fn new(files: Arc<dyn Files>, wake: Box<dyn Fn() + Send + Sync>) -> Arc<Shared> {
        Shared::beginning_with(Arc::new(genesis(STREAM_ID)), files, wake)
    }

    /// A stream without a byte over an RDB that says that it was taken at [`GENESIS_OFFSET`] of the stream
    /// [`STREAM_ID`].
    #[must_use]
    pub fn beginning_with(
        rdb: Arc<dyn Rdb>,
        files: Arc<dyn Files>,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Shared> {
        let state = StreamState {
            len: GENESIS_OFFSET,
            ..StreamState::default()
        };
        let genesis = Base {
            rdb,
            offset: GENESIS_OFFSET,
        };
        let inner = Inner {
            state,
            history: History::new(GENESIS_OFFSET),
            base: genesis.clone(),
            claims: VecDeque::new(),
            installs: 0,
        };
        Arc::new(Shared {
            inner: Mutex::new(inner),
            genesis,
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

    /// Where the stream stands.
    #[must_use]
    pub fn state(&self) -> StreamState {
        self.lock().state
    }

    /// The stream from an offset on; `None` where that is forgotten, or not there yet.
    #[must_use]
    pub fn since(&self, offset: u64) -> Option<Vec<Bytes>> {
        self.lock().history.from(offset, u64::MAX)
    }

    /// What was applied: a new state, bytes that it has more than the last, and the epoch that began.
    pub(crate) fn publish(&self, state: StreamState, bytes: Vec<Bytes>, claim: Option<Claimed>) {
        let mut inner = self.lock();
        bytes
            .into_iter()
            .for_each(|chunk| inner.history.push(chunk));
        debug_assert_eq!(inner.history.end(), state.len, "V1: all of the stream");
        inner.state = state;
        if let Some(claim) = claim {
            inner.note_claim(claim);
        }
        drop(inner);
        (self.wake)();
    }

    /// The log is applied from its first slot, and may have been before: a host that opens its folder reads the log
    /// again when it has mended it.
    pub(crate) fn begin_anew(&self) {
        let mut inner = self.lock();
        if inner.history.end() == GENESIS_OFFSET && inner.state.epoch == 0 {
            return;
        }
        inner.state = StreamState {
            len: GENESIS_OFFSET,
            ..StreamState::default()
        };
        inner.base = self.genesis.clone();
        inner.history = History::new(GENESIS_OFFSET);
        inner.claims.clear();
        inner.installs += 1;
    }

    /// A state came from a peer, or from the own disk.
    pub(crate) fn install(&self, state: StreamState, base: Base, history: History) {
        let mut inner = self.lock();
        if inner.state.epoch != state.epoch {
            inner.note_claim(Claimed {
                epoch: state.epoch,
                by: state.executor,
                boot: None,
                len: None,
            });
        }
        inner.state = state;
        inner.base = base;
        inner.history = history;
        inner.installs += 1;
        drop(inner);
        (self.wake)();
    }
}

impl Inner {
    fn note_claim(&mut self, mut claim: Claimed) {
        if self.claims.len() >= CLAIMS_MAX {
            self.claims.pop_back();
            claim.len = None;
        }
        self.claims.push_back(claim);
    }

    /// An RDB takes the place of the last one, and the stream before it is forgotten.
    ///
    /// V7: only an RDB of bytes that are part of the stream is ever used.
    pub(crate) fn rebase(&mut self, base: Base) -> bool {
        let fits = base.offset >= self.base.offset && base.offset <= self.history.end();
        if fits {
            self.history.forget(base.offset);
            self.base = base;
        }
        fits
    }
}
