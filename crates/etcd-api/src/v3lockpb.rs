//! The Lock service (package `v3lockpb`).

use crate::etcdserverpb::ResponseHeader;
use bytes::Bytes;

/// Asks for a lock, and waits until it is free.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LockRequest {
    /// The name of the lock.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// The lease that the lock ends with; 0 for one that the server grants.
    #[prost(int64, tag = "2")]
    pub lease: i64,
}

/// A lock was taken.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LockResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The key that holds the lock for as long as it exists.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
}

/// Gives a lock back.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UnlockRequest {
    /// The key that the lock was taken with.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
}

/// A lock was given back.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UnlockResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}
