//! Reading no more small frames at once than those whom they are for have taken.
//!
//! One task reads a connection; the requests on it are read by others, which run when that task has had its turn. Small
//! frames of data cost more memory than their bytes, so HTTP's library counts what those cost that nobody has taken, and
//! ends the connection (`ENHANCE_YOUR_CALM`, `too_many_data_frames`) where that is more than half of its window.
//! Its count includes frames whose readers had no turn yet. So a client that sends a hundred small messages at once, each
//! of which would be taken at once, would be closed.

use super::frames::Language;
use bytes::{Buf, Bytes};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// What small frames may cost in one turn, as the library counts: well below the least that it allows, which is 25,600.
const COST_MAX: usize = 12 << 10;

/// Counts the turns of a connection's task.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<AtomicUsize>);

impl Turns {
    /// The task is about to run.
    pub(super) fn begin(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn present(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// A connection that is read in turns.
pub(super) struct Paced<T> {
    inner: T,
    language: Language,
    turns: Turns,
    /// The turn in which it was read last.
    turn: usize,
    /// What the frames that were read in that turn cost.
    cost: usize,
    /// Bytes that came and are for a later turn.
    held: Bytes,
}

impl<T> Paced<T> {
    pub(super) fn new(inner: T, turns: Turns) -> Self {
        Paced {
            inner,
            language: Language::default(),
            turn: turns.present(),
            turns,
            cost: 0,
            held: Bytes::new(),
        }
    }

    /// How many of these bytes, which come next, are for this turn.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let mut count = 0;
        while count < bytes.len() && self.cost < COST_MAX {
            count += self.language.next(&bytes[count..]);
            self.cost += self.language.cost();
        }
        count
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Paced<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let turn = this.turns.present();
        if turn != this.turn {
            (this.turn, this.cost) = (turn, 0);
        }
        if this.cost >= COST_MAX {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !this.held.is_empty() {
            let held = this.held.clone();
            let count = this.pass(&held[..held.len().min(buf.remaining())]);
            buf.put_slice(&held[..count]);
            this.held.advance(count);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(context, buf))?;
        let count = this.pass(&buf.filled()[before..]);
        let for_later = &buf.filled()[before + count..];
        if !for_later.is_empty() {
            this.held = Bytes::copy_from_slice(for_later);
            buf.set_filled(before + count);
        }
        Poll::Ready(Ok(()))
    }
}

write_through!(Paced);

#[cfg(test)]
mod tests {
    use super::super::frames::PREFACE;
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::task::unconstrained;

    /// A frame of data with so many bytes.
    fn data(payload_bytes: usize, flags: u8) -> Vec<u8> {
        let mut frame = (payload_bytes as u32).to_be_bytes()[1..].to_vec();
        frame.extend([0, flags, 0, 0, 0, 1]);
        frame.resize(frame.len() + payload_bytes, 7);
        frame
    }

    /// The bytes that are read in the next turn.
    async fn turn(connection: &mut Paced<impl AsyncRead + Unpin>, buffer_bytes: usize) -> Vec<u8> {
        connection.turns.begin();
        let mut bytes = Vec::new();
        // The runtime has turns of its own, which are not meant here.
        unconstrained(poll_fn(|context| {
            loop {
                let mut space = vec![0; buffer_bytes];
                let mut buf = ReadBuf::new(&mut space);
                match Pin::new(&mut *connection).poll_read(context, &mut buf) {
                    Poll::Ready(read) => read.unwrap(),
                    Poll::Pending => return Poll::Ready(()),
                }
                if buf.filled().is_empty() {
                    return Poll::Ready(()); // The end.
                }
                bytes.extend(buf.filled());
            }
        }))
        .await;
        bytes
    }

    /// Scenario: a thousand messages of 30 bytes arrive at once, and a reader with buffers of several sizes.
    #[tokio::test]
    async fn each_turn_brings_a_part_of_many_small_frames_and_nothing_is_lost() {
        let sent = [PREFACE.to_vec(), data(30, 0).repeat(1000)].concat();
        for buffer_bytes in [1, 100, 8 << 10, 1 << 20] {
            let (mut client, server) = duplex(1 << 20);
            let mut server = Paced::new(server, Turns::default());
            client.write_all(&sent).await.unwrap();
            let mut read = Vec::new();
            let mut turns = 0;
            while read.len() < sent.len() {
                let bytes = turn(&mut server, buffer_bytes).await;
                assert!(bytes.len() / data(30, 0).len() * (256 - 30) <= COST_MAX + 256);
                read.extend(bytes);
                turns += 1;
            }
            assert!(read == sent && turns > 15, "{turns} turns");
        }
    }

    /// Scenario: what costs the library nothing: long frames, last frames of requests, another protocol.
    #[tokio::test]
    async fn everything_else_is_read_at_once() {
        let last = [PREFACE.to_vec(), data(30, 1).repeat(1000)].concat();
        let long = [PREFACE.to_vec(), data(300, 0).repeat(1000)].concat();
        for sent in [last, long, data(30, 0).repeat(1000)] {
            let (mut client, server) = duplex(1 << 20);
            client.write_all(&sent).await.unwrap();
            assert!(turn(&mut Paced::new(server, Turns::default()), 8 << 10).await == sent);
        }
    }

    #[tokio::test]
    async fn the_end_of_a_connection_comes_after_what_is_held() {
        let sent = [PREFACE.to_vec(), data(30, 0).repeat(1000)].concat();
        let (mut client, server) = duplex(1 << 20);
        client.write_all(&sent).await.unwrap();
        drop(client);
        let mut server = Paced::new(server, Turns::default());
        let mut read = Vec::new();
        while read.len() < sent.len() {
            read.extend(turn(&mut server, 8 << 10).await);
        }
        assert!(read == sent);
        assert_eq!(server.read_to_end(&mut read).await.unwrap(), 0);
    }
}
