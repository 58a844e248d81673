//! Calls that are not to be served by a member that is cut off: those with `hasleader: true` among their metadata.
//!
//! etcd refuses them while a member knows no leader, and ends such streams once it has known none for some time. Here a
//! member that reaches a quorum counts as one that knows a leader (`docs/decisions/0030-no-leader.md`).

use crate::face::status;
use quorate_etcd_api::errors;
use quorate_etcd_store::Store;
use quorate_server::{Handle, Quorum};
use std::future::pending;
use tokio::sync::watch;
use tonic::codegen::http::HeaderMap;
use tonic::{Request, Status};

/// Whether a call is only for a member that reaches a quorum.
pub(crate) fn requires_leader(headers: &HeaderMap) -> bool {
    headers
        .get("hasleader")
        .is_some_and(|value| value == "true")
}

/// Ends the stream of a call that requires a leader.
pub(crate) struct LeaderWatch(Option<watch::Receiver<Quorum>>);

impl LeaderWatch {
    /// Watches for a call, if it wants that.
    pub(crate) fn of<T>(request: &Request<T>, handle: &Handle<Store>) -> LeaderWatch {
        let wants = requires_leader(request.metadata().as_ref());
        LeaderWatch(wants.then(|| handle.watch_quorum()))
    }

    /// Completes once the quorum is lost, with what the client is told; never for other calls.
    pub(crate) async fn lost(&mut self) -> Status {
        if let Some(quorum) = &mut self.0
            && quorum
                .wait_for(|quorum| *quorum == Quorum::Lost)
                .await
                .is_ok()
        {
            return status(errors::NO_LEADER);
        }
        // Where the replica ends, the stream ends with it.
        pending().await
    }
}
