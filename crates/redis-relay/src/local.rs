//! A client of the own server: its bytes go there at once, and the answers leave when they may.

use crate::hub::{Counted, Hub, Place, Waiting};
use crate::limits::{CLIENT_HELD_BYTES_MAX, READ_BYTES, RelayLimits};
use bytes::{Bytes, BytesMut};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

/// Answers of one client, in order.
struct Held {
    hub: Rc<Hub>,
    /// Wakes the client when some of them may leave, or came.
    woken: Rc<Notify>,
    answers: RefCell<Answers>,
}

#[derive(Default)]
struct Answers {
    /// Labels, bytes, and when they came.
    held: VecDeque<(u64, Bytes, Instant)>,
    bytes: usize,
    /// Whether the server has said its last.
    is_over: bool,
}

impl Held {
    fn push(&self, bytes: Bytes) {
        let label = self.hub.hold(bytes.len(), &self.woken);
        let mut answers = self.answers.borrow_mut();
        answers.bytes += bytes.len();
        answers.held.push_back((label, bytes, Instant::now()));
    }

    /// The next answers that may leave.
    fn pop(&self) -> Option<Bytes> {
        let mut answers = self.answers.borrow_mut();
        let (label, ..) = answers.held.front()?;
        if *label > self.hub.released() {
            return None;
        }
        let (_, bytes, _) = answers.held.pop_front()?;
        answers.bytes -= bytes.len();
        self.hub.let_go(bytes.len());
        Some(bytes)
    }

    fn is_full(&self) -> bool {
        self.answers.borrow().bytes >= CLIENT_HELD_BYTES_MAX
    }

    fn is_over(&self) -> bool {
        let answers = self.answers.borrow();
        answers.is_over && answers.held.is_empty()
    }

    /// Since when the oldest answer waits.
    fn oldest(&self) -> Option<Instant> {
        let answers = self.answers.borrow();
        answers.held.front().map(|(.., since)| *since)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.hub.let_go(self.answers.get_mut().bytes);
    }
}

/// A client's connection to the own server.
pub(crate) struct Local {
    pub(crate) hub: Rc<Hub>,
    pub(crate) limits: RelayLimits,
    pub(crate) server: UnixStream,
    /// The place it was found at.
    pub(crate) place: Place,
    pub(crate) places: watch::Receiver<Place>,
    pub(crate) served: Counted,
}

impl Local {
    /// Relays until one side ends, or clients are served elsewhere; `first` are bytes that came already.
    pub(crate) async fn relay(
        self,
        client: impl AsyncRead + AsyncWrite + Unpin,
        first: BytesMut,
    ) -> io::Result<()> {
        let Local {
            hub,
            limits,
            server,
            place,
            mut places,
            served,
        } = self;
        let waiting = Waiting::new(&hub);
        let held = Held {
            hub: Rc::clone(&hub),
            woken: Rc::new(Notify::new()),
            answers: RefCell::default(),
        };
        // Freed for others to read between awaits: all is on one thread.
        let space = Notify::new();
        let (from_client, to_client) = tokio::io::split(client);
        let (from_server, to_server) = server.into_split();
        let asking = ask(&hub, &waiting, from_client, to_server, first);
        let collecting = collect(&held, &space, from_server);
        let telling = tell(&held, &space, &waiting, to_client, limits);
        // Whoever ends in order leaves the others to finish: a client may close its half and read on.
        let talk = async { tokio::try_join!(asking, collecting, telling).map(drop) };
        let ended = tokio::select! {
            biased;
            _ = places.wait_for(|now| *now != place) => Ok(()),
            ended = talk => ended,
        };
        drop(served);
        ended
    }
}

/// Passes a client's bytes on to the server.
async fn ask(
    hub: &Rc<Hub>,
    waiting: &Waiting,
    mut client: impl AsyncRead + Unpin,
    mut server: OwnedWriteHalf,
    first: BytesMut,
) -> io::Result<()> {
    let mut paused = hub.watch_paused();
    let mut buffer = first;
    loop {
        if buffer.is_empty() {
            // An error means that the hub is gone, and with it everything.
            let _ = paused.wait_for(|paused| !*paused).await;
            buffer.reserve(READ_BYTES);
            if client.read_buf(&mut buffer).await? == 0 {
                return server.shutdown().await;
            }
        }
        waiting.set(true);
        match server.write_all_buf(&mut buffer).await {
            // It says why, and what it says is read.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
}

/// Takes the server's answers as they come.
async fn collect(held: &Held, space: &Notify, mut server: OwnedReadHalf) -> io::Result<()> {
    loop {
        while held.is_full() {
            space.notified().await;
        }
        let mut buffer = BytesMut::with_capacity(READ_BYTES / 4);
        let read = server.read_buf(&mut buffer).await;
        match read {
            Ok(1..) => held.push(buffer.freeze()),
            Ok(0) | Err(_) => {
                held.answers.borrow_mut().is_over = true;
                held.woken.notify_one();
                return Ok(());
            }
        }
    }
}

/// Gives the client the answers that may leave.
async fn tell(
    held: &Held,
    space: &Notify,
    waiting: &Waiting,
    mut client: impl AsyncWrite + Unpin,
    limits: RelayLimits,
) -> io::Result<()> {
    loop {
        let mut wrote = false;
        while let Some(bytes) = held.pop() {
            space.notify_one();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let late = |_| Err(io::ErrorKind::TimedOut.into());
                let written = timeout(limits.stall_max, client.write(rest)).await;
                match written.unwrap_or_else(late)? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    written => rest = &rest[written..],
                }
            }
            wrote = true;
        }
        if wrote {
            client.flush().await?;
            waiting.set(held.oldest().is_some());
        }
        if held.is_over() {
            // The end of the server's answers is the end of the connection, whatever the client still sends.
            client.shutdown().await?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match held.oldest() {
            None => held.woken.notified().await,
            // Without a proof nobody knows what became of the requests.
            Some(since) => tokio::select! {
                () = held.woken.notified() => {}
                () = sleep_until(since + limits.answer_max) => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            },
        }
    }
}
