//! Asking for changes: etcd's Cluster service, as `etcdctl member` does, or a page where a face has none.

use crate::Failure;
use crate::endpoints::{ANSWER_TIMEOUT, Asked};
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::{
    AuthenticateRequest, MemberAddRequest, MemberPromoteRequest, MemberRemoveRequest,
};
use quorate_face_common::Dialer;
use quorate_face_etcd::client::{AuthClient, ClusterClient, in_words};
use quorate_server::MembersPage;
use quorate_tooling::login::Login;
use tokio::runtime::Runtime;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

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
    client: ClusterClient<Channel>,
    token: Option<MetadataValue<Ascii>>,
}

impl Calls {
    /// Connects to the first endpoint that lets it.
    fn connect(asked: &Asked) -> Result<Calls, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime
            .map_err(|error| Failure::Failed(format!("cannot start the runtime: {error}")))?;
        let mut why = String::new();
        for place in &asked.places {
            let url = match place.contains("://") {
                true => place.clone(),
                false => format!("http://{place}"),
            };
            let channel = Endpoint::from_shared(url);
            let channel = channel.map_err(|error| Failure::Failed(error.to_string()))?;
            let channel = channel.timeout(ANSWER_TIMEOUT);
            let dialer = Dialer::new(asked.tls.clone());
            match runtime.block_on(channel.connect_with_connector(dialer)) {
                Ok(channel) => {
                    let token = match &asked.user {
                        Some(user) => runtime.block_on(log_in(channel.clone(), user))?,
                        None => None,
                    };
                    return Ok(Calls {
                        runtime,
                        client: ClusterClient::new(channel),
                        token,
                    });
                }
                Err(error) => why = unreached(place, &error),
            }
        }
        Err(Failure::Failed(why))
    }

    /// A request for a change, with reasons in words if it is refused.
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = in_words(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    /// Adds a replica; says its number.
    fn add(&self, peer_url: &str) -> Result<u16, Failure> {
        let request = MemberAddRequest {
            peer_urls: vec![peer_url.to_owned()],
            is_learner: false,
        };
        let mut client = self.client.clone();
        let request = self.request(request);
        let answer = self.runtime.block_on(client.member_add(request));
        let member = answer.map_err(failed)?.into_inner().member;
        let id = member.and_then(|member| u16::try_from(member.id).ok());
        id.ok_or_else(|| Failure::Failed("the answer names no replica".to_owned()))
    }

    /// Makes a learner a member.
    fn promote(&self, id: u16) -> Result<(), Failure> {
        let request = self.request(MemberPromoteRequest { id: id.into() });
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.member_promote(request));
        answer.map(drop).map_err(failed)
    }

    /// Removes a replica.
    fn remove(&self, id: u16) -> Result<(), Failure> {
        let request = self.request(MemberRemoveRequest { id: id.into() });
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.member_remove(request));
        answer.map(drop).map_err(failed)
    }
}

/// A token for a user; none where authentication is off.
async fn log_in(channel: Channel, user: &Login) -> Result<Option<MetadataValue<Ascii>>, Failure> {
    let request = AuthenticateRequest {
        name: user.name.clone(),
        password: user.password.clone(),
    };
    let token = match AuthClient::new(channel).authenticate(request).await {
        Ok(answer) => answer.into_inner().token,
        Err(status) if status.message() == errors::AUTH_NOT_ENABLED.text => return Ok(None),
        Err(status) => return Err(failed(status)),
    };
    let token = token.parse();
    let token = token.map_err(|_| Failure::Failed("the answer is no token".to_owned()))?;
    Ok(Some(token))
}

/// Why a replica was not reached: what its certificate lacks, or nobody is there.
fn unreached(place: &str, error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let last = causes.last().map(ToString::to_string).unwrap_or_default();
    match place.starts_with("https://") {
        true => format!("no replica answers at {place}: {last}"),
        false => format!("no replica answers at {place}: is it running?"),
    }
}

fn failed(status: Status) -> Failure {
    let text = status.message();
    let text = text.strip_prefix("etcdserver: ").unwrap_or(text);
    Failure::Failed(text.strip_prefix("quorate: ").unwrap_or(text).to_owned())
}
