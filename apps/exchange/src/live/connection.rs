//! A connection: messages that come, and messages that wait to be sent.

use crate::wire::WireError;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};

/// How many messages wait to be sent before the other end counts as too slow.
pub(crate) const WAITING_MAX: usize = 16_384;
/// How many bytes wait to be sent before the other end counts as too slow. One message may be longer.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// How long the other end may take no byte before its connection ends.
const STALL_MAX: Duration = Duration::from_secs(5);
/// How many messages are sent at once.
const BATCH_MAX: usize = 256;
/// How many bytes are read at once.
const READ_BYTES: usize = 16 << 10;

/// Where messages for the other end of a connection go. The connection ends when the last clone is dropped, or when
/// more waits than may.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    messages: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Waiting>,
}

/// The end of an [`Outbox`] that a connection sends from.
#[derive(Debug)]
pub(crate) struct Outgoing {
    messages: mpsc::Receiver<Vec<u8>>,
    waiting: Arc<Waiting>,
}

/// What both ends of an outbox know.
#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    is_too_slow: Notify,
}

impl Outbox {
    /// An outbox, and the end that [`run`] sends from.
    pub(crate) fn new() -> (Outbox, Outgoing) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let waiting = Arc::new(Waiting::default());
        let outbox = Outbox {
            messages: sender,
            waiting: Arc::clone(&waiting),
        };
        let outgoing = Outgoing {
            messages: receiver,
            waiting,
        };
        (outbox, outgoing)
    }

    /// Sends a message; false where the connection is gone, or so slow that it should be.
    pub(crate) fn send(&self, bytes: Vec<u8>) -> bool {
        let length = bytes.len();
        let before = self.waiting.bytes.fetch_add(length, Ordering::Relaxed);
        let has_room = before == 0 || before.saturating_add(length) <= WAITING_BYTES_MAX;
        let is_sent = has_room && self.messages.try_send(bytes).is_ok();
        if !is_sent {
            self.waiting.bytes.fetch_sub(length, Ordering::Relaxed);
            self.waiting.is_too_slow.notify_one();
        }
        is_sent
    }
}

#[cfg(test)]
impl Outgoing {
    /// The next message that waits to be sent.
    pub(crate) fn try_next(&mut self) -> Option<Vec<u8>> {
        self.messages.try_recv().ok()
    }
}

/// Runs a connection until one of its ends has enough, or sends what is no message.
pub(crate) async fn run<M, E>(
    stream: TcpStream,
    outgoing: Outgoing,
    take: impl Fn(&mut Vec<u8>) -> Result<Option<M>, WireError>,
    events: &mpsc::Sender<E>,
    wrap: impl Fn(M) -> E,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    let waiting = Arc::clone(&outgoing.waiting);
    tokio::select! {
        received = receive(read, take, events, wrap) => received,
        sent = send(write, outgoing) => sent,
        () = waiting.is_too_slow.notified() => Err(io::Error::other("the other end is too slow")),
    }
}

async fn receive<M, E>(
    mut read: OwnedReadHalf,
    take: impl Fn(&mut Vec<u8>) -> Result<Option<M>, WireError>,
    events: &mpsc::Sender<E>,
    wrap: impl Fn(M) -> E,
) -> io::Result<()> {
    let mut received = Vec::with_capacity(READ_BYTES);
    loop {
        if read.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        while let Some(message) = take(&mut received).map_err(io::Error::other)? {
            if events.send(wrap(message)).await.is_err() {
                return Ok(());
            }
        }
        received.reserve(READ_BYTES);
    }
}

async fn send(mut write: OwnedWriteHalf, mut outgoing: Outgoing) -> io::Result<()> {
    let mut messages = Vec::with_capacity(BATCH_MAX);
    let mut bytes = Vec::new();
    while outgoing.messages.recv_many(&mut messages, BATCH_MAX).await > 0 {
        bytes.clear();
        messages.drain(..).for_each(|one| bytes.extend(one));
        write_all(&mut write, &bytes).await?;
        (outgoing.waiting.bytes).fetch_sub(bytes.len(), Ordering::Relaxed);
    }
    Ok(())
}

/// Writes to an end that takes at least a byte now and then.
async fn write_all(write: &mut OwnedWriteHalf, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = tokio::time::timeout(STALL_MAX, write.write(bytes)).await;
        match written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::ClientMessage;
    use tokio::net::TcpListener;

    /// A connection whose other end, which is returned, reads nothing; and what it comes to.
    async fn connection() -> (TcpStream, Outbox, tokio::task::JoinHandle<io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let other = TcpStream::connect(address).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (outbox, outgoing) = Outbox::new();
        let task = tokio::spawn(async move {
            let (events, _heard) = mpsc::channel(1);
            run(stream, outgoing, ClientMessage::take, &events, drop).await
        });
        (other, outbox, task)
    }

    #[tokio::test]
    async fn bytes_that_wait_are_bounded_and_a_slow_connection_ends() {
        let (_other, outbox, task) = connection().await;
        let message = vec![0; 1 << 20];
        let mut sent = 0;
        while outbox.send(message.clone()) {
            sent += message.len();
            assert!(sent <= WAITING_BYTES_MAX);
        }
        assert_eq!(sent, WAITING_BYTES_MAX);
        assert!(task.await.unwrap().is_err());
    }

    #[tokio::test]
    async fn a_message_may_be_longer_than_what_may_wait() {
        let (_other, outbox, _task) = connection().await;
        assert!(outbox.send(vec![0; WAITING_BYTES_MAX + 1]));
        assert!(!outbox.send(vec![0]));
    }

    /// Scenario: the last outbox is gone, and what was left in it cannot be sent. The clock is virtual.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_takes_nothing_ends_although_nobody_sends_more() {
        let (_other, outbox, task) = connection().await;
        assert!(outbox.send(vec![0; WAITING_BYTES_MAX]));
        drop(outbox);
        let ended = task.await.unwrap().unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
    }
}
