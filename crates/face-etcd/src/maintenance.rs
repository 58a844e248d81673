//! The Maintenance service.

use crate::cluster::{Manner, not_changed};
use crate::face::{Face, VERSION, failed, mismatch, status, unsupported};
use crate::server::Maintenance;
use quorate_core::ReplicaId;
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::{
    AlarmAction, AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest,
    DefragmentResponse, DowngradeAction, DowngradeInfo, DowngradeRequest, DowngradeResponse,
    HashKvRequest, HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest,
    MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
};
use quorate_etcd_store::{Asker, KeyHash, Query, QueryAnswer};
use quorate_server::{
    ALARM_LEVEL, Alarm, AlarmKind, ChangeError, Consistency, GroupChange, RaisedAlarm,
    Status as ReplicaStatus, USERS_LEVEL,
};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, async_trait};

type Answered<M> = Result<Response<M>, Status>;

#[async_trait]
impl Maintenance for Face {
    async fn status(&self, request: Request<StatusRequest>) -> Answered<StatusResponse> {
        self.demand_user(&self.asker(&request).await?)?;
        let figures = self.figures(Consistency::Serializable).await?;
        let replica = self.handle.status().await.map_err(failed)?;
        let sizes = Sizes::of(figures.bytes, &replica, self.limits.quota_bytes);
        let raised = replica.raised.iter();
        let mut errors: Vec<String> = raised.map(|alarm| in_words(&member_of(alarm))).collect();
        errors.extend(replica.difference.map(|difference| difference.to_string()));
        if !replica.quorum {
            errors.push(errors::NO_LEADER.text.to_owned());
        }
        Ok(Response::new(StatusResponse {
            header: Some(self.header(figures.revision).await?),
            version: VERSION.to_owned(),
            db_size: sizes.whole,
            db_size_in_use: sizes.in_use,
            leader: replica.leader.map_or(0, |id| u64::from(id.0)),
            raft_index: replica.applied.0.max(1),
            raft_applied_index: replica.applied.0.max(1),
            raft_term: replica.term,
            errors,
            is_learner: !replica.is_member,
            storage_version: VERSION.to_owned(),
            db_size_quota: sizes.most,
            downgrade_info: Some(DowngradeInfo::default()),
        }))
    }

    async fn hash(&self, request: Request<HashRequest>) -> Answered<HashResponse> {
        self.demand_root(&self.asker(&request).await?)?;
        let found = self.key_hash(0).await?;
        Ok(Response::new(HashResponse {
            header: Some(self.header(found.revision).await?),
            hash: short(found.hash),
        }))
    }

    async fn hash_kv(&self, request: Request<HashKvRequest>) -> Answered<HashKvResponse> {
        self.demand_root(&self.asker(&request).await?)?;
        let found = self.key_hash(request.into_inner().revision).await?;
        Ok(Response::new(HashKvResponse {
            header: Some(self.header(found.revision).await?),
            hash: short(found.hash),
            compact_revision: found.compacted,
            hash_revision: found.hash_revision,
        }))
    }

    /// Waits until what was compacted is freed: besides that the store holds no space that could be given back.
    async fn defragment(
        &self,
        request: Request<DefragmentRequest>,
    ) -> Answered<DefragmentResponse> {
        self.demand_root(&self.asker(&request).await?)?;
        self.wait_until_tidy().await?;
        // etcd sends no header here, nor with a change of leader.
        Ok(Response::new(DefragmentResponse { header: None }))
    }

    async fn alarm(&self, request: Request<AlarmRequest>) -> Answered<AlarmResponse> {
        let asker = self.asker(&request).await?;
        self.demand_user(&asker)?;
        let request = request.into_inner();
        if request.action != AlarmAction::Get as i32 {
            self.demand_root(&asker)?;
        }
        let alarms = match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Activate) => self.change_alarm(&request, true).await?,
            Ok(AlarmAction::Deactivate) => self.change_alarm(&request, false).await?,
            // As in etcd, whatever else it may be.
            Ok(AlarmAction::Get) | Err(_) => self.alarms(request.alarm).await?,
        };
        let figures = self.figures(Consistency::Serializable).await?;
        Ok(Response::new(AlarmResponse {
            header: Some(self.header(figures.revision).await?),
            alarms,
        }))
    }

    /// No version is a target: a feature level is never lowered, and an older program may be started until it is
    /// raised, without any preparation.
    async fn downgrade(&self, request: Request<DowngradeRequest>) -> Answered<DowngradeResponse> {
        self.demand_root(&self.asker(&request).await?)?;
        let request = request.into_inner();
        Err(status(match DowngradeAction::try_from(request.action) {
            Ok(DowngradeAction::Cancel) => errors::NO_INFLIGHT_DOWNGRADE,
            Ok(DowngradeAction::Validate | DowngradeAction::Enable)
                if is_version(&request.version) =>
            {
                errors::INVALID_DOWNGRADE_TARGET_VERSION
            }
            Ok(DowngradeAction::Validate | DowngradeAction::Enable) => {
                errors::WRONG_DOWNGRADE_VERSION_FORMAT
            }
            Err(_) => return Err(unsupported("this action on a downgrade")),
        }))
    }

    /// Has the group name another leader. As in etcd, only the one there is may be asked.
    async fn move_leader(
        &self,
        request: Request<MoveLeaderRequest>,
    ) -> Answered<MoveLeaderResponse> {
        self.demand_root(&self.asker(&request).await?)?;
        let replica = self.replica_at(USERS_LEVEL).await?;
        if replica.leader != Some(replica.me) {
            return Err(status(errors::NOT_LEADER));
        }
        let target = u16::try_from(request.into_inner().target_id);
        let target = target.map_err(|_| status(errors::BAD_LEADER_TRANSFEREE))?;
        if target != replica.me.0 {
            let change = GroupChange::Lead(ReplicaId(target));
            match self.handle.change(change).await {
                Err(ChangeError::Unknown(_) | ChangeError::NotReady(_)) => {
                    return Err(status(errors::BAD_LEADER_TRANSFEREE));
                }
                changed => changed.map_err(|why| not_changed(why, Manner::Etcd))?,
            }
        }
        Ok(Response::new(MoveLeaderResponse { header: None }))
    }

    type SnapshotStream = BoxStream<SnapshotResponse>;

    async fn snapshot(&self, request: Request<SnapshotRequest>) -> Answered<Self::SnapshotStream> {
        self.demand_root(&self.asker(&request).await?)?;
        Ok(Response::new(self.send_snapshot()?))
    }
}

