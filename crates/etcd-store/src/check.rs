//! What can be said of a request without the store.
//!
//! Faces check before they order a command, so that nonsense never enters the log; the store checks
//! again when it applies one, because the log may have been written by somebody else.

use crate::refused::Refused;
use crate::span::Span;
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, SortOrder, SortTarget, TxnRequest,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Checks a range request.
pub fn range(request: &RangeRequest) -> Result<(), Refused> {
    if request.key.is_empty() {
        return Err(Refused::EmptyKey);
    }
    SortOrder::try_from(request.sort_order).map_err(|_| Refused::InvalidSort)?;
    SortTarget::try_from(request.sort_target).map_err(|_| Refused::InvalidSort)?;
    Ok(())
}

/// Checks a put.
pub fn put(request: &PutRequest) -> Result<(), Refused> {
    if request.key.is_empty() {
        return Err(Refused::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(Refused::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Refused::LeaseProvided);
    }
    Ok(())
}

/// Checks a deletion.
pub fn delete_range(request: &DeleteRangeRequest) -> Result<(), Refused> {
    if request.key.is_empty() {
        return Err(Refused::EmptyKey);
    }
    Ok(())
}

/// Checks a transaction: every operation, at most `ops_max` of them along any path of nesting, and
/// no key written twice.
pub fn txn(request: &TxnRequest, ops_max: usize) -> Result<(), Refused> {
    operations(request, ops_max)?;
    touched(&request.success)?;
    touched(&request.failure)?;
    Ok(())
}

/// Whether a transaction only reads, whichever branches it takes.
#[must_use]
pub fn is_read_only(request: &TxnRequest) -> bool {
    branches(request).all(|op| match &op.request {
        Some(Request::RequestRange(_)) | None => true,
        Some(Request::RequestTxn(inner)) => is_read_only(inner),
        Some(Request::RequestPut(_) | Request::RequestDeleteRange(_)) => false,
    })
}

/// Whether a read-only transaction may be answered from one replica's state, even if stale: it has
/// operations, and all of them allow it.
#[must_use]
pub fn is_serializable(request: &TxnRequest) -> bool {
    let mut any = false;
    let all = branches(request).all(|op| {
        any = true;
        match &op.request {
            Some(Request::RequestRange(range)) => range.serializable,
            Some(Request::RequestTxn(inner)) => is_serializable(inner),
            _ => false,
        }
    });
    any && all
}

fn branches(request: &TxnRequest) -> impl Iterator<Item = &RequestOp> {
    request.success.iter().chain(&request.failure)
}

fn operations(request: &TxnRequest, ops_max: usize) -> Result<(), Refused> {
    let widest = request
        .compare
        .len()
        .max(request.success.len())
        .max(request.failure.len());
    let ops_left = ops_max.checked_sub(widest).ok_or(Refused::TooManyOps)?;
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Refused::EmptyKey);
    }
    branches(request).try_for_each(|op| match &op.request {
        Some(Request::RequestRange(request)) => range(request),
        Some(Request::RequestPut(request)) => put(request),
        Some(Request::RequestDeleteRange(request)) => delete_range(request),
        Some(Request::RequestTxn(request)) => operations(request, ops_left),
        None => Err(Refused::KeyNotFound),
    })
}

/// The keys a list of operations may write, and those it may delete.
#[derive(Default)]
struct Touched<'a> {
    puts: BTreeSet<&'a [u8]>,
    deletes: Cover<'a>,
}

impl<'a> Touched<'a> {
    fn put(&mut self, key: &'a [u8]) -> Result<(), Refused> {
        if self.deletes.contains(key) || !self.puts.insert(key) {
            return Err(Refused::DuplicateKey);
        }
        Ok(())
    }
}

/// Collects what operations touch; refuses a key that is put twice, or put and deleted. Both
/// branches of an inner transaction may put the same key: only one of them runs.
fn touched(ops: &[RequestOp]) -> Result<Touched<'_>, Refused> {
    let mut all = Touched::default();
    for op in ops {
        if let Some(Request::RequestDeleteRange(delete)) = &op.request {
            all.deletes
                .insert(Span::new(&delete.key, &delete.range_end));
        }
    }
    for op in ops {
        if let Some(Request::RequestTxn(inner)) = &op.request {
            let mut then = touched(&inner.success)?;
            let mut other = touched(&inner.failure)?;
            then.puts.append(&mut other.puts);
            then.puts.into_iter().try_for_each(|key| all.put(key))?;
            all.deletes.append(then.deletes);
            all.deletes.append(other.deletes);
        }
    }
    for op in ops {
        if let Some(Request::RequestPut(put)) = &op.request {
            all.put(&put.key)?;
        }
    }
    Ok(all)
}

/// A set of spans. Overlapping ranges are merged, so that a hostile transaction costs no more than
/// an honest one.
#[derive(Default)]
struct Cover<'a> {
    points: BTreeSet<&'a [u8]>,
    /// Start to end, exclusive.
    ranges: BTreeMap<&'a [u8], &'a [u8]>,
}

impl<'a> Cover<'a> {
    fn insert(&mut self, span: Span<'a>) {
        match span {
            Span::One(key) => {
                self.points.insert(key);
            }
            Span::Between(start, end) => self.merge(start, end),
            // etcd takes the end that stands for every greater key literally here, so such a
            // deletion goes together with any put.
            Span::From(_) | Span::Nothing => {}
        }
    }

    fn append(&mut self, mut other: Cover<'a>) {
        self.points.append(&mut other.points);
        for (start, end) in other.ranges {
            self.merge(start, end);
        }
    }

    fn merge(&mut self, mut start: &'a [u8], mut end: &'a [u8]) {
        // The nearest range that begins no later than the new one ends; while it reaches the new
        // one's start it becomes part of it.
        let upto = |end| (Bound::Unbounded, Bound::Included(end));
        while let Some((&near, &reach)) = self.ranges.range::<[u8], _>(upto(end)).next_back() {
            if reach < start {
                break;
            }
            self.ranges.remove(near);
            start = start.min(near);
            end = end.max(reach);
        }
        self.ranges.insert(start, end);
    }

    fn contains(&self, key: &[u8]) -> bool {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let nearest = self.ranges.range::<[u8], _>(upto).next_back();
        self.points.contains(key) || nearest.is_some_and(|(_, end)| key < *end)
    }
}

#[cfg(test)]
mod tests;
