//! Conditions that order values, where values are kept as payloads.
//!
//! The store cannot tell which of two values is greater without their bytes, and never waits for
//! any: it refuses such a condition ([`crate::Refused::NeedsValue`]). Whoever asked reads what the
//! conditions are about ([`question`]), decides them, and asks again under the condition that
//! nothing they depend on has changed since ([`decided`]); if it has, the answer is none
//! ([`answer`]), and all of it is done again.

use crate::span::Span;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{Compare, RangeRequest, TxnRequest, TxnResponse};
use quorate_etcd_api::mvccpb::KeyValue;

/// Whether a transaction has conditions that order values, in itself or in an inner one.
#[must_use]
pub fn orders_values(request: &TxnRequest) -> bool {
    let ops = request.success.iter().chain(&request.failure);
    let mut inner = ops.filter_map(|op| match &op.request {
        Some(Request::RequestTxn(inner)) => Some(inner),
        _ => None,
    });
    request.compare.iter().any(orders) || inner.any(orders_values)
}

/// A transaction that reads what all conditions that order values are about, those of inner
/// transactions included.
#[must_use]
pub fn question(request: &TxnRequest) -> TxnRequest {
    let mut reads = Vec::new();
    each_ordering(&mut request.clone(), &mut |compare| {
        let range = RangeRequest {
            key: compare.key.clone(),
            range_end: compare.range_end.clone(),
            ..RangeRequest::default()
        };
        reads.push(Request::RequestRange(range).into());
    });
    TxnRequest {
        success: reads,
        ..TxnRequest::default()
    }
}

/// Wraps a transaction into one that demands that what was read for [`question`] still is so. The conditions of the
/// inner one that order values are decided by what was read.
#[must_use]
pub fn decided(mut request: TxnRequest, read: &TxnResponse) -> TxnRequest {
    let revision = read.header.as_ref().map_or(0, |header| header.revision);
    let mut read = read.responses.iter().map(|op| match &op.response {
        Some(Response::ResponseRange(range)) => &range.kvs[..],
        _ => &[],
    });
    let mut guards = Vec::new();
    each_ordering(&mut request, &mut |compare| {
        let kvs = read.next().unwrap_or_default();
        let holds = guard(compare, kvs, revision, &mut guards);
        *compare = constant(compare, holds);
    });
    TxnRequest {
        compare: guards,
        success: vec![Request::RequestTxn(request).into()],
        failure: Vec::new(),
    }
}

/// The response to a transaction that [`decided`] wrapped; `None` if what was read has changed.
#[must_use]
pub fn answer(response: TxnResponse) -> Option<TxnResponse> {
    let first = response.responses.into_iter().next();
    match first.filter(|_| response.succeeded)?.response {
        Some(Response::ResponseTxn(mut inner)) => {
            inner.header = response.header;
            Some(inner)
        }
        _ => None,
    }
}

/// Decides a condition, and adds what has to stay as it is for that.
fn guard(compare: &Compare, kvs: &[KeyValue], revision: i64, guards: &mut Vec<Compare>) -> bool {
    let unchanged = |kv: &KeyValue| Compare {
        key: kv.key.clone(),
        range_end: bytes::Bytes::new(),
        ..revision_is(compare, CompareResult::Equal, kv.mod_revision)
    };
    let Some(first) = kvs.first() else {
        // Of no key the condition does not hold. A key that comes has a revision.
        guards.push(revision_is(compare, CompareResult::Equal, 0));
        return false;
    };
    if let Some(witness) = kvs.iter().find(|kv| !satisfies(compare, kv)) {
        guards.push(unchanged(witness));
        return false;
    }
    guards.push(unchanged(first));
    if !matches!(
        Span::new(&compare.key, &compare.range_end),
        Span::One(_) | Span::Nothing
    ) {
        // Others may go, but none may come or change.
        guards.push(revision_is(compare, CompareResult::Less, revision + 1));
    }
    true
}

fn satisfies(compare: &Compare, kv: &KeyValue) -> bool {
    let operand = match &compare.target_union {
        Some(TargetUnion::Value(value)) => &value[..],
        _ => &[],
    };
    match compare.result == CompareResult::Less as i32 {
        true => kv.value[..] < *operand,
        false => kv.value[..] > *operand,
    }
}

/// A condition that always comes out so: no revision is negative.
fn constant(compare: &Compare, holds: bool) -> Compare {
    let result = match holds {
        true => CompareResult::NotEqual,
        false => CompareResult::Equal,
    };
    revision_is(compare, result, -1)
}

/// A condition on the revision of the same keys.
fn revision_is(compare: &Compare, result: CompareResult, revision: i64) -> Compare {
    Compare {
        result: result as i32,
        target: CompareTarget::Mod as i32,
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..compare.clone()
    }
}

/// Visits the conditions that order values.
fn each_ordering(request: &mut TxnRequest, visit: &mut impl FnMut(&mut Compare)) {
    request
        .compare
        .iter_mut()
        .filter(|compare| orders(compare))
        .for_each(&mut *visit);
    for op in request.success.iter_mut().chain(&mut request.failure) {
        if let Some(Request::RequestTxn(inner)) = &mut op.request {
            each_ordering(inner, visit);
        }
    }
}

fn orders(compare: &Compare) -> bool {
    compare.target == CompareTarget::Value as i32
        && (compare.result == CompareResult::Less as i32
            || compare.result == CompareResult::Greater as i32)
}
