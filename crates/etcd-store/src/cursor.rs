//! Ranges of any length, read in chunks, each when whoever asked has taken the one before.
//!
//! The first chunk fixes the revision. Nothing is kept for a reader meanwhile: if the revision is compacted before the
//! range is read to its end, the rest is refused.

use crate::refused::Refused;
use crate::value_refs::ValueRef;
use crate::view::{View, hide_values, room_max};
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use quorate_etcd_api::mvccpb::KeyValue;

/// A place in a range, up to which it has been read. The range is neither sorted nor filtered.
#[derive(Clone, PartialEq, Debug)]
pub struct RangeCursor {
    request: RangeRequest,
    /// The revision that is read, and the store's when the first chunk was: known from then on.
    revisions: Option<(i64, i64)>,
    /// The last key looked at.
    after: Option<Bytes>,
    /// How many more keys are wanted, and one that tells whether there are more.
    room: usize,
    /// How many keys the next chunk looks at.
    keys_max: usize,
    /// Keys in the range, as far as it has been read.
    count: i64,
    has_ended: bool,
}

/// A chunk of a range.
#[derive(Clone, PartialEq, Debug)]
pub struct RangeChunk {
    kvs: Vec<KeyValue>,
    count: i64,
    revisions: (i64, i64),
    /// The last key looked at, unless it was the last of the range.
    after: Option<Bytes>,
}

impl RangeCursor {
    /// The beginning of a range, of which the first chunk looks at `keys_max` keys.
    #[must_use]
    pub fn new(request: RangeRequest, keys_max: usize) -> RangeCursor {
        RangeCursor {
            room: room_max(&request),
            request,
            revisions: None,
            after: None,
            keys_max,
            count: 0,
            has_ended: false,
        }
    }

    /// The request for the range.
    #[must_use]
    pub fn request(&self) -> &RangeRequest {
        &self.request
    }

    /// Takes a chunk, moves behind it, and gives the keys that are wanted of it.
    pub fn take(&mut self, chunk: RangeChunk) -> Vec<KeyValue> {
        let RangeChunk {
            mut kvs,
            count,
            revisions,
            after,
        } = chunk;
        self.room -= kvs.len().min(self.room);
        if self.is_cut() {
            kvs.pop();
        }
        hide_values(&self.request, &mut kvs);
        self.revisions = Some(revisions);
        self.count += count;
        self.has_ended = after.is_none();
        self.after = after;
        kvs
    }

    /// Sets how many keys the next chunk looks at.
    pub fn set_keys_max(&mut self, keys_max: usize) {
        self.keys_max = keys_max;
    }

    /// Whether the range was read to its end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What is known at the end of the range: the store's revision when it was begun, the count, whether keys were
    /// left out.
    #[must_use]
    pub fn summary(&self) -> (i64, RangeResponse) {
        let revision = self.revisions.map_or(0, |(_, store)| store);
        let response = RangeResponse {
            count: self.count,
            more: self.is_cut(),
            ..RangeResponse::default()
        };
        (revision, response)
    }

    /// Whether more keys were found than are wanted.
    fn is_cut(&self) -> bool {
        self.room == 0 && !self.request.count_only
    }
}

/// Bytes that a key of a chunk takes in a response, with its value, about.
#[must_use]
pub fn response_bytes(kv: &KeyValue) -> usize {
    let value = match ValueRef::of(kv) {
        Some(Ok(reference)) => reference.len as usize,
        _ => kv.value.len(),
    };
    size_of::<KeyValue>() + kv.key.len() + value
}

impl View<'_> {
    /// Reads the next chunk of a range.
    pub(crate) fn range_chunk(self, cursor: &RangeCursor) -> Result<RangeChunk, Refused> {
        let revisions = match cursor.revisions {
            None => (self.readable(cursor.request.revision)?, self.revision),
            Some((revision, _)) if revision < self.store.compacted => {
                return Err(Refused::Compacted);
            }
            Some((revision, _)) if revision > self.revision => {
                return Err(Refused::FutureRevision);
            }
            Some(revisions) => revisions,
        };
        let mut response = RangeResponse::default();
        let slice = self.range_slice(
            &cursor.request,
            revisions.0,
            cursor.after.as_deref(),
            cursor.room,
            cursor.keys_max.clamp(1, self.store.keys_per_slice),
            &mut response,
        );
        Ok(RangeChunk {
            kvs: response.kvs,
            count: response.count,
            revisions,
            after: slice.after,
        })
    }
}
