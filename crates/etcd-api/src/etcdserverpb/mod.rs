//! Requests and responses of etcd's services (package `etcdserverpb`).

mod auth;
mod cluster;
mod kv;
mod lease;
mod maintenance;
mod txn;
mod watch;

pub use auth::*;
pub use cluster::*;
pub use kv::*;
pub use lease::*;
pub use maintenance::*;
pub use txn::*;
pub use watch::*;

/// What every response begins with.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ResponseHeader {
    /// The answering cluster.
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    /// The answering member.
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// Revision of the store when the request was applied; 0 where the store was not asked.
    #[prost(int64, tag = "3")]
    pub revision: i64,
    /// The term of etcd's log protocol.
    #[prost(uint64, tag = "4")]
    pub raft_term: u64,
}
