//! Asking for changes: etcd's Cluster service, as `etcdctl member` does.

use crate::Failure;
use crate::endpoints::{ANSWER_TIMEOUT, host_port};
use quorate_etcd_api::etcdserverpb::{MemberAddRequest, MemberPromoteRequest, MemberRemoveRequest};
use quorate_face_etcd::client::ClusterClient;
use tokio::runtime::Runtime;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// A connection to a replica.
pub(super) struct Admin {
    runtime: Runtime,
    client: ClusterClient<Channel>,
}

impl Admin {
    /// Connects to the first endpoint that lets it.
    pub(super) fn connect(endpoints: &[String]) -> Result<Admin, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the runtime: {error}"))?;
        let mut why = String::new();
        for endpoint in endpoints {
            let url = format!("http://{}", host_port(endpoint));
            let channel = Endpoint::from_shared(url).map_err(|error| error.to_string())?;
            let channel = channel.timeout(ANSWER_TIMEOUT);
            match runtime.block_on(channel.connect()) {
                Ok(channel) => {
                    let client = ClusterClient::new(channel);
                    return Ok(Admin { runtime, client });
                }
                Err(_) => why = format!("no replica answers at {endpoint}: is it running?"),
            }
        }
        Err(why)
    }

    /// Adds a replica; says its number.
    pub(super) fn add(&self, peer_url: &str) -> Result<u16, Failure> {
        let request = MemberAddRequest {
            peer_urls: vec![peer_url.to_owned()],
            is_learner: false,
        };
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.member_add(request));
        let member = answer.map_err(failed)?.into_inner().member;
        let id = member.and_then(|member| u16::try_from(member.id).ok());
        id.ok_or_else(|| Failure::Failed("the answer names no replica".to_owned()))
    }

    /// Makes a learner a member.
    pub(super) fn promote(&self, id: u16) -> Result<(), Failure> {
        let request = MemberPromoteRequest { id: id.into() };
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.member_promote(request));
        answer.map(drop).map_err(failed)
    }

    /// Removes a replica.
    pub(super) fn remove(&self, id: u16) -> Result<(), Failure> {
        let request = MemberRemoveRequest { id: id.into() };
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.member_remove(request));
        answer.map(drop).map_err(failed)
    }
}

fn failed(status: Status) -> Failure {
    let text = status.message();
    let text = text.strip_prefix("etcdserver: ").unwrap_or(text);
    Failure::Failed(text.strip_prefix("quorate: ").unwrap_or(text).to_owned())
}
