//! The Lock service.

use crate::face::{Face, refused};
use crate::queue::in_words;
use crate::server::Lock;
use quorate_etcd_api::etcdserverpb::DeleteRangeRequest;
use quorate_etcd_api::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};
use quorate_etcd_store::{check, command};
use tonic::{Request, Response, Status, async_trait};

type Answered<M> = Result<Response<M>, Status>;

#[async_trait]
impl Lock for Face {
    async fn lock(&self, request: Request<LockRequest>) -> Answered<LockResponse> {
        self.take_lock(request).await.map_err(in_words)
    }

    /// Deletes the key, whoever holds it.
    async fn unlock(&self, request: Request<UnlockRequest>) -> Answered<UnlockResponse> {
        self.give_lock_back(request).await.map_err(in_words)
    }
}

impl Face {
    async fn take_lock(&self, request: Request<LockRequest>) -> Answered<LockResponse> {
        let asker = self.asker(&request).await?;
        let LockRequest { name, lease } = request.into_inner();
        let turn = self
            .wait_in_queue(&name, None, lease, asker.clone())
            .await?;
        let place = turn.place;
        let revision = match turn.has_waited {
            false => place.revision,
            true => (self.revision_if_exists(&place.key, &asker).await?).ok_or_else(expired)?,
        };
        Ok(Response::new(LockResponse {
            header: Some(self.header(revision).await?),
            key: place.key,
        }))
    }

    async fn give_lock_back(&self, request: Request<UnlockRequest>) -> Answered<UnlockResponse> {
        let asker = self.asker(&request).await?;
        let request = DeleteRangeRequest {
            key: request.into_inner().key,
            ..DeleteRangeRequest::default()
        };
        check::delete_range(&request).map_err(refused)?;
        let body = command::encode_delete_range(&request);
        let applied = self
            .apply(body, Vec::new(), &asker)
            .await?
            .map_err(refused)?;
        Ok(Response::new(UnlockResponse {
            header: Some(self.header(applied.revision).await?),
        }))
    }
}

/// The lease ended while its holder waited.
fn expired() -> Status {
    Status::unknown("mutex: session is expired")
}
