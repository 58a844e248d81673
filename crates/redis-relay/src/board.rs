//! What others than the relay's thread see of it, and what they may ask of it.

use quorate_core::ReplicaId;
use quorate_redis_effects::{Rdb, Role, Status};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Requests of operators that may wait.
const REQUESTS_MAX: usize = 16;

/// The relay as operators see it.
#[derive(Debug)]
pub struct Board {
    me: ReplicaId,
    shown: Mutex<Shown>,
    requests: mpsc::Sender<OperatorRequest>,
}

/// Who waits for an RDB, or why there is none.
pub(crate) type RdbReply = oneshot::Sender<Result<Arc<dyn Rdb>, String>>;

/// What an operator asks for.
pub(crate) enum OperatorRequest {
    /// Another replica is to execute.
    Move(ReplicaId),
    /// This replica is to execute, if nobody does in that epoch.
    Claim(u64),
    /// An RDB of all that is committed now.
    Rdb(RdbReply),
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
    pub(crate) fn new(me: ReplicaId) -> (Board, mpsc::Receiver<OperatorRequest>) {
        let (requests, asked) = mpsc::channel(REQUESTS_MAX);
        let shown = Mutex::default();
        let board = Board {
            me,
            shown,
            requests,
        };
        (board, asked)
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

    /// Has another replica execute, soon; or this one, whose server follows, in the place of whoever does.
    ///
    /// # Errors
    /// When another replica is to be asked for that.
    pub fn move_to(&self, target: ReplicaId) -> Result<(), MoveError> {
        let Status { role, stream, .. } = self.status();
        let request = match role {
            Role::Executing => OperatorRequest::Move(target),
            Role::Following if target == self.me => OperatorRequest::Claim(stream.epoch),
            _ => return Err(MoveError::NotExecutor(stream.executor)),
        };
        let sent = self.requests.try_send(request);
        sent.map_err(|_| MoveError::Busy)
    }

    /// Has this replica execute, if nobody does in an epoch. Where it cannot, another one does once a client waits.
    pub fn claim(&self, epoch: u64) {
        // Without room, the next client is waited for.
        let _ = self.requests.try_send(OperatorRequest::Claim(epoch));
    }

    /// An RDB with everything that was committed before this was asked.
    ///
    /// # Errors
    /// When no majority answers, or the relay ends.
    pub async fn rdb(&self) -> Result<Arc<dyn Rdb>, String> {
        let (reply, replied) = oneshot::channel();
        let sent = self.requests.try_send(OperatorRequest::Rdb(reply));
        sent.map_err(|_| "too many operators ask for something at once".to_owned())?;
        let replied = replied.await;
        replied.unwrap_or_else(|_| Err("the replica is stopping".to_owned()))
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
