//! The Maintenance service.

use crate::face::{Face, TERM, VERSION, failed, mismatch, status, unsupported};
use crate::server::Maintenance;
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::{
    AlarmAction, AlarmRequest, AlarmResponse, DefragmentRequest, DefragmentResponse,
    DowngradeAction, DowngradeInfo, DowngradeRequest, DowngradeResponse, HashKvRequest,
    HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest, MoveLeaderResponse,
    SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
};
use quorate_kv::{Answer, KeyHash, Query};
use quorate_server::Consistency;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, async_trait};

type Answered<M> = Result<Response<M>, Status>;

#[async_trait]
impl Maintenance for Face {
    async fn status(&self, _: Request<StatusRequest>) -> Answered<StatusResponse> {
        let figures = self.figures(Consistency::Serializable).await?;
        let replica = self.handle.status().await.map_err(failed)?;
        let size = i64::try_from(figures.bytes).unwrap_or(i64::MAX);
        let mut errors = replica.alarms;
        if !replica.quorum {
            errors.push(errors::NO_LEADER.text.to_owned());
        }
        Ok(Response::new(StatusResponse {
            header: Some(self.header(figures.revision).await?),
            version: VERSION.to_owned(),
            db_size: size,
            db_size_in_use: size,
            // Every member that reaches a quorum serves writes: it may as well call itself leader.
            leader: if replica.quorum {
                u64::from(replica.me.0)
            } else {
                0
            },
            raft_index: replica.applied.0,
            raft_applied_index: replica.applied.0,
            raft_term: TERM,
            errors,
            is_learner: !replica.is_member,
            storage_version: VERSION.to_owned(),
            db_size_quota: 0,
            downgrade_info: Some(DowngradeInfo::default()),
        }))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Answered<HashResponse> {
        let found = self.key_hash(0).await?;
        Ok(Response::new(HashResponse {
            header: Some(self.header(found.revision).await?),
            hash: short(found.hash),
        }))
    }

    async fn hash_kv(&self, request: Request<HashKvRequest>) -> Answered<HashKvResponse> {
        let found = self.key_hash(request.into_inner().revision).await?;
        Ok(Response::new(HashKvResponse {
            header: Some(self.header(found.revision).await?),
            hash: short(found.hash),
            compact_revision: found.compacted,
            hash_revision: found.hash_revision,
        }))
    }

    /// The store holds no free space that could be given back.
    async fn defragment(&self, _: Request<DefragmentRequest>) -> Answered<DefragmentResponse> {
        // etcd sends no header here, nor with a change of leader.
        Ok(Response::new(DefragmentResponse { header: None }))
    }

    async fn alarm(&self, request: Request<AlarmRequest>) -> Answered<AlarmResponse> {
        if request.into_inner().action != AlarmAction::Get as i32 {
            return Err(unsupported("raising or ending an alarm"));
        }
        let figures = self.figures(Consistency::Serializable).await?;
        Ok(Response::new(AlarmResponse {
            header: Some(self.header(figures.revision).await?),
            alarms: Vec::new(),
        }))
    }

    async fn downgrade(&self, request: Request<DowngradeRequest>) -> Answered<DowngradeResponse> {
        if request.into_inner().action == DowngradeAction::Cancel as i32 {
            return Err(status(errors::NO_INFLIGHT_DOWNGRADE));
        }
        Err(unsupported("a downgrade"))
    }

    /// The member that answers is the leader as far as clients know; there is nobody else to be it.
    async fn move_leader(
        &self,
        request: Request<MoveLeaderRequest>,
    ) -> Answered<MoveLeaderResponse> {
        let me = self.header(0).await?.member_id;
        if request.into_inner().target_id != me {
            return Err(status(errors::BAD_LEADER_TRANSFEREE));
        }
        Ok(Response::new(MoveLeaderResponse { header: None }))
    }

    type SnapshotStream = BoxStream<SnapshotResponse>;

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Answered<Self::SnapshotStream> {
        Err(unsupported("a snapshot"))
    }
}

impl Face {
    async fn key_hash(&self, revision: i64) -> Result<KeyHash, Status> {
        let query = Query::HashKv { revision };
        match self.read(query, Consistency::Serializable).await? {
            Answer::HashKv(found) => Ok(found),
            _ => Err(mismatch()),
        }
    }
}

/// etcd's digests are 32 bits wide.
fn short(hash: u64) -> u32 {
    hash as u32
}
