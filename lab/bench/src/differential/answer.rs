//! Answers without what every system has of its own.

use std::fmt::Debug;

use quorate_etcd_api::etcdserverpb as pb;
use quorate_etcd_api::etcdserverpb::ResponseHeader;
use quorate_etcd_api::{v3electionpb, v3lockpb};
use tonic::{Code, Response, Status};

use super::step::Outcome;

/// A response with a header.
pub(crate) trait EtcdAnswer: Debug {
    fn header(&mut self) -> &mut Option<ResponseHeader>;
}

macro_rules! answers {
    ($($name:path),* $(,)?) => {
        $(impl EtcdAnswer for $name {
            fn header(&mut self) -> &mut Option<ResponseHeader> {
                &mut self.header
            }
        })*
    };
}

answers! {
    pb::RangeResponse,
    pb::PutResponse,
    pb::DeleteRangeResponse,
    pb::TxnResponse,
    pb::CompactionResponse,
    pb::LeaseGrantResponse,
    pb::LeaseRevokeResponse,
    pb::LeaseKeepAliveResponse,
    pb::LeaseTimeToLiveResponse,
    pb::LeaseLeasesResponse,
    pb::WatchResponse,
    pb::StatusResponse,
    pb::HashKvResponse,
    pb::HashResponse,
    pb::AlarmResponse,
    pb::DefragmentResponse,
    pb::MemberListResponse,
    pb::MoveLeaderResponse,
    pb::AuthEnableResponse,
    pb::AuthDisableResponse,
    pb::AuthStatusResponse,
    pb::AuthenticateResponse,
    pb::AuthUserAddResponse,
    pb::AuthUserGetResponse,
    pb::AuthUserListResponse,
    pb::AuthUserDeleteResponse,
    pb::AuthUserChangePasswordResponse,
    pb::AuthUserGrantRoleResponse,
    pb::AuthUserRevokeRoleResponse,
    pb::AuthRoleAddResponse,
    pb::AuthRoleGetResponse,
    pb::AuthRoleListResponse,
    pb::AuthRoleDeleteResponse,
    pb::AuthRoleGrantPermissionResponse,
    pb::AuthRoleRevokePermissionResponse,
    v3lockpb::LockResponse,
    v3lockpb::UnlockResponse,
    v3electionpb::CampaignResponse,
    v3electionpb::ProclaimResponse,
    v3electionpb::LeaderResponse,
    v3electionpb::ResignResponse,
}

/// What came of a call; `mask` leaves out what may differ.
pub(crate) fn outcome<M: EtcdAnswer>(
    answer: Result<Response<M>, Status>,
    mask: impl FnOnce(&mut M),
) -> Outcome {
    match answer {
        Ok(response) => {
            let mut message = response.into_inner();
            mask(&mut message);
            answered(message)
        }
        Err(status) => refused(&status),
    }
}

/// The outcome of a request that was answered.
pub(crate) fn answered(mut message: impl EtcdAnswer) -> Outcome {
    let revision = message.header().map_or(0, |header| header.revision);
    mask_header(&mut message);
    Outcome {
        text: plain(&message),
        revision,
        succeeded: true,
        ..Outcome::default()
    }
}

/// An error: its code and its words.
pub(crate) fn refused(status: &Status) -> Outcome {
    let code: Code = status.code();
    Outcome {
        text: format!("{code:?}: {}", status.message()),
        ..Outcome::default()
    }
}

/// Leaves only the revision of a header; that there is one stays to be seen.
pub(crate) fn mask_header(message: &mut impl EtcdAnswer) {
    if let Some(header) = message.header() {
        *header = ResponseHeader {
            revision: header.revision,
            ..ResponseHeader::default()
        };
    }
}

/// A message in words, without the fields of a header that are left out anyway.
pub(crate) fn plain(message: &impl Debug) -> String {
    let text = format!("{message:?}");
    text.replace(
        "ResponseHeader { cluster_id: 0, member_id: 0, revision: ",
        "At(",
    )
    .replace(", raft_term: 0 }", ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_does_not_matter_and_when_does() {
        let answer = |member_id, revision| {
            let header = Some(ResponseHeader {
                cluster_id: member_id * 7,
                member_id,
                revision,
                raft_term: member_id,
            });
            let message = pb::PutResponse {
                header,
                prev_kv: None,
            };
            outcome(Ok(Response::new(message)), |_| ())
        };
        assert_eq!(answer(1, 5), answer(2, 5));
        assert!(!answer(1, 5).agrees(&answer(1, 6), 1));
        let error = Status::new(Code::NotFound, "gone");
        let failed = outcome::<pb::PutResponse>(Err(error), |_| ());
        assert_eq!(failed.text, "NotFound: gone");
        assert!(!failed.succeeded);
    }
}
