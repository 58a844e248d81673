//! The Maintenance service.

use super::ResponseHeader;
use bytes::Bytes;

/// Asks for a digest of everything the member stores.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HashRequest {}

/// A digest of everything.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HashResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The digest of the database.
    #[prost(uint32, tag = "2")]
    pub hash: u32,
}

/// Asks for a digest of the keys up to a revision.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HashKvRequest {
    /// The last revision to count; 0 for now.
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

/// A digest of the keys.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HashKvResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The digest of keys and versions.
    #[prost(uint32, tag = "2")]
    pub hash: u32,
    /// First readable revision when the digest was taken; -1 before any compaction.
    #[prost(int64, tag = "3")]
    pub compact_revision: i64,
    /// The last revision counted.
    #[prost(int64, tag = "4")]
    pub hash_revision: i64,
}

/// Asks for a copy of the member's state.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SnapshotRequest {}

/// A piece of the state.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SnapshotResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Bytes still to come after this piece.
    #[prost(uint64, tag = "2")]
    pub remaining_bytes: u64,
    /// The bytes of this piece.
    #[prost(bytes = "bytes", tag = "3")]
    pub blob: Bytes,
    /// Version of the server that made it.
    #[prost(string, tag = "4")]
    pub version: String,
}

/// Asks to give the space of deleted data back.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DefragmentRequest {}

/// The space is free.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DefragmentResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// Asks the leader to hand over.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MoveLeaderRequest {
    /// The member that shall lead.
    #[prost(uint64, tag = "1")]
    pub target_id: u64,
}

/// The leader has handed over.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MoveLeaderResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// Kinds of alarm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum AlarmType {
    /// Any kind, in a question.
    None = 0,
    /// No space left.
    Nospace = 1,
    /// Replicas hold different states.
    Corrupt = 2,
}

/// What to do about alarms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum AlarmAction {
    /// List the alarms.
    Get = 0,
    /// Raise an alarm.
    Activate = 1,
    /// End an alarm.
    Deactivate = 2,
}

/// Lists, raises or ends alarms.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AlarmRequest {
    /// What to do.
    #[prost(enumeration = "AlarmAction", tag = "1")]
    pub action: i32,
    /// Of which member; 0 for all.
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// The kind of alarm.
    #[prost(enumeration = "AlarmType", tag = "3")]
    pub alarm: i32,
}

/// An alarm that is raised.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AlarmMember {
    /// The member that the alarm is about.
    #[prost(uint64, tag = "1")]
    pub member_id: u64,
    /// The kind of alarm.
    #[prost(enumeration = "AlarmType", tag = "2")]
    pub alarm: i32,
}

/// The alarms concerned.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AlarmResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The alarms that are raised.
    #[prost(message, repeated, tag = "2")]
    pub alarms: Vec<AlarmMember>,
}

/// Steps of a downgrade.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum DowngradeAction {
    /// Ask whether it is possible.
    Validate = 0,
    /// Begin the downgrade.
    Enable = 1,
    /// Give it up.
    Cancel = 2,
}

/// Moves the cluster to an older version.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DowngradeRequest {
    /// The step to take.
    #[prost(enumeration = "DowngradeAction", tag = "1")]
    pub action: i32,
    /// The older version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// The step was taken.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DowngradeResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The cluster's version now.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// Asks how the member is.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StatusRequest {}

/// How the member is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StatusResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Version of the server.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Bytes of state, free space included.
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    /// The leader; 0 for none.
    #[prost(uint64, tag = "4")]
    pub leader: u64,
    /// Log positions committed.
    #[prost(uint64, tag = "5")]
    pub raft_index: u64,
    /// The term of etcd's log protocol.
    #[prost(uint64, tag = "6")]
    pub raft_term: u64,
    /// Log positions applied.
    #[prost(uint64, tag = "7")]
    pub raft_applied_index: u64,
    /// Trouble, in words.
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
    /// Bytes of state, without free space.
    #[prost(int64, tag = "9")]
    pub db_size_in_use: i64,
    /// The member follows without a vote.
    #[prost(bool, tag = "10")]
    pub is_learner: bool,
    /// Version of the stored form.
    #[prost(string, tag = "11")]
    pub storage_version: String,
    /// Most bytes of state allowed.
    #[prost(int64, tag = "12")]
    pub db_size_quota: i64,
    /// Whether a downgrade is under way.
    #[prost(message, optional, tag = "13")]
    pub downgrade_info: Option<DowngradeInfo>,
}

/// A downgrade under way.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DowngradeInfo {
    /// There is one.
    #[prost(bool, tag = "1")]
    pub enabled: bool,
    /// To which version.
    #[prost(string, tag = "2")]
    pub target_version: String,
}
