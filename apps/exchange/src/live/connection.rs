//! A connection: messages that come, and messages that wait to be sent.

use crate::wire::WireError;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// How many messages wait to be sent before the other end counts as too slow.
const WAITING_MAX: usize = 16_384;
/// How many messages are sent at once.
const BATCH_MAX: usize = 256;
/// How many bytes are read at once.
const READ_BYTES: usize = 16 << 10;

/// Where messages for the other end of a connection go. The connection ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(mpsc::Sender<Vec<u8>>);

/// The end of an [`Outbox`] that a connection sends from.
pub(crate) type Outgoing = mpsc::Receiver<Vec<u8>>;

impl Outbox {
    /// An outbox, and the end that [`run`] sends from.
    pub(crate) fn new() -> (Outbox, Outgoing) {
        let (outbox, outgoing) = mpsc::channel(WAITING_MAX);
        (Outbox(outbox), outgoing)
    }

    /// Sends a message; false where the connection is gone, or so slow that it should be.
    pub(crate) fn send(&self, bytes: Vec<u8>) -> bool {
        self.0.try_send(bytes).is_ok()
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
    tokio::select! {
        received = receive(read, take, events, wrap) => received,
        sent = send(write, outgoing) => sent,
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

pub(crate) async fn send(mut write: OwnedWriteHalf, mut outgoing: Outgoing) -> io::Result<()> {
    let mut messages = Vec::with_capacity(BATCH_MAX);
    let mut bytes = Vec::new();
    while outgoing.recv_many(&mut messages, BATCH_MAX).await > 0 {
        bytes.clear();
        messages.drain(..).for_each(|one| bytes.extend(one));
        write.write_all(&bytes).await?;
    }
    Ok(())
}
