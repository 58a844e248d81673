//! No reading where nothing can be written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that is not read while its client takes nothing of what is written: whoever does not read answers
/// cannot ask for more of them.
#[derive(Debug)]
pub struct Backpressure<T> {
    inner: T,
    /// The last write has to wait.
    is_blocked: bool,
    /// The task that wants to read once writes need not wait any more.
    reader: Option<Waker>,
}

impl<T> Backpressure<T> {
    pub(super) fn new(inner: T) -> Self {
        Backpressure {
            inner,
            is_blocked: false,
            reader: None,
        }
    }

    /// Notes whether a write has to wait.
    fn wrote<R>(&mut self, written: Poll<R>) -> Poll<R> {
        self.is_blocked = written.is_pending();
        if !self.is_blocked
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
        written
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Backpressure<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_blocked {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_read(context, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Backpressure<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, buf);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, bufs);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// Scenario: the client sends more and more requests and takes no answer, then takes one.
    #[tokio::test]
    async fn requests_wait_while_answers_do() {
        let (near, mut client) = duplex(8);
        let mut server = Backpressure::new(near);
        client.write_all(b"one").await.unwrap();
        let mut request = [0; 3];
        server.read_exact(&mut request).await.unwrap();
        server.write_all(b"12345678").await.unwrap();
        let written = poll_fn(|context| {
            let written = Pin::new(&mut server).poll_write(context, b"9");
            Poll::Ready(written.is_pending())
        });
        assert!(written.await);
        client.write_all(b"two").await.unwrap();
        let (mut server, mut sink) = tokio::io::split(server);
        let reading = tokio::spawn(async move {
            let mut request = [0; 3];
            server.read_exact(&mut request).await.map(|_| request)
        });
        tokio::task::yield_now().await;
        assert!(!reading.is_finished());
        client.read_exact(&mut [0; 8]).await.unwrap();
        sink.write_all(b"9").await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), *b"two");
    }
}