impl Face {
    /// The alarms of a kind, or of all. Where no quorum says what is decided, or replicas differ, they are those that
    /// this member knows of.
    async fn alarms(&self, kind: i32) -> Result<Vec<AlarmMember>, Status> {
        drop(self.figures(Consistency::Linearizable).await);
        let raised = self.handle.status().await.map_err(failed)?.raised;
        let members = raised.iter().map(member_of);
        let is_meant = |alarm: &AlarmMember| kind == AlarmType::None as i32 || alarm.alarm == kind;
        Ok(members.filter(is_meant).collect())
    }

    /// Raises or ends an alarm for all members. The answer names what is raised, or was.
    async fn change_alarm(
        &self,
        request: &AlarmRequest,
        is_raised: bool,
    ) -> Result<Vec<AlarmMember>, Status> {
        let kind = match AlarmType::try_from(request.alarm) {
            Ok(AlarmType::Nospace) => AlarmKind::NoSpace,
            Ok(AlarmType::Corrupt) => AlarmKind::Corrupt,
            Ok(AlarmType::None) | Err(_) => return Ok(Vec::new()),
        };
        let id = u16::try_from(request.member_id);
        let id = ReplicaId(id.map_err(|_| status(errors::MEMBER_NOT_FOUND))?);
        let alarm = AlarmMember {
            member_id: request.member_id,
            alarm: request.alarm,
        };
        let before = self.alarms(request.alarm).await?;
        if !is_raised && !before.contains(&alarm) {
            return Ok(Vec::new());
        }
        let change = GroupChange::Alarm {
            alarm: Alarm { kind, id },
            is_raised,
        };
        self.replica_at(ALARM_LEVEL).await?;
        let changed = self.handle.change(change).await;
        changed.map_err(|why| not_changed(why, Manner::Etcd))?;
        Ok(vec![alarm])
    }

    async fn key_hash(&self, revision: i64) -> Result<KeyHash, Status> {
        let query = Query::HashKv { revision };
        match self
            .read(query, Consistency::Serializable, &Asker::Anybody)
            .await?
        {
            QueryAnswer::HashKv(found) => Ok(found),
            _ => Err(mismatch()),
        }
    }
}

/// An alarm, as etcd's API names it.
pub(crate) fn member_of(alarm: &RaisedAlarm) -> AlarmMember {
    AlarmMember {
        member_id: u64::from(alarm.id.0),
        alarm: match alarm.kind {
            AlarmKind::NoSpace => AlarmType::Nospace,
            AlarmKind::Corrupt => AlarmType::Corrupt,
        } as i32,
    }
}

/// An alarm among the errors of a status, as etcd writes it.
fn in_words(alarm: &AlarmMember) -> String {
    let name = match AlarmType::try_from(alarm.alarm) {
        Ok(AlarmType::Nospace) => "NOSPACE",
        Ok(AlarmType::Corrupt) => "CORRUPT",
        Ok(AlarmType::None) | Err(_) => "NONE",
    };
    match alarm.member_id {
        0 => format!("alarm:{name}"),
        id => format!("memberID:{id} alarm:{name}"),
    }
}

/// Whether a text is a version, such as `3.6` or `3.6.0`.
fn is_version(text: &str) -> bool {
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    matches!(text.split('.').count(), 2 | 3) && text.split('.').all(is_number)
}

/// How large a member's store is, in bytes. No size is ever 0: clients divide by them.
pub(crate) struct Sizes {
    /// With room in files that is not used.
    pub(crate) whole: i64,
    /// What the versions of all keys take, and this member's fragments of large values.
    pub(crate) in_use: i64,
    /// The bytes that the database can come to: `--quota-backend-bytes`, or what its disk has room for.
    pub(crate) most: i64,
}

impl Sizes {
    pub(crate) fn of(store_bytes: u64, replica: &ReplicaStatus, quota: Option<u64>) -> Sizes {
        let bounded = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX).max(1);
        let in_use = store_bytes.saturating_add(replica.fragment_bytes);
        let room = (replica.fragment_file_bytes).saturating_sub(replica.fragment_bytes);
        let whole = in_use.saturating_add(room);
        let free = replica.free_bytes.unwrap_or(u64::MAX);
        Sizes {
            whole: bounded(whole),
            in_use: bounded(in_use),
            most: bounded(quota.unwrap_or(whole.saturating_add(free))),
        }
    }
}

/// etcd's digests are 32 bits wide.
fn short(hash: u64) -> u32 {
    hash as u32
}
