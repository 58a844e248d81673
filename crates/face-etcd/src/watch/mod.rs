//! The Watch service.
//!
//! Each stream is a task of its own ([`stream`]). Watches that are up to date get their events from
//! the [`Hub`]; those that are behind read history from the store in bounded pieces. Events whose
//! values are kept as payloads wait for these in [`waiting`], and hold up no other watch. What the face itself waits
//! for is a [`Follower`].

mod follow;
mod hub;
mod index;
mod outgoing;
mod respond;
mod stream;
mod waiting;

pub(crate) use follow::Follower;
pub(crate) use hub::Hub;

use crate::auth::Credentials;
use crate::face::Face;
use crate::leader::LeaderWatch;
use crate::server::Watch;
use outgoing::{Responses, responses};
use quorate_etcd_api::etcdserverpb::WatchRequest;
use quorate_server::Account;
use stream::WatchStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

#[async_trait]
impl Watch for Face {
    type WatchStream = Responses;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let leader = LeaderWatch::of(&request, &self.handle);
        self.hub.start(&self.handle);
        let (outgoing, responses) = responses();
        let account = request.extensions().get::<Account>();
        let account = account.unwrap_or(&self.account).clone();
        let credentials = Credentials::of(&request);
        let header = self.header(0).await?;
        let stream = WatchStream::new(self, (header, credentials), outgoing, account);
        tokio::spawn(stream.run(request.into_inner(), leader));
        Ok(Response::new(responses))
    }
}
