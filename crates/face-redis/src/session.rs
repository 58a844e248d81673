//! What is known of a connection between two requests.

use crate::access::User;
use crate::blocked::Blocked;
use crate::clients::{Client, Spoken};
use crate::gathered::Gathered;
use crate::limits::{NAME_BYTES, REPLIES_BYTES_MAX};
use crate::server::Server;
use crate::subscriber::Subscriber;
use quorate_redis_store::{UserTable, Watched};
use quorate_resp::{ReplyWriter, Resp};
use quorate_server::Charge;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

/// What carries the bytes of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection from its first request to its last.
pub(crate) struct Session {
    pub(crate) stream: Box<dyn Stream>,
    /// What the connection keeps of requests and replies.
    pub(crate) charge: Charge,
    /// Bytes that are kept of requests.
    pub(crate) input_bytes: usize,
    pub(crate) server: Arc<Server>,
    pub(crate) client: Arc<Client>,
    /// The user who asks; `None` before the client has said who that is.
    pub(crate) user: Option<Arc<User>>,
    /// Whether that user is one of the replica's own, since the cluster had none.
    pub(crate) is_of_replica: bool,
    /// The users of the cluster, as far as the session has looked at them.
    pub(crate) users: watch::Receiver<Option<Arc<UserTable>>>,
    pub(crate) spoken: Spoken,
    /// Replies that are ready.
    pub(crate) out: ReplyWriter,
    /// Calls that have yet to go to the store.
    pub(crate) gathered: Gathered,
    pub(crate) transaction: Option<Transaction>,
    /// Keys that the next transaction depends on.
    pub(crate) watched: Vec<Watched>,
    pub(crate) subscriber: Subscriber,
    /// The request whose client waits for an element.
    pub(crate) blocked: Option<Blocked>,
    pub(crate) replies: ReplyMode,
    /// Whether reads may be answered from this replica's state as it is.
    pub(crate) may_be_stale: bool,
}

/// Calls between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) gathered: Gathered,
    /// Whether a call was refused, so that none is carried out.
    pub(crate) is_broken: bool,
}

/// The replies that a client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReplyMode {
    /// All replies are sent.
    On,
    /// No replies are sent.
    Off,
    /// The reply to the next request is not sent.
    SkipNext,
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closing {
    /// The replies that are ready are sent before.
    AfterReplies,
    /// Nothing more is sent: nobody knows what became of a request.
    Now,
}

/// What a request came to: the connection goes on, or is to end.
pub(crate) type Step = Result<(), Closing>;

/// What I/O comes to that takes no longer than so. No clock is read for what is done at once.
async fn within<T>(most: Duration, io: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let mut io = pin!(io);
    match poll_fn(|context| Poll::Ready(io.as_mut().poll(context))).await {
        Poll::Ready(done) => done,
        Poll::Pending => timeout(most, io)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
    }
}

impl Session {
    /// The session of a connection that has just begun.
    pub(crate) fn new(
        server: Arc<Server>,
        client: Arc<Client>,
        stream: Box<dyn Stream>,
        charge: Charge,
    ) -> Session {
        let subscriptions = Arc::clone(&server.subscriptions);
        let subscriber = Subscriber::new(client.id, subscriptions, server.limits.mailbox_bytes_max);
        let mut session = Session {
            stream,
            charge,
            input_bytes: 0,
            user: None,
            is_of_replica: true,
            users: server.subscriptions.users.subscribe(),
            spoken: Spoken::default(),
            out: ReplyWriter::new(Resp::Two),
            gathered: Gathered::default(),
            transaction: None,
            watched: Vec::new(),
            subscriber,
            blocked: None,
            replies: ReplyMode::On,
            may_be_stale: false,
            server,
            client,
        };
        session.begin_anew();
        session
    }

    /// Speaks another version of the protocol from now on.
    pub(crate) fn set_resp(&mut self, resp: Resp) {
        self.spoken.resp = resp;
        self.out.set_resp(resp);
        self.subscriber.mailbox.set_resp(resp);
    }

    /// Bytes that watched keys take.
    pub(crate) fn watched_bytes(&self) -> usize {
        self.watched
            .iter()
            .map(|watched| watched.key.len() + NAME_BYTES)
            .sum()
    }

    /// Bytes that are kept of requests, beside replies: those that are not complete, a transaction, keys, channels.
    pub(crate) fn held_bytes(&self) -> usize {
        let queued = self.transaction.as_ref();
        let queued = queued.map_or(0, |transaction| transaction.gathered.bytes());
        let blocked = self.blocked.as_ref().map_or(0, Blocked::bytes);
        self.input_bytes + queued + blocked + self.watched_bytes() + self.subscriber.bytes()
    }

    /// Sends the replies that are ready, and waits until the client has taken them.
    pub(crate) async fn write(&mut self) -> io::Result<()> {
        self.charge
            .resize_anyway(self.held_bytes() + self.out.len());
        if self.out.is_empty() {
            return Ok(());
        }
        let resp = self.out.resp();
        let mut replies = std::mem::replace(&mut self.out, ReplyWriter::new(resp)).into_vec();
        let stall_max = self.server.limits.stall_max;
        let mut rest = &replies[..];
        while !rest.is_empty() {
            match within(stall_max, self.stream.write(rest)).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => rest = &rest[written..],
            }
        }
        within(stall_max, self.stream.flush()).await?;
        if replies.capacity() <= REPLIES_BYTES_MAX {
            replies.clear();
            self.out = ReplyWriter::behind(replies, resp);
        }
        self.charge.resize_anyway(self.held_bytes());
        Ok(())
    }

    /// Sends replies if they are many; nothing is kept of what a client does not want to hear.
    pub(crate) async fn write_many(&mut self) -> Step {
        if self.out.len() < REPLIES_BYTES_MAX || self.replies != ReplyMode::On {
            return Ok(());
        }
        self.write().await.map_err(|_| Closing::Now)
    }

    /// Tells the client an error.
    pub(crate) fn error(&mut self, text: &str) {
        self.server.counters.errors.fetch_add(1, Relaxed);
        self.out.error(text);
    }

    /// Whether the client gets nothing but messages of channels, as in the second version of the protocol.
    pub(crate) fn is_only_subscriber(&self) -> bool {
        self.spoken.resp == Resp::Two && self.subscriber.count() > 0
    }

    /// Shows others what the connection does.
    pub(crate) fn show(&mut self) {
        let queued = self.transaction.as_ref();
        self.spoken.queued = queued.map(|transaction| transaction.gathered.calls.len());
        self.spoken.is_blocked = self.blocked.is_some();
        self.spoken.subscriptions = self.subscriber.counts();
        self.client.show(self.spoken.clone());
    }
}
