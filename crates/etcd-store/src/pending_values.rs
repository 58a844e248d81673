//! Responses some values of which are kept as payloads, on their way to what a client may see.

use crate::command::{Applied, Command};
use crate::query::{Query, QueryAnswer};
use crate::refused::Refused;
use crate::value_refs::{ValueRef, is_value_ref};
use crate::view::{finish, is_deferred};
use bytes::Bytes;
use prost::Message;
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{
    DeleteRangeResponse, PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use quorate_etcd_api::mvccpb::{Event, KeyValue};

/// A response that waits for values.
///
/// Whoever asked gathers the payloads of [`PendingResponse::references`] and hands their bytes, in the same
/// order, to [`PendingResponse::fill`] or [`PendingResponse::encode`].
#[derive(Clone, PartialEq, Debug)]
pub struct PendingResponse(Partial);

/// The response, with the request where that says what is to be done once the values are there:
/// ranges sorted by value are sorted and cut then.
#[derive(Clone, PartialEq, Debug)]
enum Partial {
    Range(RangeRequest, RangeResponse),
    Txn(TxnRequest, TxnResponse),
    Put(PutResponse),
    Delete(DeleteRangeResponse),
}

impl PendingResponse {
    /// The answer to a range request, some values of which may be references.
    #[must_use]
    pub fn range(request: &RangeRequest, response: RangeResponse) -> QueryAnswer {
        if response.kvs.iter().any(is_value_ref) {
            let partial = Partial::Range(request.clone(), response);
            return QueryAnswer::PendingResponse(Box::new(PendingResponse(partial)));
        }
        QueryAnswer::Range(response)
    }

    /// The answer to a transaction that only reads.
    pub(crate) fn txn(request: &TxnRequest, response: TxnResponse) -> QueryAnswer {
        if response.waits() {
            let partial = Partial::Txn(request.clone(), response);
            return QueryAnswer::PendingResponse(Box::new(PendingResponse(partial)));
        }
        QueryAnswer::Txn(response)
    }

    /// The query that it answers, to be asked again if a value is gone; none for a command's result.
    #[must_use]
    pub fn query(&self) -> Option<Query> {
        match &self.0 {
            Partial::Range(request, _) => Some(Query::Range(request.clone())),
            Partial::Txn(request, _) => Some(Query::Txn(request.clone())),
            Partial::Put(_) | Partial::Delete(_) => None,
        }
    }

    /// The response of a command, which has this body, as its result holds it; see
    /// [`Applied::has_pending_values`].
    ///
    /// # Errors
    /// [`Refused::Malformed`] if the one cannot be the result of the other.
    pub fn of_result(body: &Bytes, applied: &Applied) -> Result<Self, Refused> {
        let response = applied.response.clone();
        let partial = match Command::decode(body)? {
            Command::Put(_) | Command::PutWithPayload(_) => {
                PutResponse::decode(response).map(Partial::Put)
            }
            Command::DeleteRange(_) => DeleteRangeResponse::decode(response).map(Partial::Delete),
            Command::Txn(request) | Command::TxnWithPayloads(request, _) => {
                TxnResponse::decode(response).map(|response| Partial::Txn(request, response))
            }
            _ => return Err(Refused::Malformed),
        };
        partial.map(PendingResponse).map_err(|_| Refused::Malformed)
    }

    /// The values it waits for, in order. One may be named more than once.
    ///
    /// # Errors
    /// [`Refused::Malformed`] if what stands in a value's place is no reference.
    pub fn references(&self) -> Result<Vec<ValueRef>, Refused> {
        let mut found = Ok(Vec::new());
        let mut note = |kv: &KeyValue| push(&mut found, kv);
        match &self.0 {
            Partial::Range(_, response) => response.kvs.iter().for_each(note),
            Partial::Txn(_, response) => each(response, &mut note),
            Partial::Put(response) => response.prev_kv.iter().for_each(note),
            Partial::Delete(response) => response.prev_kvs.iter().for_each(note),
        }
        found
    }

    /// The answer to a read, with these values in it.
    ///
    /// # Errors
    /// [`Refused::Malformed`] if it is none to a read.
    pub fn fill(mut self, values: impl IntoIterator<Item = Bytes>) -> Result<QueryAnswer, Refused> {
        self.fill_in(&mut values.into_iter());
        match self.0 {
            Partial::Range(_, response) => Ok(QueryAnswer::Range(response)),
            Partial::Txn(_, response) => Ok(QueryAnswer::Txn(response)),
            Partial::Put(_) | Partial::Delete(_) => Err(Refused::Malformed),
        }
    }

    /// The response with these values in it, encoded without its header.
    #[must_use]
    pub fn encode(mut self, values: impl IntoIterator<Item = Bytes>) -> Bytes {
        self.fill_in(&mut values.into_iter());
        let encoded = match self.0 {
            Partial::Range(_, response) => response.encode_to_vec(),
            Partial::Txn(_, response) => response.encode_to_vec(),
            Partial::Put(response) => response.encode_to_vec(),
            Partial::Delete(response) => response.encode_to_vec(),
        };
        encoded.into()
    }

    fn fill_in(&mut self, values: &mut impl Iterator<Item = Bytes>) {
        match &mut self.0 {
            Partial::Range(request, response) => fill_range(request, response, values),
            Partial::Txn(request, response) => fill_txn(request, response, values),
            Partial::Put(response) => fill(&mut response.prev_kv, values),
            Partial::Delete(response) => fill(&mut response.prev_kvs, values),
        }
    }
}

/// The values that changes wait for, in order; see [`fill_events`].
///
/// # Errors
/// [`Refused::Malformed`] if what stands in a value's place is no reference.
pub fn event_value_refs(events: &[Event]) -> Result<Vec<ValueRef>, Refused> {
    let mut found = Ok(Vec::new());
    for kv in events.iter().flat_map(|event| [&event.kv, &event.prev_kv]) {
        kv.iter().for_each(|kv| push(&mut found, kv));
    }
    found
}

/// Puts the values that changes wait for into them.
pub fn fill_events(events: &mut [Event], values: impl IntoIterator<Item = Bytes>) {
    let mut values = values.into_iter();
    for event in events {
        fill(&mut event.kv, &mut values);
        fill(&mut event.prev_kv, &mut values);
    }
}

/// Whether a response, any of a command's, waits for values.
pub(crate) trait MayWait {
    fn waits(&self) -> bool;
}

impl MayWait for PutResponse {
    fn waits(&self) -> bool {
        self.prev_kv.iter().any(is_value_ref)
    }
}

impl MayWait for DeleteRangeResponse {
    fn waits(&self) -> bool {
        self.prev_kvs.iter().any(is_value_ref)
    }
}

impl MayWait for TxnResponse {
    fn waits(&self) -> bool {
        let mut any = false;
        each(self, &mut |kv| any |= is_value_ref(kv));
        any
    }
}

fn push(found: &mut Result<Vec<ValueRef>, Refused>, kv: &KeyValue) {
    match (ValueRef::of(kv), found.as_mut()) {
        (Some(Ok(reference)), Ok(found)) => found.push(reference),
        (Some(Err(refused)), _) => *found = Err(refused),
        _ => {}
    }
}

/// Visits the keys of a response in order.
fn each(response: &TxnResponse, visit: &mut impl FnMut(&KeyValue)) {
    for op in &response.responses {
        match &op.response {
            Some(Response::ResponseRange(range)) => range.kvs.iter().for_each(&mut *visit),
            Some(Response::ResponsePut(put)) => put.prev_kv.iter().for_each(&mut *visit),
            Some(Response::ResponseDeleteRange(delete)) => {
                delete.prev_kvs.iter().for_each(&mut *visit);
            }
            Some(Response::ResponseTxn(inner)) => each(inner, visit),
            None => {}
        }
    }
}

fn fill<'a>(
    kvs: impl IntoIterator<Item = &'a mut KeyValue>,
    values: &mut impl Iterator<Item = Bytes>,
) {
    for kv in kvs.into_iter().filter(|kv| is_value_ref(kv)) {
        kv.value = values.next().unwrap_or_default();
        kv.version = kv.version.saturating_neg();
    }
}

fn fill_range(
    request: &RangeRequest,
    response: &mut RangeResponse,
    values: &mut impl Iterator<Item = Bytes>,
) {
    let is_deferred = is_deferred(request, response);
    fill(&mut response.kvs, values);
    if is_deferred {
        finish(request, response);
    }
}

/// Walks a request and its response side by side.
fn fill_txn(
    request: &TxnRequest,
    response: &mut TxnResponse,
    values: &mut impl Iterator<Item = Bytes>,
) {
    let taken = if response.succeeded {
        &request.success
    } else {
        &request.failure
    };
    for (asked, op) in taken.iter().zip(&mut response.responses) {
        match (&asked.request, &mut op.response) {
            (Some(Request::RequestRange(request)), Some(Response::ResponseRange(response))) => {
                fill_range(request, response, values);
            }
            (Some(Request::RequestTxn(request)), Some(Response::ResponseTxn(response))) => {
                fill_txn(request, response, values);
            }
            (_, Some(Response::ResponsePut(put))) => fill(&mut put.prev_kv, values),
            (_, Some(Response::ResponseDeleteRange(delete))) => fill(&mut delete.prev_kvs, values),
            _ => {}
        }
    }
}
