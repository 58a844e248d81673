//! The Cluster service.

use super::ResponseHeader;

/// A member of the cluster.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Member {
    /// The member's id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// A name for people; empty until it has started.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Where the others reach it.
    #[prost(string, repeated, tag = "3")]
    pub peer_urls: Vec<String>,
    /// Where clients reach it; empty until it has started.
    #[prost(string, repeated, tag = "4")]
    pub client_urls: Vec<String>,
    /// The member follows without a vote.
    #[prost(bool, tag = "5")]
    pub is_learner: bool,
}

/// Adds a member.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemberAddRequest {
    /// Where the others will reach it.
    #[prost(string, repeated, tag = "1")]
    pub peer_urls: Vec<String>,
    /// The member shall follow without a vote.
    #[prost(bool, tag = "2")]
    pub is_learner: bool,
}

/// A member was added.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemberAddResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The new member.
    #[prost(message, optional, tag = "2")]
    pub member: Option<Member>,
    /// All members after the change.
    #[prost(message, repeated, tag = "3")]
    pub members: Vec<Member>,
}

/// Removes a member.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MemberRemoveRequest {
    /// The member to remove.
    #[prost(uint64, tag = "1")]
    pub id: u64,
}

/// A member was removed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemberRemoveResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// All members after the change.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

/// Moves a member.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemberUpdateRequest {
    /// The member to update.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Where the others will reach it.
    #[prost(string, repeated, tag = "2")]
    pub peer_urls: Vec<String>,
}

/// A member was moved.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemberUpdateResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// All members after the change.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

/// Asks who is in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MemberListRequest {
    /// The answer shall be no staler than the request.
    #[prost(bool, tag = "1")]
    pub linearizable: bool,
}

/// Who is in the cluster.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemberListResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// All members of the cluster.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

/// Gives a learner its vote.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MemberPromoteRequest {
    /// The learner to promote.
    #[prost(uint64, tag = "1")]
    pub id: u64,
}

/// A learner has its vote.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemberPromoteResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// All members after the change.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}
