//! One write for all that a connection says in one turn.
//!
//! HTTP's library writes whenever it has a frame that it does not copy, or nothing more to do: a short answer would be
//! two writes, its head and body in one and its end in another. Here what is short is copied, and leaves when the
//! connection's task has had its turn. What is long goes at once, behind what was said before it.
//!
//! Acknowledgements of pings wait longer where they follow answers ([`Pongs`]).

use super::pongs::{Outlook, Pongs, Seen};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that are gathered; a write that goes beyond is passed on at once.
const GATHERED_BYTES_MAX: usize = 16 << 10;
/// The room for gathered bytes that a connection keeps from turn to turn, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 10;

/// A connection whose writes are gathered during turns.
pub(super) struct Gathered<T>(Arc<Mutex<Outgoing<T>>>);

/// The end of a [`Gathered`] connection that says when turns begin and end.
pub(super) struct TurnEnds<T>(Arc<Mutex<Outgoing<T>>>);

struct Outgoing<T> {
    inner: T,
    is_turn: bool,
    /// What was said and not written yet. The first `written` bytes are.
    gathered: Vec<u8>,
    written: usize,
    outlook: Outlook,
    pongs: Arc<Pongs>,
    /// A write at the end of a turn failed; whoever writes or reads next is told.
    failure: Option<io::Error>,
}

