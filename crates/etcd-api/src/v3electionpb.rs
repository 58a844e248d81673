//! The Election service (package `v3electionpb`).

use crate::etcdserverpb::ResponseHeader;
use crate::mvccpb::KeyValue;
use bytes::Bytes;

/// Stands for election, and waits until it is won.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CampaignRequest {
    /// The name of the election.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// The lease that the leadership ends with; 0 for one that the server grants.
    #[prost(int64, tag = "2")]
    pub lease: i64,
    /// What the leader announces when it is elected.
    #[prost(bytes = "bytes", tag = "3")]
    pub value: Bytes,
}

/// The election was won.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CampaignResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// What the leader shows with later requests.
    #[prost(message, optional, tag = "2")]
    pub leader: Option<LeaderKey>,
}

/// Names a leadership.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LeaderKey {
    /// The name of the election.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// The key that holds the leadership for as long as it exists.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    /// The revision at which the key was created.
    #[prost(int64, tag = "3")]
    pub rev: i64,
    /// The lease that the leadership ends with.
    #[prost(int64, tag = "4")]
    pub lease: i64,
}

/// Asks who leads.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LeaderRequest {
    /// The name of the election.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
}

/// Tells who leads.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LeaderResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The leader's key, with what the leader announced.
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

/// Gives a leadership back.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResignRequest {
    /// The leadership to give back.
    #[prost(message, optional, tag = "1")]
    pub leader: Option<LeaderKey>,
}

/// A leadership was given back, or was over.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ResignResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// Announces another value, without another election.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ProclaimRequest {
    /// The leadership under which the value is announced.
    #[prost(message, optional, tag = "1")]
    pub leader: Option<LeaderKey>,
    /// The value to announce.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// A value was announced.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ProclaimResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}
