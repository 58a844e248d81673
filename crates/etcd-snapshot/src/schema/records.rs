//! Records of buckets, encoded as etcd has them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A lease (`leasepb.Lease`).
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaseRecord {
    /// The number of the lease.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// Time to live that it was granted with, in seconds.
    #[prost(int64, tag = "2")]
    pub ttl_s: i64,
    /// Time that was left at a checkpoint, in seconds; 0 if there was none.
    #[prost(int64, tag = "3")]
    pub remaining_ttl_s: i64,
}

/// A user (`authpb.User`).
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct UserRecord {
    /// The name of the user.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// The bcrypt hash of the password.
    #[prost(bytes = "bytes", tag = "2")]
    pub password: Bytes,
    /// The names of the user's roles.
    #[prost(string, repeated, tag = "3")]
    pub roles: Vec<String>,
    /// What else was said of the user.
    #[prost(message, optional, tag = "4")]
    pub options: Option<UserOptions>,
}

impl fmt::Debug for UserRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A hash is a secret, too.
        f.debug_struct("UserRecord")
            .field("name", &self.name)
            .field("roles", &self.roles)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Options of a user (`authpb.UserAddOptions`).
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UserOptions {
    /// Whether the user can only be known by a certificate.
    #[prost(bool, tag = "1")]
    pub no_password: bool,
}

/// A role (`authpb.Role`).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RoleRecord {
    /// The name of the role.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// What the role may do.
    #[prost(message, repeated, tag = "2")]
    pub permissions: Vec<PermissionRecord>,
}

/// A right to keys (`authpb.Permission`).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PermissionRecord {
    /// To read (0), to write (1), or both (2).
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// The key, or the first of the range.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    /// The end of the range, as in a range request.
    #[prost(bytes = "bytes", tag = "3")]
    pub range_end: Bytes,
}

/// A member of an etcd cluster, as its `members` bucket has it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct MemberRecord {
    /// The number of the member.
    pub id: u64,
    /// The name of the member; empty before it was started.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where its peers reach the member.
    #[serde(rename = "peerURLs", default)]
    pub peer_urls: Vec<String>,
    /// Where clients reach the member.
    #[serde(rename = "clientURLs", default, skip_serializing_if = "Vec::is_empty")]
    pub client_urls: Vec<String>,
    /// Whether the member has no vote.
    #[serde(
        rename = "isLearner",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_learner: bool,
}