impl<T> Gathered<T> {
    /// A connection outside of any turn, and the end that begins them.
    pub(super) fn new(inner: T, pongs: Arc<Pongs>) -> (Gathered<T>, TurnEnds<T>) {
        let outgoing = Arc::new(Mutex::new(Outgoing {
            inner,
            is_turn: false,
            gathered: Vec::new(),
            written: 0,
            outlook: Outlook::default(),
            pongs,
            failure: None,
        }));
        (Gathered(Arc::clone(&outgoing)), TurnEnds(outgoing))
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: AsyncWrite + Unpin> TurnEnds<T> {
    /// Has the connection's task run one turn, and writes what was said in it.
    pub(super) fn turn<R>(
        &self,
        context: &mut Context<'_>,
        run: impl FnOnce(&mut Context<'_>) -> R,
    ) -> R {
        self.lock().is_turn = true;
        let result = run(context);
        let mut outgoing = self.lock();
        outgoing.is_turn = false;
        outgoing.outlook_ends(context);
        if let Poll::Ready(Err(error)) = outgoing.poll_all(context) {
            outgoing.failure = Some(error);
            context.waker().wake_by_ref();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: AsyncWrite + Unpin> Outgoing<T> {
    /// Takes bytes that are short, unless they do not fit.
    fn gather(&mut self, bufs: &[IoSlice<'_>]) -> Option<usize> {
        let bytes: usize = bufs.iter().map(|buf| buf.len()).sum();
        if !self.is_turn || self.gathered.len() + bytes > GATHERED_BYTES_MAX {
            return None;
        }
        for buf in bufs {
            let begin = self.gathered.len();
            self.gathered.extend_from_slice(buf);
            self.look(begin);
        }
        Some(bytes)
    }

    /// Looks at what was gathered from `begin` on, and takes out an acknowledgement that is to wait.
    fn look(&mut self, begin: usize) {
        let mut at = begin;
        while at < self.gathered.len() {
            match self.outlook.next(&self.gathered[at..]) {
                Seen::Bytes(count) => at += count,
                Seen::Pong(pong) => {
                    let end = at + pong.len();
                    match self.outlook.hold(pong, &self.pongs) {
                        None => drop(self.gathered.drain(at..end)),
                        // Two are never held: the first one goes before the second.
                        Some(first) => {
                            let count = first.len();
                            self.gathered.splice(at..at, first);
                            at = end + count;
                        }
                    }
                }
            }
        }
    }

    /// What is held may be due, or is to be waited for.
    fn outlook_ends(&mut self, context: &Context<'_>) {
        if let Some(pong) =
            self.outlook
                .due(!self.gathered.is_empty(), &self.pongs, context.waker())
        {
            self.gathered.extend_from_slice(&pong);
        }
    }

    /// Writes what was gathered.
    fn poll_gathered(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.gathered.len() {
            let rest = &self.gathered[self.written..];
            match ready!(Pin::new(&mut self.inner).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        self.written = 0;
        match self.gathered.capacity() {
            ..=KEPT_BYTES_MAX => self.gathered.clear(),
            _ => self.gathered = Vec::new(),
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what was gathered, and has it leave.
    fn poll_all(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_gathered(context))?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn fail(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathered<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut outgoing = self.lock();
        outgoing.fail()?;
        Pin::new(&mut outgoing.inner).poll_read(context, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Gathered<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut outgoing = self.lock();
        outgoing.fail()?;
        if let Some(bytes) = outgoing.gather(bufs) {
            return Poll::Ready(Ok(bytes));
        }
        ready!(outgoing.poll_gathered(context))?;
        if let Some(bytes) = outgoing.gather(bufs) {
            return Poll::Ready(Ok(bytes));
        }
        let count = ready!(Pin::new(&mut outgoing.inner).poll_write_vectored(context, bufs))?;
        outgoing.outlook.skip(bufs, count);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut outgoing = self.lock();
        outgoing.fail()?;
        match outgoing.is_turn {
            true => Poll::Ready(Ok(())),
            false => outgoing.poll_all(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut outgoing = self.lock();
        outgoing.fail()?;
        ready!(outgoing.poll_gathered(context))?;
        Pin::new(&mut outgoing.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;
    use tokio::time::timeout;

    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    const PATIENCE: Duration = Duration::from_secs(20);

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags, 0, 0, 0, 0]);
        frame.extend(payload);
        frame
    }

    fn data(bytes: usize) -> Vec<u8> {
        frame(0, 0, &vec![7; bytes])
    }

    fn pong(number: u8) -> Vec<u8> {
        frame(6, 1, &[number; 8])
    }

    /// What a connection wrote, each write apart; it takes so many bytes at a time.
    struct Written {
        writes: Vec<Vec<u8>>,
        bytes_max: usize,
    }

    impl AsyncWrite for Written {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = buf.len().min(self.bytes_max);
            self.writes.push(buf[..count].to_vec());
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    struct Connection {
        writer: Gathered<Written>,
        ends: TurnEnds<Written>,
    }

    impl Connection {
        fn new(bytes_max: usize) -> Connection {
            let written = Written {
                writes: Vec::new(),
                bytes_max,
            };
            let (writer, ends) = Gathered::new(written, Arc::default());
            Connection { writer, ends }
        }

        /// Says this in one turn, each part in a write with a flush behind it.
        async fn say(&mut self, parts: &[&[u8]]) {
            let writer = &mut self.writer;
            let ends = &self.ends;
            poll_fn(|context| {
                ends.turn(context, |context| {
                    for part in parts {
                        let mut saying = std::pin::pin!(async {
                            writer.write_all(part).await.unwrap();
                            writer.flush().await.unwrap();
                        });
                        assert!(saying.as_mut().poll(context).is_ready());
                    }
                });
                Poll::Ready(())
            })
            .await;
        }

        fn take(&self) -> Vec<Vec<u8>> {
            std::mem::take(&mut self.writer.lock().inner.writes)
        }
    }

    #[tokio::test]
    async fn what_is_said_in_a_turn_is_one_write_and_what_is_long_goes_at_once() {
        let mut connection = Connection::new(usize::MAX);
        let answer = data(100);
        connection.say(&[SETTINGS, &answer, &answer]).await;
        assert_eq!(connection.take(), [[SETTINGS, &answer, &answer].concat()]);
        let long = data(GATHERED_BYTES_MAX);
        connection.say(&[&answer, &long, &answer]).await;
        assert_eq!(connection.take(), [answer.clone(), long, answer]);
    }

    #[tokio::test]
    async fn outside_of_turns_a_flush_writes() {
        let mut connection = Connection::new(usize::MAX);
        connection.writer.write_all(b"HTTP").await.unwrap();
        connection.writer.flush().await.unwrap();
        assert_eq!(connection.take().concat(), b"HTTP");
    }

    /// Scenario: a client's library measures its path with each answer.
    #[tokio::test]
    async fn a_ping_behind_an_answer_is_acknowledged_later_and_every_other_at_once() {
        let mut connection = Connection::new(usize::MAX);
        let answer = data(100);
        connection.say(&[SETTINGS, &pong(1)]).await;
        assert_eq!(connection.take(), [[SETTINGS, &pong(1)].concat()]);
        connection.say(&[&answer]).await;
        connection.say(&[&pong(2)]).await;
        assert_eq!(connection.take(), std::slice::from_ref(&answer));
        // The next answer comes too soon to bring it, and it comes when the task is woken for it.
        connection.say(&[&answer]).await;
        assert_eq!(connection.take(), std::slice::from_ref(&answer));
        let due = async {
            let ends = &connection.ends;
            poll_fn(|context| {
                ends.turn(context, |_| ());
                match ends.lock().inner.writes.is_empty() {
                    true => Poll::Pending,
                    false => Poll::Ready(()),
                }
            })
            .await;
        };
        timeout(PATIENCE, due).await.expect("it is not forgotten");
        assert_eq!(connection.take(), [pong(2)]);
        // An answer that comes after a tick takes it along.
        connection.say(&[&answer, &pong(6)]).await;
        assert_eq!(connection.take(), std::slice::from_ref(&answer));
        connection.writer.lock().pongs.tick();
        connection.say(&[&answer]).await;
        assert_eq!(connection.take(), [[answer.clone(), pong(6)].concat()]);
        // Pings that come faster than they are answered.
        connection.say(&[&answer, &pong(3)]).await;
        assert_eq!(connection.take(), [answer]);
        connection.say(&[&pong(4), &pong(5)]).await;
        assert_eq!(connection.take(), [[pong(3), pong(4), pong(5)].concat()]);
    }

    /// Scenario: long and short frames and acknowledgements, over a socket that takes a few bytes at a time.
    #[tokio::test]
    async fn nothing_is_lost_and_frames_stay_whole_whatever_the_socket_takes() {
        let said = [
            SETTINGS.to_vec(),
            data(40),
            pong(1),
            data(40_000),
            pong(2),
            data(3),
        ];
        for bytes_max in [1, 7, 1000, usize::MAX] {
            let mut connection = Connection::new(bytes_max);
            for part in &said {
                connection.say(&[part]).await;
            }
            connection.say(&[&pong(3)]).await;
            connection.say(&[&pong(4)]).await;
            let written = connection.take().concat();
            let mut expected = said.to_vec();
            expected.extend([pong(3), pong(4)]);
            assert_eq!(written.len(), expected.concat().len(), "{bytes_max}");
            let without_pongs = |frames: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
                frames.into_iter().filter(|frame| frame[3] != 6).collect()
            };
            let frames = frames(&written);
            assert_eq!(
                without_pongs(frames),
                without_pongs(expected),
                "{bytes_max}"
            );
        }
    }

    fn frames(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut rest = bytes;
        while let Some([a, b, c]) = rest.first_chunk() {
            let length = 9 + u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let (frame, after) = rest.split_at(length);
            frames.push(frame.to_vec());
            rest = after;
        }
        frames
    }
}
