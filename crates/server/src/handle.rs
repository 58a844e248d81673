//! The bounded ring between faces and a replica's core.

mod typed;

use crate::any_application::AnyValue;
use crate::budget::{Account, Budget, Charge};
use crate::group::{ChangeError, GroupChange};
use crate::quorum::Quorum;
use crate::status::Status;
use bytes::Bytes;
use metrics::Histogram;
use quorate_core::{Payload, PayloadId, Principal, ReplicaId, Slot};
use quorate_host::PayloadGone;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
pub use typed::Handle;

/// The longest time, and the pause, in which a change that comes too early is asked for again.
const CHANGE_WAITS_MAX: Duration = Duration::from_secs(3);
const CHANGE_RETRY: Duration = Duration::from_millis(50);

/// The term before a leader is named.
pub(crate) const FIRST_TERM: u64 = 1;

/// The budget for commands that wait between faces and the core, in bytes. A face holds its requests until they are
/// answered, but a client that leaves takes that away while its command still waits here.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// What a read may return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consistency {
    /// The read sees everything that completed before it began.
    Linearizable,
    /// The read sees this replica's applied state, which may be stale.
    Serializable,
}

/// Why a request got no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Too much is waiting; nothing was done; try again later.
    Overloaded,
    /// The command is larger than the cluster takes; nothing was done.
    TooLarge,
    /// No quorum answered in time; a write may still take effect.
    Timeout,
    /// This replica cannot order commands in its present role; nothing was done.
    NotServing,
    /// The replica shut down before it answered; a write may still take effect.
    Stopping,
    /// The replica had shut down before; nothing was done.
    Stopped,
    /// Space is short: what would make the state larger is refused, and reads go on. Nothing was done.
    NoSpace,
    /// Replicas hold different states, and nobody knows which one is right: only this replica's own state can be
    /// read. Nothing was done.
    Corrupt,
}

impl Failure {
    /// Whether a write that got this instead of a result may have taken effect, or may still do so. It must not be
    /// repeated by whoever wants it done once.
    #[must_use]
    pub fn may_be_done(self) -> bool {
        match self {
            Failure::Timeout | Failure::Stopping => true,
            Failure::Overloaded
            | Failure::TooLarge
            | Failure::NotServing
            | Failure::Stopped
            | Failure::NoSpace
            | Failure::Corrupt => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Overloaded => "too many requests are waiting",
            Failure::TooLarge => "request is too large",
            Failure::Timeout => "no quorum of replicas answered in time",
            Failure::NotServing => "this replica takes no requests in its present role",
            Failure::Stopping | Failure::Stopped => "the replica is shutting down",
            Failure::NoSpace => "space is short: nothing that makes the state larger is taken",
            Failure::Corrupt => {
                "replicas hold different states: only serializable reads are answered"
            }
        })
    }
}

/// One request on its way from a face to the core.
#[derive(Debug)]
pub enum Request {
    /// Apply a command; the answer is the application's result.
    Write {
        /// The application's encoding of the command.
        body: Bytes,
        /// The long values of the command, kept as payloads.
        payloads: Vec<Payload>,
        /// The client on whose behalf the command is applied.
        principal: Principal,
        /// The charge for the command's bytes while it waits for the core.
        room: Charge,
        /// The channel that the answer goes to.
        reply: oneshot::Sender<Result<Bytes, Failure>>,
    },
    /// Read the state.
    Read {
        /// The query to answer.
        query: AnyValue,
        /// How fresh the state must be.
        consistency: Consistency,
        /// The channel that the answer goes to.
        reply: oneshot::Sender<Result<AnyValue, Failure>>,
    },
    /// Get the bytes of a payload that an answer named.
    Payload {
        /// The name of the payload.
        id: PayloadId,
        /// The payload's length and digest.
        payload: Payload,
        /// The channel that the answer goes to.
        reply: oneshot::Sender<Result<Result<Bytes, PayloadGone>, Failure>>,
    },
    /// Ask how much time a countdown of the application has left on this replica.
    Remaining {
        /// The number of the countdown.
        id: u64,
        /// The channel that the answer goes to; `None` if there is no such countdown.
        reply: oneshot::Sender<Option<Duration>>,
    },
    /// Change the group.
    Change {
        /// The change to make.
        change: GroupChange,
        /// The channel that the answer goes to.
        reply: oneshot::Sender<Result<(), ChangeError>>,
    },
    /// Look whether a quorum is reached: a client wants to know from now on.
    Look,
    /// Describe the state of the replica.
    Status {
        /// The channel that the answer goes to.
        reply: oneshot::Sender<Status>,
    },
}

/// A member as faces show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberInfo {
    /// The member's replica id.
    pub id: ReplicaId,
    /// The member's name, for people.
    pub name: String,
    /// The URL at which other replicas reach the member.
    pub peer_url: String,
    /// The URL at which clients reach the member, or several with commas between them; empty when unknown.
    pub client_url: String,
    /// Whether the member only follows, without a vote.
    pub is_learner: bool,
    /// Whether the replica is to stay a learner until it is promoted.
    pub stays_learner: bool,
    /// Whether the member was ever started, as far as this replica was told.
    pub has_started: bool,
}

