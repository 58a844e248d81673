//! The Lease service.

use super::ResponseHeader;
use bytes::Bytes;

/// Asks for a lease.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaseGrantRequest {
    /// Wished time to live, in seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
    /// Wished number; 0 lets the server choose.
    #[prost(int64, tag = "2")]
    pub id: i64,
}

/// A lease was granted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LeaseGrantResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The lease's number.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// The lease's time to live, in seconds.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
    /// Trouble, in words.
    #[prost(string, tag = "4")]
    pub error: String,
}

/// Ends a lease and deletes its keys.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaseRevokeRequest {
    /// The lease to revoke.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// A lease was ended.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaseRevokeResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// Renews a lease.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaseKeepAliveRequest {
    /// The lease to keep alive.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// A lease was renewed.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaseKeepAliveResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The lease that was kept alive.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// The lease's new time to live, in seconds; 0 or less when it is gone.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

/// Asks about a lease.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaseTimeToLiveRequest {
    /// The lease that is asked about.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// List its keys too.
    #[prost(bool, tag = "2")]
    pub keys: bool,
}

/// What is known of a lease.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LeaseTimeToLiveResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The lease that was asked about.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// Time left, in seconds; -1 when it is gone.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
    /// Time granted at first or at the last renewal, in seconds.
    #[prost(int64, tag = "4")]
    pub granted_ttl: i64,
    /// The keys of the lease, if asked for.
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub keys: Vec<Bytes>,
}

/// Asks for all leases.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaseLeasesRequest {}

/// One lease of the list.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaseStatus {
    /// The lease's number.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// The list of all leases.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LeaseLeasesResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The leases that exist.
    #[prost(message, repeated, tag = "2")]
    pub leases: Vec<LeaseStatus>,
}
