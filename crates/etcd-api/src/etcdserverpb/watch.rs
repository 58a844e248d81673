//! The Watch service.

use super::ResponseHeader;
use crate::mvccpb::Event;
use bytes::Bytes;

/// One request on a watch stream.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WatchRequest {
    /// The request of this message.
    #[prost(oneof = "watch_request::RequestUnion", tags = "1, 2, 3")]
    pub request_union: Option<watch_request::RequestUnion>,
}

/// The union in [`WatchRequest`].
pub mod watch_request {
    /// A request on a stream of watches.
    #[derive(Clone, PartialEq, Eq, prost::Oneof)]
    pub enum RequestUnion {
        /// Begin a watch.
        #[prost(message, tag = "1")]
        CreateRequest(super::WatchCreateRequest),
        /// End a watch.
        #[prost(message, tag = "2")]
        CancelRequest(super::WatchCancelRequest),
        /// Tell how far the stream has come.
        #[prost(message, tag = "3")]
        ProgressRequest(super::WatchProgressRequest),
    }
}

/// Events a watch does not want.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum FilterType {
    /// Leave out writes.
    Noput = 0,
    /// Leave out deletions.
    Nodelete = 1,
}

/// Begins a watch; the range is given as in [`super::RangeRequest`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WatchCreateRequest {
    /// The key, or the first of the range.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The end of the range, exclusive.
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    /// First revision wanted; 0 for what comes from now on.
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    /// Tell the progress now and then when nothing happens.
    #[prost(bool, tag = "4")]
    pub progress_notify: bool,
    /// What to leave out.
    #[prost(enumeration = "FilterType", repeated, tag = "5")]
    pub filters: Vec<i32>,
    /// Send what was there before, too.
    #[prost(bool, tag = "6")]
    pub prev_kv: bool,
    /// A number of the client's choice; 0 lets the server choose.
    #[prost(int64, tag = "7")]
    pub watch_id: i64,
    /// A large revision may be split over several responses.
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

/// Ends a watch.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WatchCancelRequest {
    /// The watch to cancel.
    #[prost(int64, tag = "1")]
    pub watch_id: i64,
}

/// Asks how far the stream has come.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WatchProgressRequest {}

/// One message on a watch stream.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WatchResponse {
    /// The usual header; the revision tells the progress.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The watch that the response belongs to.
    #[prost(int64, tag = "2")]
    pub watch_id: i64,
    /// The watch has begun.
    #[prost(bool, tag = "3")]
    pub created: bool,
    /// The watch has ended.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// First revision still readable, when the wanted one is not.
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    /// Why it ended, in words.
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    /// More of the same revision follows.
    #[prost(bool, tag = "7")]
    pub fragment: bool,
    /// The events, by revision.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}
