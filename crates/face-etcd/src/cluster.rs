//! The Cluster service.

use crate::client::REASONS;
use crate::face::{Face, failed, status};
use crate::member_rules::Voters;
use crate::server::Cluster;
use quorate_core::ReplicaId;
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse,
};
use quorate_server::{ChangeError, Consistency, GroupChange, MemberInfo, USERS_LEVEL};
use tonic::{Request, Response, Status, async_trait};

type Answered<M> = Result<Response<M>, Status>;

#[async_trait]
impl Cluster for Face {
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Answered<MemberListResponse> {
        let asker = self.asker(&request).await?;
        if request.into_inner().linearizable {
            // Proves that this member has seen everything that was decided before the request.
            self.figures(Consistency::Linearizable).await?;
        }
        self.demand_user(&asker)?;
        Ok(Response::new(MemberListResponse {
            header: Some(self.header(0).await?),
            members: self.members().await?,
        }))
    }

    /// The number is the next that no replica has. What is added follows the group from now on; once it
    /// has caught up it becomes a member, unless it is to stay a learner.
    async fn member_add(&self, request: Request<MemberAddRequest>) -> Answered<MemberAddResponse> {
        self.demand_operator(self.asker(&request).await?).await?;
        let manner = Manner::of(&request);
        let request = request.into_inner();
        let url = one_url(request.peer_urls)?;
        self.figures(Consistency::Linearizable).await?;
        let replica = match request.is_learner {
            true => self.replica_at(USERS_LEVEL).await?,
            false => self.replica().await?,
        };
        if self.is_strict(manner) {
            let judged = Voters::of(&replica).may_add(request.is_learner);
            judged.map_err(status)?;
        }
        let before = &replica.members;
        if before.iter().any(|member| member.peer_url == url) {
            return Err(status(errors::PEER_URL_EXISTS));
        }
        let last = before.iter().map(|member| member.id.0).max();
        let id = ReplicaId(last.unwrap_or(0) + 1);
        let peer_urls = vec![url.clone()];
        let address = GroupChange::Address { id, url };
        self.change(address, manner).await?;
        if request.is_learner && replica.level >= USERS_LEVEL {
            self.change(GroupChange::Learn(id), manner).await?;
        }
        Ok(Response::new(MemberAddResponse {
            header: Some(self.header(0).await?),
            member: Some(Member {
                id: u64::from(id.0),
                peer_urls,
                is_learner: request.is_learner,
                ..Member::default()
            }),
            members: self.members().await?,
        }))
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Answered<MemberRemoveResponse> {
        self.demand_operator(self.asker(&request).await?).await?;
        let manner = Manner::of(&request);
        let id = replica_id(request.into_inner().id)?;
        let replica = self.replica().await?;
        let mut members = replica.members.iter();
        let votes = members.any(|member| member.id == id && !member.is_learner);
        if votes && self.is_strict(manner) {
            Voters::of(&replica).may_remove(id).map_err(status)?;
        }
        let forget = self.handle.change(GroupChange::Forget(id));
        match self.handle.change_soon(GroupChange::Remove(id)).await {
            // Of a member it need not ever have been decided where it is.
            Ok(()) => drop(forget.await),
            // A learner has nothing but an address.
            Err(ChangeError::Unknown(_)) => {
                forget.await.map_err(|why| not_changed(why, manner))?;
            }
            Err(why) => return Err(not_changed(why, manner)),
        }
        Ok(Response::new(MemberRemoveResponse {
            header: Some(self.header(0).await?),
            members: self.members().await?,
        }))
    }

    async fn member_update(
        &self,
        request: Request<MemberUpdateRequest>,
    ) -> Answered<MemberUpdateResponse> {
        self.demand_operator(self.asker(&request).await?).await?;
        let manner = Manner::of(&request);
        let request = request.into_inner();
        let (id, url) = (replica_id(request.id)?, one_url(request.peer_urls)?);
        let before = self.replica().await?.members;
        if !before.iter().any(|member| member.id == id) {
            return Err(status(errors::MEMBER_NOT_FOUND));
        }
        let mut others = before.iter().filter(|member| member.id != id);
        if others.any(|member| member.peer_url == url) {
            return Err(status(errors::PEER_URL_EXISTS));
        }
        self.change(GroupChange::Address { id, url }, manner)
            .await?;
        Ok(Response::new(MemberUpdateResponse {
            header: Some(self.header(0).await?),
            members: self.members().await?,
        }))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Answered<MemberPromoteResponse> {
        self.demand_operator(self.asker(&request).await?).await?;
        let manner = Manner::of(&request);
        let id = replica_id(request.into_inner().id)?;
        if self.is_strict(manner) {
            let replica = self.replica().await?;
            Voters::of(&replica).may_promote().map_err(status)?;
        }
        match self.handle.change_soon(GroupChange::Promote(id)).await {
            // Whatever it waits for, its client may try again.
            Err(ChangeError::NotYet(why)) => {
                return Err(not_changed(ChangeError::NotReady(why), manner));
            }
            changed => changed.map_err(|why| not_changed(why, manner))?,
        }
        Ok(Response::new(MemberPromoteResponse {
            header: Some(self.header(0).await?),
            members: self.members().await?,
        }))
    }
}

impl Face {
    pub(crate) async fn members(&self) -> Result<Vec<Member>, Status> {
        let replica = self.replica().await?;
        Ok(replica.members.into_iter().map(member).collect())
    }

    async fn change(&self, change: GroupChange, manner: Manner) -> Result<(), Status> {
        let changed = self.handle.change_soon(change).await;
        changed.map_err(|why| not_changed(why, manner))
    }

    /// Whether etcd's rules for changes of members hold for a call.
    fn is_strict(&self, manner: Manner) -> bool {
        self.limits.strict_reconfig_check && manner == Manner::Etcd
    }
}

/// What a caller expects of changes of members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// etcd's rules, and its texts alone.
    Etcd,
    /// What the group itself demands, with reasons in words: what `quorate cluster` asks for.
    Quorate,
}

impl Manner {
    fn of<T>(request: &Request<T>) -> Manner {
        match request.metadata().contains_key(REASONS) {
            true => Manner::Quorate,
            false => Manner::Etcd,
        }
    }
}

/// What a client is told of a change that did not come about.
pub(crate) fn not_changed(error: ChangeError, manner: Manner) -> Status {
    let text = error.to_string();
    let in_etcds_words = match error {
        ChangeError::Failed(failure) => return failed(failure),
        ChangeError::Unknown(_) => return status(errors::MEMBER_NOT_FOUND),
        ChangeError::IsMember(_) => return status(errors::MEMBER_NOT_LEARNER),
        ChangeError::NotReady(_) => Some(errors::LEARNER_NOT_READY),
        ChangeError::NoQuorum(_) | ChangeError::NotYet(_) => Some(errors::UNHEALTHY),
        ChangeError::Refused(_) => None,
    };
    match in_etcds_words.filter(|_| manner == Manner::Etcd) {
        Some(error) => {
            tracing::info!("a change of members was refused with {error:?}: {text}");
            status(error)
        }
        None => Status::failed_precondition(format!("quorate: {text}")),
    }
}

/// The replica that a client means.
fn replica_id(id: u64) -> Result<ReplicaId, Status> {
    let id = u16::try_from(id).map_err(|_| status(errors::MEMBER_NOT_FOUND))?;
    Ok(ReplicaId(id))
}

/// A replica has one port for its peers.
fn one_url(urls: Vec<String>) -> Result<String, Status> {
    let bad = || status(errors::MEMBER_BAD_URLS);
    let [url] = <[String; 1]>::try_from(urls).map_err(|_| bad())?;
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    let rest = rest.ok_or_else(bad)?;
    let (host, port) = rest.rsplit_once(':').ok_or_else(bad)?;
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_host = !host.is_empty() && !host.contains('/');
    (is_port && is_host && url.len() <= URL_BYTES_MAX)
        .then_some(url)
        .ok_or_else(bad)
}

/// As long as a name of a host may be, with what is around it.
const URL_BYTES_MAX: usize = 300;

/// A member as clients see it. One that never started has no name, and is what it is to become.
fn member(info: MemberInfo) -> Member {
    let known = |url: String| Some(url).filter(|url| !url.is_empty());
    let started = |text: String| match info.has_started {
        true => text,
        false => String::new(),
    };
    Member {
        id: u64::from(info.id.0),
        name: started(info.name),
        peer_urls: known(info.peer_url).into_iter().collect(),
        client_urls: known(started(info.client_url))
            .map(|urls| urls.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
        is_learner: info.is_learner && (info.has_started || info.stays_learner),
    }
}
