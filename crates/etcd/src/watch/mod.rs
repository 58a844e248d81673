//! The Watch service.
//!
//! Each stream is a task of its own ([`stream`]). Watches that are up to date get their events from
//! the [`Hub`]; those that are behind read history from the store in bounded pieces. Events whose
//! values are kept apart wait for these in [`waiting`], and hold up no other watch.

mod hub;
mod index;
mod respond;
mod stream;
mod waiting;

pub(crate) use hub::Hub;

use crate::face::{Face, failed, status};
use crate::server::Watch;
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::{WatchRequest, WatchResponse};
use quorate_server::Account;
use stream::WatchStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

/// Responses between a stream's task and its connection. A client that does not read stops the task
/// when one waits here; everything else stays in the store.
const RESPONSES_WAITING_MAX: usize = 1;

#[async_trait]
impl Watch for Face {
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        // A client may ask not to be served by a member that is cut off.
        let wants_quorum = request.metadata().get("hasleader");
        if wants_quorum.is_some_and(|value| value == "true")
            && !self.handle.status().await.map_err(failed)?.quorum
        {
            return Err(status(errors::NO_LEADER));
        }
        self.hub.start(&self.handle);
        let (responses, answer) = mpsc::channel(RESPONSES_WAITING_MAX);
        let account = request.extensions().get::<Account>();
        let account = account.unwrap_or(&self.account).clone();
        let stream = WatchStream::new(self, self.header(0).await?, responses, account);
        tokio::spawn(stream.run(request.into_inner()));
        Ok(Response::new(ReceiverStream::new(answer)))
    }
}
