//! Streams of requests, taken from HTTP's library as they come.
//!
//! Whoever answers a stream may be busy with one of its requests while more come, or wait for a client that takes no
//! answers. What the library keeps meanwhile costs more than its bytes, and where that is too much it ends the
//! connection, with all other requests on it. Here the bytes are kept one after the other, and charged to the
//! connection: where there is no room, the stream is refused, and nothing else.

use crate::exhausted;
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use quorate_server::Charge;
use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::task::AbortHandle;

type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a request that is a stream of messages.
pub(super) struct ReadAhead {
    ahead: Arc<Mutex<Ahead>>,
    reader: AbortHandle,
}

/// What came and was not taken yet.
struct Ahead {
    bytes: BytesMut,
    charge: Charge,
    /// The end of the body, once it has come.
    end: Option<Result<(), BoxError>>,
    /// The task that waits for more.
    taker: Option<Waker>,
}

impl ReadAhead {
    /// Begins to read; what is kept is charged to `charge`.
    pub(super) fn start(
        inner: impl Body<Data = Bytes, Error = BoxError> + Send + Unpin + 'static,
        charge: Charge,
    ) -> ReadAhead {
        let ahead = Arc::new(Mutex::new(Ahead {
            bytes: BytesMut::new(),
            charge,
            end: None,
            taker: None,
        }));
        let reader = tokio::spawn(read(inner, Arc::clone(&ahead)));
        ReadAhead {
            ahead,
            reader: reader.abort_handle(),
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Reads until the stream ends, or there is no room for more.
async fn read(
    mut inner: impl Body<Data = Bytes, Error = BoxError> + Unpin,
    ahead: Arc<Mutex<Ahead>>,
) {
    loop {
        let frame = poll_fn(|context| Pin::new(&mut inner).poll_frame(context)).await;
        let mut ahead = lock(&ahead);
        match frame {
            Some(Ok(frame)) => ahead.add(frame.data_ref()),
            Some(Err(error)) => ahead.end = Some(Err(error)),
            None => ahead.end = Some(Ok(())),
        }
        if let Some(taker) = ahead.taker.take() {
            taker.wake();
        }
        if ahead.end.is_some() {
            return;
        }
    }
}

fn lock(ahead: &Mutex<Ahead>) -> MutexGuard<'_, Ahead> {
    ahead.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ahead {
    fn add(&mut self, data: Option<&Bytes>) {
        let Some(data) = data else {
            return; // Trailers, which no request has.
        };
        match self.charge.add(data.len()) {
            Ok(()) => self.bytes.extend_from_slice(data),
            Err(why) => self.end = Some(Err(exhausted(why).into())),
        }
    }

    fn is_over(&self) -> bool {
        self.bytes.is_empty() && matches!(self.end, Some(Ok(())))
    }
}

impl Body for ReadAhead {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut ahead = lock(&self.ahead);
        if !ahead.bytes.is_empty() {
            let bytes = std::mem::take(&mut ahead.bytes).freeze();
            ahead.charge.give_back(bytes.len());
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match ahead.end.take() {
            Some(Ok(())) => {
                ahead.end = Some(Ok(()));
                Poll::Ready(None)
            }
            Some(Err(error)) => {
                ahead.end = Some(Ok(()));
                Poll::Ready(Some(Err(error)))
            }
            None => {
                ahead.taker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.ahead).is_over()
    }
}
