//! Keys, values and what happened to them (package `mvccpb`).

use bytes::Bytes;

/// A key with its value and revisions.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyValue {
    /// The key; never empty.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Revision at which the key's present life began.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    /// Revision of the last write.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// Writes in the key's present life, from 1.
    #[prost(int64, tag = "4")]
    pub version: i64,
    /// The value of the key.
    #[prost(bytes = "bytes", tag = "5")]
    pub value: Bytes,
    /// The lease the key dies with; 0 for none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

/// What happened to a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum EventType {
    /// The key was written.
    Put = 0,
    /// The key was deleted, or its lease ended.
    Delete = 1,
}

/// One change of one key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Event {
    /// Written or deleted.
    #[prost(enumeration = "EventType", tag = "1")]
    pub r#type: i32,
    /// After the change; for a deletion only the key and the revision of the deletion.
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
    /// Before the change.
    #[prost(message, optional, tag = "3")]
    pub prev_kv: Option<KeyValue>,
}
