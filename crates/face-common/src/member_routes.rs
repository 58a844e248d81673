//! The route that changes who is a member, for faces whose protocol has no calls for that.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use quorate_core::{Application, ReplicaId};
use quorate_server::{ChangeError, Consistency, Failure, GroupChange, Handle, MembersPage};

/// The longest URL of a peer port, in bytes.
const URL_BYTES_MAX: usize = 300;

/// Why members were not changed.
#[derive(Debug)]
enum NotChanged {
    /// The request makes no sense.
    Bad(String),
    /// The group refuses the change, or nobody knows.
    Change(ChangeError),
}

impl From<ChangeError> for NotChanged {
    fn from(error: ChangeError) -> Self {
        NotChanged::Change(error)
    }
}

impl From<Failure> for NotChanged {
    fn from(failure: Failure) -> Self {
        NotChanged::Change(ChangeError::Failed(failure))
    }
}

/// Changes the members as a posted page says; the answer is the number of the replica.
pub(crate) async fn change_members<A: Application>(
    handle: &Handle<A>,
    probe: impl AsyncFnOnce(Consistency) -> Result<(), String>,
    body: &Bytes,
) -> Response {
    let page: MembersPage = match serde_json::from_slice(body) {
        Ok(page) => page,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let changed = match page {
        MembersPage::Add(url) => add(handle, probe, url).await,
        MembersPage::Promote(id) => promote(handle, ReplicaId(id)).await,
        MembersPage::Remove(id) => remove(handle, ReplicaId(id)).await,
    };
    match changed {
        Ok(id) => (StatusCode::OK, id.0.to_string()).into_response(),
        Err(NotChanged::Bad(why)) => (StatusCode::BAD_REQUEST, why).into_response(),
        Err(NotChanged::Change(error)) => not_changed(&error),
    }
}

/// What an operator is told of a change that did not come about.
pub(crate) fn not_changed(error: &ChangeError) -> Response {
    let code = match error {
        ChangeError::Failed(failure) if failure.may_be_done() => StatusCode::GATEWAY_TIMEOUT,
        ChangeError::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::CONFLICT,
    };
    (code, error.to_string()).into_response()
}

/// Lets a new replica follow the group, under the next number that none has.
async fn add<A: Application>(
    handle: &Handle<A>,
    probe: impl AsyncFnOnce(Consistency) -> Result<(), String>,
    url: String,
) -> Result<ReplicaId, NotChanged> {
    if !is_peer_url(&url) {
        return Err(NotChanged::Bad(format!(
            "{url:?} is not of the form http://host:port or https://host:port"
        )));
    }
    // Whoever was added before is known here then.
    probe(Consistency::Linearizable)
        .await
        .map_err(|_| Failure::Timeout)?;
    let members = handle.status().await?.members;
    if members.iter().any(|member| member.peer_url == url) {
        let why = format!("there is a replica at {url} already");
        return Err(ChangeError::Refused(why).into());
    }
    let last = members.iter().map(|member| member.id.0).max();
    let id = ReplicaId(last.unwrap_or(0) + 1);
    handle.change_soon(GroupChange::Address { id, url }).await?;
    Ok(id)
}

async fn promote<A: Application>(
    handle: &Handle<A>,
    id: ReplicaId,
) -> Result<ReplicaId, NotChanged> {
    handle.change_soon(GroupChange::Promote(id)).await?;
    Ok(id)
}

async fn remove<A: Application>(
    handle: &Handle<A>,
    id: ReplicaId,
) -> Result<ReplicaId, NotChanged> {
    let forget = || handle.change(GroupChange::Forget(id));
    match handle.change_soon(GroupChange::Remove(id)).await {
        // Of a member it need not ever have been decided where it is.
        Ok(()) => drop(forget().await),
        // A learner has nothing but an address.
        Err(ChangeError::Unknown(_)) => forget().await?,
        Err(error) => return Err(error.into()),
    }
    Ok(id)
}

fn is_peer_url(url: &str) -> bool {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    let parts = rest.and_then(|rest| rest.rsplit_once(':'));
    parts.is_some_and(|(host, port)| {
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        is_port && !host.is_empty() && !host.contains('/') && url.len() <= URL_BYTES_MAX
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_reached_at_one_port() {
        for url in [
            "http://10.0.0.4:2380",
            "https://db-4:1",
            "http://[::1]:2380",
        ] {
            assert!(is_peer_url(url), "{url}");
        }
        for url in [
            "10.0.0.4:2380",
            "http://:1",
            "http://a:0",
            "http://a:1/x",
            "http://a",
        ] {
            assert!(!is_peer_url(url), "{url}");
        }
    }
}
