//! What faces ask of a feed: replies to their own bodies, replies to reads, and RDBs.

use super::status::{FeedBoard, FeedStatus};
use bytes::Bytes;
use quorate_redis_commands::Origin;
use quorate_redis_effects::Rdb;
use quorate_redis_store as store;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Something that is asked of the thread.
pub(super) enum Request {
    /// Calls that change nothing, once so many bodies are carried out.
    Read {
        after: u64,
        request: store::Request,
        reply: oneshot::Sender<Bytes>,
    },
    /// An RDB with so many bodies at least.
    Rdb {
        after: u64,
        reply: oneshot::Sender<Arc<dyn Rdb>>,
    },
}

/// There is no reply: the feed ends, or a state from a peer has taken the place of the one that had it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoReply;

impl fmt::Display for NoReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server's reply is lost, and nobody knows it")
    }
}

impl std::error::Error for NoReply {}

/// Who waits for the replies to bodies of this process, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<BTreeMap<u64, oneshot::Sender<Bytes>>>);

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, oneshot::Sender<Bytes>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn answer(&self, number: u64, replies: Bytes) {
        let waiter = self.lock().remove(&number);
        if let Some(waiter) = waiter {
            // Its client may be gone.
            let _ = waiter.send(replies);
        }
    }

    /// Tells all that wait that there is no reply.
    pub(super) fn fail_all(&self) {
        self.lock().clear();
    }
}

/// The reply to a body that is about to be ordered.
#[derive(Debug)]
pub struct Awaited {
    /// What the body has to say of where it comes from.
    pub origin: Origin,
    reply: oneshot::Receiver<Bytes>,
    waiters: Arc<Waiters>,
}

impl Awaited {
    /// Waits until the replica's own server has carried the body out.
    ///
    /// # Errors
    /// When there is no reply any more.
    pub async fn reply(mut self) -> Result<Bytes, NoReply> {
        (&mut self.reply).await.map_err(|_| NoReply)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.waiters.lock().remove(&self.origin.number);
    }
}

/// A feed as faces see it.
#[derive(Clone, Debug)]
pub struct FeedHandle {
    boot: u64,
    next: Arc<AtomicU64>,
    waiters: Arc<Waiters>,
    requests: mpsc::UnboundedSender<Request>,
    board: Arc<FeedBoard>,
}

impl FeedHandle {
    pub(super) fn new(
        boot: u64,
        requests: mpsc::UnboundedSender<Request>,
        board: Arc<FeedBoard>,
    ) -> FeedHandle {
        FeedHandle {
            boot,
            next: Arc::new(AtomicU64::new(1)),
            waiters: Arc::default(),
            requests,
            board,
        }
    }

    pub(super) fn waiters(&self) -> Arc<Waiters> {
        Arc::clone(&self.waiters)
    }

    /// Waits from now on for the replies to a body that is to be ordered.
    #[must_use]
    pub fn expect(&self) -> Awaited {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        self.waiters.lock().insert(number, sender);
        Awaited {
            origin: Origin {
                boot: self.boot,
                number,
            },
            reply,
            waiters: Arc::clone(&self.waiters),
        }
    }

    /// The replies to calls that change nothing, once so many bodies are carried out.
    ///
    /// # Errors
    /// When the feed ends before.
    pub async fn read(&self, after: u64, request: store::Request) -> Result<Bytes, NoReply> {
        let (reply, replied) = oneshot::channel();
        let asked = Request::Read {
            after,
            request,
            reply,
        };
        self.requests.send(asked).map_err(|_| NoReply)?;
        replied.await.map_err(|_| NoReply)
    }

    /// An RDB with so many bodies at least.
    ///
    /// # Errors
    /// When the feed ends before.
    pub async fn rdb(&self, after: u64) -> Result<Arc<dyn Rdb>, NoReply> {
        let (reply, replied) = oneshot::channel();
        let asked = Request::Rdb { after, reply };
        self.requests.send(asked).map_err(|_| NoReply)?;
        replied.await.map_err(|_| NoReply)
    }

    /// What the feed does.
    #[must_use]
    pub fn status(&self) -> FeedStatus {
        self.board.status()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_wait_any_more_is_forgotten() {
        let (requests, _asked) = mpsc::unbounded_channel();
        let handle = FeedHandle::new(7, requests, Arc::default());
        let [one, two] = [(); 2].map(|()| handle.expect());
        assert_eq!(
            (one.origin.boot, one.origin.number + 1),
            (7, two.origin.number)
        );
        drop(one);
        assert_eq!(handle.waiters.lock().len(), 1);
        handle.waiters.answer(two.origin.number, ":1\r\n".into());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        assert_eq!(runtime.block_on(two.reply()), Ok(":1\r\n".into()));
        let three = handle.expect();
        handle.waiters.fail_all();
        assert_eq!(runtime.block_on(three.reply()), Err(NoReply));
    }
}
