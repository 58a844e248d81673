//! Users, roles and permissions (package `authpb`).

use bytes::Bytes;

/// The accesses that a permission gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum PermissionType {
    /// Keys may be read and watched.
    Read = 0,
    /// Keys may be written and deleted.
    Write = 1,
    /// Keys may be read, watched, written and deleted.
    Readwrite = 2,
}

/// Access to a key or a range of keys.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Permission {
    /// The accesses that are given.
    #[prost(enumeration = "PermissionType", tag = "1")]
    pub perm_type: i32,
    /// The key, or the first of the range.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    /// The end of the range, in the way of a range request.
    #[prost(bytes = "bytes", tag = "3")]
    pub range_end: Bytes,
}

/// How a user is added.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UserAddOptions {
    /// The user has no password: it is known by the name in its certificate alone.
    #[prost(bool, tag = "1")]
    pub no_password: bool,
}
