//! A deadline for the heads of requests.

use super::frames::Language;
use super::registry::ConnectionState;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The first byte of a connection that begins with a handshake of TLS.
const TLS_RECORD: u8 = 0x16;

/// A connection that fails when a head has begun and is not complete some time later. The first head, or the
/// preface of HTTP/2, has begun with the connection.
#[derive(Debug)]
pub struct Heads<T> {
    inner: T,
    language: Language,
    state: Arc<ConnectionState>,
    timeout: Duration,
    /// The deadline of the head that is incomplete.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> Heads<T> {
    pub(super) fn new(inner: T, state: &Arc<ConnectionState>, timeout: Duration) -> Self {
        Heads {
            inner,
            language: Language::default(),
            state: Arc::clone(state),
            timeout,
            deadline: None,
        }
    }

    /// Looks at bytes that came.
    fn look(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return; // The client has closed its side.
        }
        if let (Language::Unknown(0), Some(&TLS_RECORD)) = (&self.language, bytes.first()) {
            self.state.speaks_tls();
        }
        let mut left = bytes;
        while !left.is_empty() {
            left = &left[self.language.next(left)..];
        }
        if let Language::Http1 = self.language {
            self.state.bytes_came();
        }
    }

    fn is_head_incomplete(&self) -> bool {
        match &self.language {
            Language::Unknown(_) => true,
            Language::Http1 => self.state.is_head_incomplete(),
            Language::Http2(frames) => frames.is_in_head(),
        }
    }

    /// Nothing more came for now: fails once that is for too long.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if !self.is_head_incomplete() {
            self.deadline = None;
            return Poll::Pending;
        }
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(sleep(self.timeout)));
        ready!(deadline.as_mut().poll(context));
        self.state.counts().half_open.increment(1);
        let why = "the head of a request did not come in time";
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, why))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Heads<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        match Pin::new(&mut this.inner).poll_read(context, buf) {
            Poll::Ready(Ok(())) => {
                this.look(&buf.filled()[before..]);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => this.poll_deadline(context).map(Err),
        }
    }
}

write_through!(Heads);
