//! What faces ask of a feed: replies to their own bodies, replies to reads, and RDBs.

use super::status::{FeedBoard, FeedStatus};
use super::waiting::{Room, Waiting};
use bytes::Bytes;
use quorate_redis_commands::{Origin, Shared};
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
        room: Room,
        reply: oneshot::Sender<Bytes>,
    },
    /// An RDB with so many bodies at least.
    Rdb {
        after: u64,
        reply: oneshot::Sender<Arc<dyn Rdb>>,
    },
}

/// Why there is no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoReply {
    /// The feed ends, or a state from a peer has taken the place of the one that had the reply.
    Lost,
    /// Too much waits for the server, and nothing was asked.
    Full,
}

impl fmt::Display for NoReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoReply::Lost => "the server's reply is lost, and nobody knows it",
            NoReply::Full => "too much waits for the server",
        })
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
    _room: Room,
}

impl Awaited {
    /// Waits until the replica's own server has carried the body out.
    ///
    /// # Errors
    /// When there is no reply any more.
    pub async fn reply(mut self) -> Result<Bytes, NoReply> {
        (&mut self.reply).await.map_err(|_| NoReply::Lost)
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
    waiting: Arc<Waiting>,
    requests: mpsc::UnboundedSender<Request>,
    shared: Arc<Shared>,
    board: Arc<FeedBoard>,
}

impl FeedHandle {
    pub(super) fn new(
        boot: u64,
        requests: mpsc::UnboundedSender<Request>,
        (shared, board): (Arc<Shared>, Arc<FeedBoard>),
        waiting: Arc<Waiting>,
    ) -> FeedHandle {
        FeedHandle {
            boot,
            next: Arc::new(AtomicU64::new(1)),
            waiters: Arc::default(),
            waiting,
            requests,
            shared,
            board,
        }
    }

    pub(super) fn waiters(&self) -> Arc<Waiters> {
        Arc::clone(&self.waiters)
    }

    /// Waits from now on for the replies to a request that is to be ordered.
    ///
    /// # Errors
    /// When too much waits for the server: the request is not to be ordered.
    pub fn expect(&self, request: &store::Request) -> Result<Awaited, NoReply> {
        let room = self.waiting.room(request).ok_or(NoReply::Full)?;
        let limits = &self.waiting.limits;
        // All bodies since the last RDB are more than those to be carried out, and are counted sooner.
        if !limits.takes_writes(self.shared.history_bytes())
            && !limits.takes_writes(self.behind_bytes())
        {
            return Err(NoReply::Full);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        self.waiters.lock().insert(number, sender);
        Ok(Awaited {
            origin: Origin {
                boot: self.boot,
                number,
            },
            reply,
            waiters: Arc::clone(&self.waiters),
            _room: room,
        })
    }

    /// Bytes of the bodies that the server has yet to carry out.
    fn behind_bytes(&self) -> u64 {
        self.shared.bytes_from(self.board.status().carried_out)
    }

    /// The replies to calls that change nothing, once so many bodies are carried out.
    ///
    /// # Errors
    /// When the feed ends before, or too much waits for the server.
    pub async fn read(&self, after: u64, request: store::Request) -> Result<Bytes, NoReply> {
        let (reply, replied) = oneshot::channel();
        let room = self.waiting.room(&request).ok_or(NoReply::Full)?;
        let asked = Request::Read {
            after,
            request,
            room,
            reply,
        };
        self.requests.send(asked).map_err(|_| NoReply::Lost)?;
        replied.await.map_err(|_| NoReply::Lost)
    }

    /// An RDB with so many bodies at least.
    ///
    /// # Errors
    /// When the feed ends before.
    pub async fn rdb(&self, after: u64) -> Result<Arc<dyn Rdb>, NoReply> {
        let (reply, replied) = oneshot::channel();
        let asked = Request::Rdb { after, reply };
        self.requests.send(asked).map_err(|_| NoReply::Lost)?;
        replied.await.map_err(|_| NoReply::Lost)
    }

    /// What the feed does.
    #[must_use]
    pub fn status(&self) -> FeedStatus {
        FeedStatus {
            behind_bytes: self.behind_bytes(),
            ..self.board.status()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::waiting::WaitLimits;
    use super::*;
    use quorate_core::{Application, At};
    use quorate_redis_commands::{Commands, body};
    use quorate_redis_effects::MemoryFiles;

    /// A handle on a feed that does nothing, where clients have so much memory.
    fn handle(client_memory: usize) -> FeedHandle {
        let (requests, _asked) = mpsc::unbounded_channel();
        let shared = Shared::new(Arc::new(MemoryFiles), Box::new(|| {}));
        let waiting = Waiting::new(WaitLimits::of(client_memory));
        FeedHandle::new(7, requests, (shared, Arc::default()), waiting)
    }

    #[test]
    fn who_does_not_wait_any_more_is_forgotten() {
        let handle = handle(1 << 20);
        let request = store::Request::default();
        let expect = || handle.expect(&request).expect("there is room");
        let [one, two] = [(); 2].map(|()| expect());
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
        let three = expect();
        handle.waiters.fail_all();
        assert_eq!(runtime.block_on(three.reply()), Err(NoReply::Lost));
    }

    /// Scenario: a server carries nothing out. Requests wait for it until there is no room, and bodies of other
    /// replicas come all the same.
    #[test]
    fn what_a_server_does_not_do_keeps_no_more_from_waiting_than_there_is_room_for() {
        let handle = handle(64 << 10);
        let long = store::Request {
            calls: vec![store::Call {
                args: vec!["INCR".into(), "x".repeat(10 << 10).into()],
            }],
            ..store::Request::default()
        };
        let mut expected: Vec<_> = (0..4).map(|_| handle.expect(&long)).collect();
        assert!(matches!(expected.pop(), Some(Err(NoReply::Full))));
        expected.clear();
        let mut commands = Commands::new(Arc::clone(&handle.shared));
        for number in 0..10 {
            let body = body(Origin { boot: 9, number }, &long);
            commands.apply(At::default(), &body, &[]);
        }
        assert!(handle.status().behind_bytes > 100 << 10);
        assert!(matches!(handle.expect(&long), Err(NoReply::Full)));
        handle.board.change(|status| status.carried_out = 9);
        assert!(handle.expect(&long).is_ok());
    }
}
