//! What is asked about members and what they keep: answered from one member's own state.

use quorate_etcd_api::etcdserverpb::{
    DefragmentRequest, DefragmentResponse, HashKvRequest, HashKvResponse, HashRequest,
    HashResponse, MemberListRequest, MemberListResponse, MoveLeaderRequest, MoveLeaderResponse,
    StatusRequest, StatusResponse,
};
use quorate_face_etcd::client::MaintenanceClient;

use super::answer::plain;
use super::side::{Served, Side};
use super::step::Action;

impl Side {
    /// Asks a member that knows every write so far.
    pub(super) async fn maintain(&mut self, at: usize, action: &Action) -> Served {
        match action {
            Action::Status => {
                let request = StatusRequest {};
                self.call(at, "/etcdserverpb.Maintenance/Status", request, show_status)
                    .await
            }
            Action::HashKv { revision } => {
                let request = HashKvRequest {
                    revision: *revision,
                };
                let answer = |_: &mut Side, message: &mut HashKvResponse| message.hash = 0;
                self.call(at, "/etcdserverpb.Maintenance/HashKV", request, answer)
                    .await
            }
            Action::Hash => {
                let request = HashRequest {};
                let answer = |_: &mut Side, message: &mut HashResponse| message.hash = 0;
                self.call(at, "/etcdserverpb.Maintenance/Hash", request, answer)
                    .await
            }
            Action::Alarms => self.alarms(at).await,
            Action::Defragment => {
                let request = DefragmentRequest {};
                let answer = |_: &mut Side, _: &mut DefragmentResponse| ();
                self.call(at, "/etcdserverpb.Maintenance/Defragment", request, answer)
                    .await
            }
            Action::MoveLeader { target_id } => {
                let request = MoveLeaderRequest {
                    target_id: *target_id,
                };
                let answer = |_: &mut Side, _: &mut MoveLeaderResponse| ();
                let leader = self.leader().await?;
                self.call(
                    leader,
                    "/etcdserverpb.Maintenance/MoveLeader",
                    request,
                    answer,
                )
                .await
            }
            Action::Members { linearizable } => {
                let request = MemberListRequest {
                    linearizable: *linearizable,
                };
                self.call(
                    at,
                    "/etcdserverpb.Cluster/MemberList",
                    request,
                    show_members,
                )
                .await
            }
            other => Err(format!("{} is not maintenance", plain(other))),
        }
    }

    /// The member that names itself leader: the only one that moves it.
    async fn leader(&self) -> Result<usize, String> {
        for (at, channel) in self.members.iter().enumerate() {
            let mut maintenance = MaintenanceClient::new(channel.clone());
            let status = maintenance.status(self.asked(StatusRequest {})?).await;
            let Ok(status) = status.map(tonic::Response::into_inner) else {
                continue;
            };
            if status.header.map(|header| header.member_id) == Some(status.leader) {
                return Ok(at);
            }
        }
        // Who may not ask who it is is refused by whomever it asks.
        Ok(0)
    }
}

/// Sizes, positions in the log and the release are every system's own.
fn show_status(_: &mut Side, message: &mut StatusResponse) {
    message.version = shape(&message.version);
    message.storage_version = shape(&message.storage_version);
    (message.db_size, message.db_size_in_use) = (0, 0);
    message.db_size_quota = 0;
    message.leader = message.leader.min(1);
    (message.raft_index, message.raft_applied_index) = (0, 0);
    message.raft_term = 0;
    for error in &mut message.errors {
        error.retain(|letter| !letter.is_ascii_digit());
    }
    message.errors.sort();
}

/// The clusters differ in size; what is known of a member does not.
fn show_members(_: &mut Side, message: &mut MemberListResponse) {
    message.members.truncate(1);
    for member in &mut message.members {
        (member.id, member.name) = (0, String::new());
        member.peer_urls.iter_mut().for_each(String::clear);
        member.client_urls.iter_mut().for_each(String::clear);
    }
}

/// Whether a text is there, and how many parts it has.
fn shape(version: &str) -> String {
    version.chars().filter(|letter| *letter == '.').collect()
}
