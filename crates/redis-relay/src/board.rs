//! What others than the relay's thread see of it, and what they may ask of it.

use quorate_core::ReplicaId;
use quorate_redis_effects::Status;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Requests to move that may wait.
const MOVES_MAX: usize = 16;

/// The relay as operators see it.
#[derive(Debug)]
pub struct Board {
    shown: Mutex<Shown>,
    moves: mpsc::Sender<ReplicaId>,
}

#[derive(Clone, Debug, Default)]
struct Shown {
    status: Status,
    clients: usize,
    failure: Option<String>,
}

/// Why the executor is not asked to be another replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MoveError {
    /// This replica does not execute; who does, if that is known.
    NotExecutor(Option<ReplicaId>),
    /// Too many of them wait.
    Busy,
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MoveError::NotExecutor(Some(executor)) => {
                write!(f, "replica {executor} is the executor: ask it")
            }
            MoveError::NotExecutor(None) => f.write_str("no replica is known to be the executor"),
            MoveError::Busy => f.write_str("the executor is being moved already"),
        }
    }
}

impl Board {
    pub(crate) fn new() -> (Board, mpsc::Receiver<ReplicaId>) {
        let (moves, asked) = mpsc::channel(MOVES_MAX);
        let shown = Mutex::default();
        (Board { shown, moves }, asked)
    }

    /// What the relay does.
    #[must_use]
    pub fn status(&self) -> Status {
        self.lock().status
    }

    /// Clients at the port.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.lock().clients
    }

    /// Why the relay serves nobody, if it needs a person.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Has another replica execute, soon.
    ///
    /// # Errors
    /// When this replica is not the executor.
    pub fn move_to(&self, target: ReplicaId) -> Result<(), MoveError> {
        let status = self.status();
        if status.role != quorate_redis_effects::Role::Executing {
            return Err(MoveError::NotExecutor(status.stream.executor));
        }
        let sent = self.moves.try_send(target);
        sent.map_err(|_| MoveError::Busy)
    }

    pub(crate) fn show(&self, status: Status, clients: usize) {
        let mut shown = self.lock();
        (shown.status, shown.clients) = (status, clients);
    }

    pub(crate) fn fail(&self, why: String) {
        self.lock().failure = Some(why);
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
