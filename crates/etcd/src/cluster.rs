//! The Cluster service.

use crate::face::{Face, failed, unsupported};
use crate::server::Cluster;
use quorate_etcd_api::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse,
};
use quorate_server::{Consistency, MemberInfo};
use tonic::{Request, Response, Status, async_trait};

type Answered<M> = Result<Response<M>, Status>;

#[async_trait]
impl Cluster for Face {
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Answered<MemberListResponse> {
        if request.into_inner().linearizable {
            // Proves that this member has seen everything that was decided before the request.
            self.figures(Consistency::Linearizable).await?;
        }
        let status = self.handle.status().await.map_err(failed)?;
        Ok(Response::new(MemberListResponse {
            header: Some(self.header(0).await?),
            members: status.members.into_iter().map(member).collect(),
        }))
    }

    async fn member_add(&self, _: Request<MemberAddRequest>) -> Answered<MemberAddResponse> {
        Err(unsupported("adding a member"))
    }

    async fn member_remove(
        &self,
        _: Request<MemberRemoveRequest>,
    ) -> Answered<MemberRemoveResponse> {
        Err(unsupported("removing a member"))
    }

    async fn member_update(
        &self,
        _: Request<MemberUpdateRequest>,
    ) -> Answered<MemberUpdateResponse> {
        Err(unsupported("updating a member"))
    }

    async fn member_promote(
        &self,
        _: Request<MemberPromoteRequest>,
    ) -> Answered<MemberPromoteResponse> {
        Err(unsupported("promoting a member"))
    }
}

fn member(info: MemberInfo) -> Member {
    let known = |url: String| Some(url).filter(|url| !url.is_empty());
    Member {
        id: u64::from(info.id.0),
        name: info.name,
        peer_urls: known(info.peer_url).into_iter().collect(),
        client_urls: known(info.client_url).into_iter().collect(),
        is_learner: false,
    }
}