impl MemberInfo {
    /// What a replica is told of another one when it starts.
    #[must_use]
    pub fn told(id: ReplicaId, name: String, peer_url: String) -> MemberInfo {
        MemberInfo {
            id,
            name,
            peer_url,
            client_url: String::new(),
            is_learner: false,
            stays_learner: false,
            has_started: false,
        }
    }
}

/// The first URL of a member that may have several with commas between them.
#[must_use]
pub fn first_url(urls: &str) -> &str {
    urls.split(',').next().unwrap_or(urls)
}

/// How long values are that the replica wants as payloads. That may change with its epoch; commands
/// made before fit all the same.
#[derive(Clone, Debug)]
pub struct PayloadThreshold(Arc<AtomicUsize>);

impl PayloadThreshold {
    /// The threshold that no value reaches.
    const NEVER: usize = usize::MAX;

    /// Sets the length in bytes from which values are payloads; `None` for never.
    pub fn set(&self, min: Option<usize>) {
        self.0.store(min.unwrap_or(Self::NEVER), Ordering::Relaxed);
    }

    fn min(&self) -> Option<usize> {
        let min = self.0.load(Ordering::Relaxed);
        (min != Self::NEVER).then_some(min)
    }
}

impl Default for PayloadThreshold {
    fn default() -> Self {
        PayloadThreshold(Arc::new(AtomicUsize::new(Self::NEVER)))
    }
}

/// How faces reach a replica, whatever its application: cheap to clone, bounded, without locks.
#[derive(Clone)]
pub struct ReplicaHandle {
    requests: mpsc::Sender<Request>,
    /// The commands that wait for the core.
    waiting: Account,
    applied: Arc<watch::Sender<Slot>>,
    quorum: Arc<watch::Sender<Quorum>>,
    term: Arc<AtomicU64>,
    /// Where the time of each answered request is recorded, in seconds.
    latency: Option<Histogram>,
    payload_threshold: PayloadThreshold,
}

impl fmt::Debug for ReplicaHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl ReplicaHandle {
    /// A handle, and the end the core drains. At most `capacity` requests wait between them.
    pub(crate) fn new(capacity: usize) -> (Self, mpsc::Receiver<Request>) {
        let (requests, incoming) = mpsc::channel(capacity);
        let handle = ReplicaHandle {
            requests,
            waiting: Budget::new(WAITING_BYTES_MAX).account(),
            applied: Arc::new(watch::Sender::new(Slot(0))),
            quorum: Arc::new(watch::Sender::new(Quorum::Reached)),
            term: Arc::new(AtomicU64::new(FIRST_TERM)),
            latency: None,
            payload_threshold: PayloadThreshold::default(),
        };
        (handle, incoming)
    }

    /// Makes this handle record how long requests take until they are answered.
    #[must_use]
    pub(crate) fn recording(self, latency: Histogram) -> Self {
        ReplicaHandle {
            latency: Some(latency),
            ..self
        }
    }

    /// How long values are that the replica wants as payloads at present, in bytes; `None` if it wants
    /// none.
    #[must_use]
    pub fn payload_min(&self) -> Option<usize> {
        self.payload_threshold.min()
    }

    /// The core's side of [`ReplicaHandle::payload_min`].
    #[must_use]
    pub fn payload_threshold(&self) -> PayloadThreshold {
        self.payload_threshold.clone()
    }

