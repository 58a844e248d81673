//! Reading the store at a revision.

use crate::condition::{Operand, satisfies};
use crate::history::{History, Version};
use crate::refused::Refused;
use crate::span::Span;
use crate::store::Store;
use crate::value_refs::is_value_ref;
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::compare::CompareTarget;
use quorate_etcd_api::etcdserverpb::{
    Compare, RangeRequest, RangeResponse, ResponseHeader, SortOrder, SortTarget,
};
use quorate_etcd_api::mvccpb::KeyValue;
use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

/// The store as of its newest revision, which is one ahead of the store's own while a transaction
/// that has already changed something is under way.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) store: &'a Store,
    pub(crate) revision: i64,
}

impl<'a> View<'a> {
    /// One key, if it exists.
    pub(crate) fn get(self, key: &[u8]) -> Option<&'a Version> {
        self.store.keys.get(key)?.at(self.revision)
    }

    /// Visits the keys of a span that exist at a revision, ascending, until told to stop.
    pub(crate) fn each(
        self,
        span: Span<'_>,
        revision: i64,
        mut visit: impl FnMut(&'a [u8], &'a Version) -> ControlFlow<()>,
    ) {
        let mut step = |key: &'a [u8], history: &'a History| match history.at(revision) {
            Some(version) => visit(key, version),
            None => ControlFlow::Continue(()),
        };
        if let Span::One(key) = span {
            // A point look-up is half the work of a range of one.
            let found = self.store.keys.get_key_value(key);
            let _ = found.map(|(key, history)| step(key, history));
        } else if let Some(bounds) = span.bounds() {
            let mut keys = self.store.keys.range::<[u8], _>(bounds);
            let _ = keys.try_for_each(|(key, history)| step(key, history));
        }
    }

    /// Answers a checked range request at a revision known to be readable.
    pub(crate) fn range_at(self, request: &RangeRequest, revision: i64) -> RangeResponse {
        let mut response = RangeResponse {
            header: Some(header(self.revision)),
            ..RangeResponse::default()
        };
        let room = room_max(request);
        self.range_slice(request, revision, None, room, usize::MAX, &mut response);
        finish(request, &mut response);
        response
    }

    /// Adds to the answer of a range what the next `keys_max` keys give, `room` of them at most.
    pub(crate) fn range_slice(
        self,
        request: &RangeRequest,
        revision: i64,
        after: Option<&[u8]>,
        room: usize,
        keys_max: usize,
        response: &mut RangeResponse,
    ) -> Slice {
        let mut add = |key: &[u8], history: &History| {
            let Some(version) = history.at(revision) else {
                return;
            };
            response.count += 1;
            if response.kvs.len() < room && passes(request, version) {
                response.kvs.push(key_value(key, version));
            }
        };
        let mut slice = Slice::default();
        let span = Span::new(&request.key, &request.range_end);
        if let Span::One(key) = span {
            // A point look-up is half the work of a range of one.
            if let Some((key, history)) = self.store.keys.get_key_value(key) {
                add(key, history);
            }
        } else if let Some((from, to)) = span.bounds() {
            let from = after.map_or(from, Bound::Excluded);
            for (key, history) in self.store.keys.range::<[u8], _>((from, to)) {
                add(key, history);
                slice.keys += 1;
                if slice.keys >= keys_max {
                    slice.after = Some(Bytes::copy_from_slice(key));
                    break;
                }
            }
        }
        slice
    }

    /// The revision a range request means, if it can be read.
    pub(crate) fn readable(self, wanted: i64) -> Result<i64, Refused> {
        match wanted {
            wanted if wanted > self.revision => Err(Refused::FutureRevision),
            wanted if wanted <= 0 => Ok(self.revision),
            wanted if wanted < self.store.compacted => Err(Refused::Compacted),
            wanted => Ok(wanted),
        }
    }

    /// Whether every condition holds.
    pub(crate) fn all_hold(self, conditions: &[Compare]) -> Result<bool, Refused> {
        for condition in conditions {
            if !self.holds(condition)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn holds(self, condition: &Compare) -> Result<bool, Refused> {
        let span = Span::new(&condition.key, &condition.range_end);
        let operand = Operand::of(condition);
        let mut found = false;
        let mut holds = Ok(true);
        self.each(span, self.revision, |_, version| {
            found = true;
            holds = satisfies(condition, &operand, version);
            if holds == Ok(true) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        if found {
            return holds;
        }
        // A missing key is all zeros, but it has no value: not even the empty one.
        if condition.target == CompareTarget::Value as i32 {
            return Ok(false);
        }
        satisfies(condition, &operand, &Version::deletion(0, 0))
    }
}

/// What a slice of a range came to.
#[derive(Default)]
pub(crate) struct Slice {
    /// Keys looked at.
    pub(crate) keys: usize,
    /// The last of them, unless the range was read to its end.
    pub(crate) after: Option<Bytes>,
}

/// Whether the answer to a range request can be sorted and cut only once its values are there.
pub(crate) fn is_deferred(request: &RangeRequest, response: &RangeResponse) -> bool {
    request.sort_target == SortTarget::Value as i32 && response.kvs.iter().any(is_value_ref)
}

/// Makes the answer to a range request of all that was collected for it, unless that is deferred.
pub(crate) fn finish(request: &RangeRequest, response: &mut RangeResponse) {
    if is_deferred(request, response) {
        return;
    }
    sort(request, &mut response.kvs);
    let limit = limit(request);
    response.more = response.kvs.len() > limit;
    response.kvs.truncate(limit);
    hide_values(request, &mut response.kvs);
}

/// Leaves the values out where only keys are wanted.
pub(crate) fn hide_values(request: &RangeRequest, kvs: &mut [KeyValue]) {
    if !request.keys_only {
        return;
    }
    // etcd 3.7 has no lease at hand, unless it had to look at the values.
    let has_leases = request.sort_target == SortTarget::Value as i32;
    for kv in kvs {
        kv.value.clear();
        kv.version = kv.version.saturating_abs();
        kv.lease = if has_leases { kv.lease } else { 0 };
    }
}

/// A header that knows only the revision; the face adds who answers.
pub(crate) fn header(revision: i64) -> ResponseHeader {
    ResponseHeader {
        revision,
        ..ResponseHeader::default()
    }
}

/// A key as responses show it. Shares the value, if it is large; of one that is apart it has the
/// reference.
pub(crate) fn key_value(key: &[u8], version: &Version) -> KeyValue {
    let mut kv = KeyValue {
        key: Bytes::copy_from_slice(key),
        create_revision: version.created,
        mod_revision: version.modified,
        version: version.version,
        value: Bytes::new(),
        lease: version.lease,
    };
    version.value.show(&mut kv);
    kv
}

/// Most keys to return.
fn limit(request: &RangeRequest) -> usize {
    match request.limit {
        limit if limit > 0 => usize::try_from(limit).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}

/// Most keys to collect: one more than the limit tells whether there are more, but what is sorted
/// or filtered has to be collected whole. A target without an order does not count as sorted here:
/// that is etcd's way, and clients may see it.
pub(crate) fn room_max(request: &RangeRequest) -> usize {
    if request.count_only {
        return 0;
    }
    let by_key = request.sort_target == SortTarget::Key as i32;
    let sorted = match request.sort_order {
        order if order == SortOrder::None as i32 => false,
        order if order == SortOrder::Ascend as i32 => !by_key,
        _ => true,
    };
    let filtered = request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0;
    if sorted || filtered {
        usize::MAX
    } else {
        limit(request).saturating_add(1)
    }
}

/// Whether a key passes the revision filters; a bound of 0 is none.
fn passes(request: &RangeRequest, version: &Version) -> bool {
    let within = |value, min, max| (min == 0 || value >= min) && (max == 0 || value <= max);
    within(
        version.modified,
        request.min_mod_revision,
        request.max_mod_revision,
    ) && within(
        version.created,
        request.min_create_revision,
        request.max_create_revision,
    )
}

/// Sorts what was collected in key order. Equal keys of sorting stay in key order.
fn sort(request: &RangeRequest, kvs: &mut [KeyValue]) {
    let descend = request.sort_order == SortOrder::Descend as i32;
    let compare: fn(&KeyValue, &KeyValue) -> Ordering =
        match SortTarget::try_from(request.sort_target) {
            Ok(SortTarget::Version) => {
                |a, b| a.version.saturating_abs().cmp(&b.version.saturating_abs())
            }
            Ok(SortTarget::Create) => |a, b| a.create_revision.cmp(&b.create_revision),
            Ok(SortTarget::Mod) => |a, b| a.mod_revision.cmp(&b.mod_revision),
            Ok(SortTarget::Value) => |a, b| a.value.cmp(&b.value),
            Ok(SortTarget::Key) | Err(_) => {
                if descend {
                    kvs.reverse();
                }
                return;
            }
        };
    if descend {
        kvs.sort_by(|a, b| compare(b, a));
    } else {
        kvs.sort_by(compare);
    }
}
