//! The Lease service.

use crate::auth::Credentials;
use crate::face::{Face, failed, mismatch};
use crate::leader::LeaderWatch;
use crate::reply::Reply;
use crate::server::Lease;
use quorate_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use quorate_etcd_store::{LeaseInfo, Query, QueryAnswer, command};
use quorate_server::Consistency;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

type Answered<M> = Result<Response<M>, Status>;

/// Answers between a stream of renewals and its connection.
const ANSWERS_WAITING_MAX: usize = 4;

#[async_trait]
impl Lease for Face {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Answered<Reply<LeaseGrantResponse>> {
        let asker = self.asker(&request).await?;
        let body = command::encode_lease_grant(request.get_ref());
        self.order(body, &asker).await
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Answered<Reply<LeaseRevokeResponse>> {
        let asker = self.asker(&request).await?;
        let body = command::encode_lease_revoke(request.get_ref());
        self.order(body, &asker).await
    }

    type LeaseKeepAliveStream = ReceiverStream<Result<Reply<LeaseKeepAliveResponse>, Status>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Answered<Self::LeaseKeepAliveStream> {
        let (answers, taken) = mpsc::channel(ANSWERS_WAITING_MAX);
        let leader = LeaderWatch::of(&request, &self.handle);
        let credentials = Credentials::of(&request);
        tokio::spawn(keep_alive(
            self.clone(),
            (request.into_inner(), credentials),
            leader,
            answers,
        ));
        Ok(Response::new(ReceiverStream::new(taken)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Answered<LeaseTimeToLiveResponse> {
        let asker = self.asker(&request).await?;
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let query = Query::Lease { id, keys };
        let answer = self.read(query, Consistency::Linearizable, &asker).await?;
        let QueryAnswer::Lease(lease) = answer else {
            return Err(mismatch());
        };
        let remaining = self.handle.remaining(id.cast_unsigned()).await;
        let remaining = remaining.map_err(failed)?.unwrap_or_default();
        let LeaseInfo {
            revision,
            ttl_s,
            keys: names,
        } = lease;
        let seconds = i64::try_from(remaining.as_secs()).unwrap_or(i64::MAX);
        Ok(Response::new(LeaseTimeToLiveResponse {
            header: Some(self.header(revision).await?),
            id,
            ttl: ttl_s.map_or(-1, |_| seconds),
            granted_ttl: ttl_s.unwrap_or(0),
            keys: names,
        }))
    }

    async fn lease_leases(
        &self,
        request: Request<LeaseLeasesRequest>,
    ) -> Answered<LeaseLeasesResponse> {
        let asker = self.asker(&request).await?;
        let answer = self.read(Query::Leases, Consistency::Linearizable, &asker);
        let answer = answer.await?;
        let QueryAnswer::Leases(revision, ids) = answer else {
            return Err(mismatch());
        };
        Ok(Response::new(LeaseLeasesResponse {
            header: Some(self.header(revision).await?),
            leases: ids.into_iter().map(|id| LeaseStatus { id }).collect(),
        }))
    }
}

/// Renews for as long as the client asks, and the leader is there that it requires. A lease that is gone is no error:
/// its time is 0.
async fn keep_alive(
    face: Face,
    (mut requests, credentials): (Streaming<LeaseKeepAliveRequest>, Credentials),
    mut leader: LeaderWatch,
    answers: mpsc::Sender<Result<Reply<LeaseKeepAliveResponse>, Status>>,
) {
    loop {
        let renew = async {
            match requests.message().await? {
                Some(request) => {
                    // Its rights may have changed since the last time.
                    let asker = face.identify(&credentials).await?;
                    let body = command::encode_lease_renew(&request);
                    let renewed = face.order(body, &asker).await;
                    renewed.map(Some)
                }
                None => Ok(None),
            }
        };
        let answer = tokio::select! {
            renewed = renew => renewed.transpose(),
            status = leader.lost() => Some(Err(status)),
            () = answers.closed() => return,
        };
        let Some(answer) = answer else {
            return;
        };
        let failed = answer.is_err();
        let sent = answers.send(answer.map(Response::into_inner)).await;
        if failed || sent.is_err() {
            return;
        }
    }
}
