//! The KV service: range, put, delete and compact.

use super::ResponseHeader;
use crate::mvccpb::KeyValue;
use bytes::Bytes;

/// Direction of a sorted range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum SortOrder {
    /// Unsorted, which is by key.
    None = 0,
    /// The least comes first.
    Ascend = 1,
    /// The greatest comes first.
    Descend = 2,
}

/// What a range is sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum SortTarget {
    /// Sort by the key.
    Key = 0,
    /// The version of the key.
    Version = 1,
    /// The revision of creation.
    Create = 2,
    /// The revision of the last write.
    Mod = 3,
    /// Sort by the value.
    Value = 4,
}

/// Asks for keys.
///
/// An empty `range_end` means the one key, `\0` every key from `key` on, anything else the
/// half-open range.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RangeRequest {
    /// The key, or the first of the range.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The end of the range, exclusive.
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    /// Most keys to return; 0 for all.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// Revision to read at; 0 or less for now.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// Direction of sorting.
    #[prost(enumeration = "SortOrder", tag = "5")]
    pub sort_order: i32,
    /// What to sort by.
    #[prost(enumeration = "SortTarget", tag = "6")]
    pub sort_target: i32,
    /// The member's own state will do, even if stale.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    /// Leave the values out.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    /// Return nothing but the count.
    #[prost(bool, tag = "9")]
    pub count_only: bool,
    /// Leave out keys written before this revision.
    #[prost(int64, tag = "10")]
    pub min_mod_revision: i64,
    /// Leave out keys written after this revision.
    #[prost(int64, tag = "11")]
    pub max_mod_revision: i64,
    /// Leave out keys created before this revision.
    #[prost(int64, tag = "12")]
    pub min_create_revision: i64,
    /// Leave out keys created after this revision.
    #[prost(int64, tag = "13")]
    pub max_create_revision: i64,
}

/// The keys found.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RangeResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The keys, in the order asked for.
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// Whether the limit cut some off.
    #[prost(bool, tag = "3")]
    pub more: bool,
    /// Keys in the range, whatever limit and filters left out.
    #[prost(int64, tag = "4")]
    pub count: i64,
}

/// A part of a range that is answered in several messages.
///
/// Merged in order, as protobuf merges messages, the parts are the [`RangeResponse`] of the whole.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RangeStreamResponse {
    /// Some of the keys; the last part also has the header, the count, and whether the limit cut some off.
    #[prost(message, optional, tag = "1")]
    pub range_response: Option<RangeResponse>,
}

/// Writes a key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PutRequest {
    /// The key to write.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The value to write.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    /// The lease the key shall die with; 0 for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
    /// Return what was there before.
    #[prost(bool, tag = "4")]
    pub prev_kv: bool,
    /// Keep the present value; the key must exist.
    #[prost(bool, tag = "5")]
    pub ignore_value: bool,
    /// Keep the present lease; the key must exist.
    #[prost(bool, tag = "6")]
    pub ignore_lease: bool,
}

/// A put was applied.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PutResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// What was there before, if asked for and there was.
    #[prost(message, optional, tag = "2")]
    pub prev_kv: Option<KeyValue>,
}

/// Deletes keys; the range is given as in [`RangeRequest`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeleteRangeRequest {
    /// The key, or the first of the range.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The end of the range, exclusive.
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    /// Return what was deleted.
    #[prost(bool, tag = "3")]
    pub prev_kv: bool,
}

/// A deletion was applied.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeleteRangeResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The number of keys deleted.
    #[prost(int64, tag = "2")]
    pub deleted: i64,
    /// The deleted keys, if asked for.
    #[prost(message, repeated, tag = "3")]
    pub prev_kvs: Vec<KeyValue>,
}

/// Forgets history before a revision.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CompactionRequest {
    /// The first revision that stays readable.
    #[prost(int64, tag = "1")]
    pub revision: i64,
    /// Answer only when the space is free.
    #[prost(bool, tag = "2")]
    pub physical: bool,
}

/// History was forgotten.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CompactionResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}