    /// Tells how far the replica has applied: the first slot it has not. Whoever shows what commands
    /// do as it happens waits here and then reads what is new. A slow reader misses steps in
    /// between, never the last one.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<Slot> {
        self.applied.subscribe()
    }

    /// The core's side of [`ReplicaHandle::applied`].
    pub fn publish_applied(&self, next: Slot) {
        self.applied.send_if_modified(|applied| {
            let moved = *applied != next;
            *applied = next;
            moved
        });
    }

    /// The term of the leader that the group names: it grows with each one. 1 before the first.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term.load(Ordering::Relaxed)
    }

    /// The core's side of [`ReplicaHandle::term`].
    pub fn publish_term(&self, term: u64) {
        self.term.store(term, Ordering::Relaxed);
    }

    /// Whether the replica reaches a quorum, as far as broken connections tell; and also as far as silence tells, while
    /// anybody watches ([`ReplicaHandle::watch_quorum`]).
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        *self.quorum.borrow() == Quorum::Reached
    }

    /// Tells whether the replica reaches a quorum, from now on. While a receiver is kept, peers that say nothing are
    /// asked for a sign of life.
    #[must_use]
    pub fn watch_quorum(&self) -> watch::Receiver<Quorum> {
        let quorum = self.quorum.subscribe();
        // A core that has no room for this is awake, and one that has ended is watched by nobody.
        let _ = self.requests.try_send(Request::Look);
        quorum
    }

    /// The core's side of [`ReplicaHandle::watch_quorum`]: whether anybody does.
    #[must_use]
    pub fn is_quorum_watched(&self) -> bool {
        self.quorum.receiver_count() > 0
    }

    /// The core's side of [`ReplicaHandle::watch_quorum`].
    pub fn publish_quorum(&self, quorum: Quorum) {
        self.quorum.send_if_modified(|before| {
            let changed = *before != quorum;
            *before = quorum;
            changed
        });
    }

    /// Applies a command and returns the application's result.
    ///
    /// # Errors
    /// Why there is none; [`Failure::Overloaded`] if too many requests, or too many bytes of commands, wait already.
    pub async fn write(&self, body: Bytes, principal: Principal) -> Result<Bytes, Failure> {
        self.write_with(body, Vec::new(), principal).await
    }

    /// Applies a command some of whose values are kept as payloads.
    pub async fn write_with(
        &self,
        body: Bytes,
        payloads: Vec<Payload>,
        principal: Principal,
    ) -> Result<Bytes, Failure> {
        let mut room = self.waiting.charge();
        let bulk = payloads.iter().map(|payload| payload.len as usize);
        room.add(body.len() + bulk.sum::<usize>())
            .map_err(|_| Failure::Overloaded)?;
        let (reply, answer) = oneshot::channel();
        self.enqueue(Request::Write {
            body,
            payloads,
            principal,
            room,
            reply,
        })?;
        self.wait(answer).await?
    }

    /// Gets the bytes of a payload that an answer named.
    pub async fn payload(
        &self,
        id: PayloadId,
        payload: Payload,
    ) -> Result<Result<Bytes, PayloadGone>, Failure> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Request::Payload { id, payload, reply })?;
        self.wait(answer).await?
    }

    /// Reads the state.
    pub(crate) async fn read_any(
        &self,
        query: AnyValue,
        consistency: Consistency,
    ) -> Result<AnyValue, Failure> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Request::Read {
            query,
            consistency,
            reply,
        })?;
        self.wait(answer).await?
    }

    /// How much time a countdown of the application has left on this replica; `None` if there is no
    /// such countdown.
    pub async fn remaining(&self, id: u64) -> Result<Option<Duration>, Failure> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Request::Remaining { id, reply })?;
        self.wait(answer).await
    }

    /// Changes the group; done once the change is decided.
    ///
    /// # Errors
    /// Why it was not proposed, did nothing, or what became of it is not known.
    pub async fn change(&self, change: GroupChange) -> Result<(), ChangeError> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Request::Change { change, reply })
            .map_err(ChangeError::Failed)?;
        self.wait(answer).await.map_err(ChangeError::Failed)?
    }

    /// Changes the group as [`ReplicaHandle::change`] does, and asks again for a while where it is too early for a
    /// change.
    ///
    /// # Errors
    /// See [`ReplicaHandle::change`].
    pub async fn change_soon(&self, change: GroupChange) -> Result<(), ChangeError> {
        let began = Instant::now();
        loop {
            let changed = self.change(change.clone()).await;
            if !matches!(changed, Err(ChangeError::NotYet(_))) || began.elapsed() > CHANGE_WAITS_MAX
            {
                return changed;
            }
            tokio::time::sleep(CHANGE_RETRY).await;
        }
    }

    /// Describes the replica.
    pub async fn status(&self) -> Result<Status, Failure> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Request::Status { reply })?;
        self.wait(answer).await
    }

    fn enqueue(&self, request: Request) -> Result<(), Failure> {
        self.requests
            .try_send(request)
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => Failure::Overloaded,
                mpsc::error::TrySendError::Closed(_) => Failure::Stopped,
            })
    }

    /// Waits for the core, which answers every request in time.
    async fn wait<T>(&self, answer: oneshot::Receiver<T>) -> Result<T, Failure> {
        let began = Instant::now();
        let answer = answer.await.map_err(|_| Failure::Stopping)?;
        if let Some(latency) = &self.latency {
            latency.record(began.elapsed());
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    /// Scenario: clients ask for a write of 1 MiB each and leave at once, while the core does something else.
    #[tokio::test]
    async fn commands_whose_clients_left_are_bounded_in_bytes_until_the_core_takes_them() {
        let (handle, mut requests) = ReplicaHandle::new(10_000);
        let body = Bytes::from(vec![0; 1 << 20]);
        let mut waiting = 0;
        loop {
            let mut write = pin!(handle.write(body.clone(), Principal::default()));
            let polled = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
            match polled {
                Poll::Pending => waiting += 1,
                Poll::Ready(refused) => break assert_eq!(refused, Err(Failure::Overloaded)),
            }
        }
        assert!(waiting << 20 <= WAITING_BYTES_MAX && waiting << 21 > WAITING_BYTES_MAX);
        drop(requests.recv().await);
        let mut room = handle.waiting.charge();
        assert_eq!(room.add(1 << 20), Ok(()));
        assert!(room.add(1 << 20).is_err());
    }
}
