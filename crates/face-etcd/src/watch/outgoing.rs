//! Responses between a stream's task and its connection.
//!
//! A client that does not read stops the task when so many bytes wait; everything else stays in the store. Small
//! responses that wait together leave together: many small frames cost the client more than their bytes, and some HTTP
//! libraries end a connection for that.

use prost::Message;
use quorate_etcd_api::etcdserverpb::WatchResponse;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::Stream;
use tonic::Status;

/// Bytes of responses that may wait. One of any size may, if it is alone.
const WAITING_BYTES_MAX: usize = 16 << 10;

/// The task's end.
#[derive(Clone)]
pub(crate) struct Outgoing {
    queue: mpsc::UnboundedSender<WaitingResponses>,
    room: Arc<Semaphore>,
}

/// A response, or how the stream ends, and the room that it takes.
type WaitingResponses = (Result<WatchResponse, Status>, Option<OwnedSemaphorePermit>);

/// The connection's end.
pub(crate) struct Responses(mpsc::UnboundedReceiver<WaitingResponses>);

/// Both ends for a new stream.
pub(crate) fn responses() -> (Outgoing, Responses) {
    let (queue, waiting) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(WAITING_BYTES_MAX));
    (Outgoing { queue, room }, Responses(waiting))
}

/// The client is gone.
pub(crate) struct ClientGone;

impl Outgoing {
    /// Sends a response once there is room for it.
    pub(crate) async fn send(&self, response: WatchResponse) -> Result<(), ClientGone> {
        let bytes = response.encoded_len().min(WAITING_BYTES_MAX);
        let bytes = u32::try_from(bytes).map_err(|_| ClientGone)?;
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await;
        let room = room.map_err(|_| ClientGone)?;
        self.queue
            .send((Ok(response), Some(room)))
            .map_err(|_| ClientGone)
    }

    /// Ends the stream behind what was sent.
    pub(crate) fn end(&self, status: Status) {
        // A client that is gone needs no reason.
        let _ = self.queue.send((Err(status), None));
    }

    /// Completes once the client is gone.
    pub(crate) async fn closed(&self) {
        self.queue.closed().await;
    }
}

impl Stream for Responses {
    type Item = Result<WatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.0.poll_recv(context);
        next.map(|next| next.map(|(response, _room)| response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_stream::StreamExt;

    fn response(bytes: usize) -> WatchResponse {
        WatchResponse {
            cancel_reason: "x".repeat(bytes),
            ..WatchResponse::default()
        }
    }

    /// How many responses of so many bytes wait for a client that reads nothing, and how many once it has read one.
    async fn waiting(bytes: usize) -> (usize, usize) {
        let (outgoing, mut responses) = responses();
        let fill = async || {
            let mut count = 0;
            loop {
                tokio::select! {
                    biased;
                    sent = outgoing.send(response(bytes)) => assert!(sent.is_ok()),
                    () = std::future::ready(()) => return count,
                }
                count += 1;
            }
        };
        let first = fill().await;
        assert!(responses.next().await.is_some());
        (first, fill().await)
    }

    #[tokio::test]
    async fn small_responses_wait_together_and_a_large_one_alone() {
        assert_eq!(waiting(100).await, (WAITING_BYTES_MAX / 102, 1));
        assert_eq!(waiting(1 << 20).await, (1, 1));
    }
}
