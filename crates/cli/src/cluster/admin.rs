//! Asking for changes: etcd's Cluster service, as `etcdctl member` does, or a page where a face has none.

use crate::Failure;
use crate::endpoints::{ANSWER_TIMEOUT, Asked};
use crate::etcd_client::{EtcdClient, Patience, failed};
use quorate_etcd_api::etcdserverpb::{MemberAddRequest, MemberPromoteRequest, MemberRemoveRequest};
use quorate_face_etcd::client::{ClusterClient, in_words};
use quorate_server::MembersPage;
use tokio::runtime::Runtime;
use tonic::Request;
use tonic::transport::Channel;

/// Where changes are asked for, by what a replica's face has for that.
pub(super) enum Admin {
    /// A call of etcd's API.
    Calls(Box<Calls>),
    /// A page that is posted.
    Pages(Asked),
}

impl Admin {
    /// Finds the first endpoint that answers.
    pub(super) fn connect(asked: Asked) -> Result<Admin, Failure> {
        let version = asked
            .places
            .iter()
            .find_map(|place| asked.get(place, "/version").ok());
        match version.is_some_and(|version| !version.contains("etcdserver")) {
            true => Ok(Admin::Pages(asked)),
            false => Calls::connect(&asked).map(|calls| Admin::Calls(Box::new(calls))),
        }
    }

    /// Adds a replica; says its number.
    pub(super) fn add(&self, peer_url: &str) -> Result<u16, Failure> {
        match self {
            Admin::Calls(calls) => calls.add(peer_url),
            Admin::Pages(asked) => post(asked, MembersPage::Add(peer_url.to_owned())),
        }
    }

    /// Makes a learner a member.
    pub(super) fn promote(&self, id: u16) -> Result<(), Failure> {
        match self {
            Admin::Calls(calls) => calls.promote(id),
            Admin::Pages(asked) => post(asked, MembersPage::Promote(id)).map(drop),
        }
    }

    /// Removes a replica.
    pub(super) fn remove(&self, id: u16) -> Result<(), Failure> {
        match self {
            Admin::Calls(calls) => calls.remove(id),
            Admin::Pages(asked) => post(asked, MembersPage::Remove(id)).map(drop),
        }
    }
}

/// Posts a change of members; the answer is the number of the replica.
fn post(asked: &Asked, page: MembersPage) -> Result<u16, Failure> {
    let answer = asked.post("/cluster/members", &page)?;
    let id = answer.trim().parse();
    id.map_err(|_| Failure::Failed("the answer names no replica".to_owned()))
}

/// A connection to a replica with etcd's face.
pub(super) struct Calls {
    runtime: Runtime,
    client: EtcdClient,
}

impl Calls {
    /// Connects to the first endpoint that lets it.
    fn connect(asked: &Asked) -> Result<Calls, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime
            .map_err(|error| Failure::Failed(format!("cannot start the runtime: {error}")))?;
        let patience = Patience {
            answer: ANSWER_TIMEOUT,
            silence: None,
        };
        let client = runtime.block_on(EtcdClient::connect(asked, patience))?;
        Ok(Calls { runtime, client })
    }

    /// A request for a change, with reasons in words if it is refused.
    fn request<T>(&self, message: T) -> Request<T> {
        self.client.by_token(in_words(message))
    }

    fn service(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.client.channel.clone())
    }

    /// Adds a replica; says its number.
    fn add(&self, peer_url: &str) -> Result<u16, Failure> {
        let request = MemberAddRequest {
            peer_urls: vec![peer_url.to_owned()],
            is_learner: false,
        };
        let mut client = self.service();
        let request = self.request(request);
        let answer = self.runtime.block_on(client.member_add(request));
        let member = answer
            .map_err(|status| failed(&status))?
            .into_inner()
            .member;
        let id = member.and_then(|member| u16::try_from(member.id).ok());
        id.ok_or_else(|| Failure::Failed("the answer names no replica".to_owned()))
    }

    /// Makes a learner a member.
    fn promote(&self, id: u16) -> Result<(), Failure> {
        let request = self.request(MemberPromoteRequest { id: id.into() });
        let mut client = self.service();
        let answer = self.runtime.block_on(client.member_promote(request));
        answer.map(drop).map_err(|status| failed(&status))
    }

    /// Removes a replica.
    fn remove(&self, id: u16) -> Result<(), Failure> {
        let request = self.request(MemberRemoveRequest { id: id.into() });
        let mut client = self.service();
        let answer = self.runtime.block_on(client.member_remove(request));
        answer.map(drop).map_err(|status| failed(&status))
    }
}
