//! Large reads, a slice at a time, so that nobody's put waits for one.
//!
//! The first slice fixes the revision; a [`Pin`] keeps what counts there until the last. What one
//! slice can answer is answered at once, and costs nothing more.

use crate::pending_values::PendingResponse;
use crate::query::{Query, QueryAnswer};
use crate::refused::Refused;
use crate::store::Store;
use crate::view::{View, finish, header, room_max};
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use quorate_etcd_api::mvccpb::KeyValue;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Keys looked at in one slice: about 0.2 ms.
pub(crate) const KEYS_PER_SLICE: usize = 1000;

/// The part of a slice that a range of a transaction has even if those before it took the whole.
const RANGE_SHARE: usize = 64;

/// While it lives, the store keeps the versions of a revision, even if they are compacted.
#[derive(Clone, Debug)]
pub struct Pin(Arc<()>);

impl PartialEq for Pin {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The pins of one replica: they tell how much memory may be freed, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Pins(Mutex<Vec<(i64, Weak<()>)>>);

impl Pins {
    pub(crate) fn pin(&self, revision: i64) -> Pin {
        let pin = Arc::new(());
        let mut pins = self.lock();
        pins.retain(|(_, pin)| pin.strong_count() > 0);
        pins.push((revision, Arc::downgrade(&pin)));
        Pin(pin)
    }

    /// The lowest revision that is pinned.
    pub(crate) fn lowest(&self) -> i64 {
        let mut pins = self.lock();
        pins.retain(|(_, pin)| pin.strong_count() > 0);
        (pins.iter().map(|(revision, _)| *revision).min()).unwrap_or(i64::MAX)
    }

    /// Whether it is one of this store: after a snapshot was loaded, a former store's pins keep
    /// nothing.
    pub(crate) fn holds(&self, pin: &Pin) -> bool {
        let pins = self.lock();
        pins.iter()
            .any(|(_, held)| std::ptr::eq(held.as_ptr(), Arc::as_ptr(&pin.0)))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(i64, Weak<()>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rest of a range, as a query.
#[derive(Clone, PartialEq, Debug)]
pub struct RangeRest {
    request: RangeRequest,
    revision: i64,
    /// The last key looked at.
    after: Bytes,
    /// How many more keys the answer takes.
    room: usize,
    pin: Pin,
}

/// A part of a range.
#[derive(Clone, PartialEq, Debug)]
pub struct RangePart {
    kvs: Vec<KeyValue>,
    count: i64,
    /// The last key looked at, unless it was the last of the range.
    after: Option<Bytes>,
}

impl RangePart {
    /// Bytes that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bytes = |kv: &KeyValue| size_of::<KeyValue>() + kv.key.len() + kv.value.len();
        self.kvs.iter().map(bytes).sum()
    }
}

/// A read that takes more than one slice.
///
/// Whoever asked puts [`LargeRead::next`] to the same replica and gives the answer to
/// [`LargeRead::add`], until there is nothing more to ask.
#[derive(Clone, PartialEq, Debug)]
pub struct LargeRead {
    whole: LargeRequest,
    /// In the order of the request.
    ranges: Vec<LargeRange>,
    /// The index of the range that is being read.
    current: usize,
}

/// What was asked for.
#[derive(Clone, PartialEq, Debug)]
enum LargeRequest {
    Range,
    /// With the large ranges left out of the response.
    Txn(Box<(TxnRequest, TxnResponse)>),
}

#[derive(Clone, PartialEq, Debug)]
struct LargeRange {
    /// The range's index among the transaction's ranges.
    place: usize,
    rest: RangeRest,
    response: RangeResponse,
}

impl LargeRead {
    /// The query that it answers, to be asked again from the beginning.
    #[must_use]
    pub fn query(&self) -> Query {
        match (&self.whole, self.ranges.first()) {
            (LargeRequest::Txn(whole), _) => Query::Txn(whole.0.clone()),
            (LargeRequest::Range, Some(range)) => Query::Range(range.rest.request.clone()),
            (LargeRequest::Range, None) => Query::Range(RangeRequest::default()),
        }
    }

    /// What to ask next; nothing once all is read.
    #[must_use]
    pub fn next(&self) -> Option<Query> {
        let range = self.ranges.get(self.current)?;
        Some(Query::RangeRest(range.rest.clone()))
    }

    /// Takes the answer.
    pub fn add(&mut self, part: RangePart) {
        let Some(range) = self.ranges.get_mut(self.current) else {
            return;
        };
        range.rest.room = range.rest.room.saturating_sub(part.kvs.len());
        range.response.kvs.extend(part.kvs);
        range.response.count += part.count;
        match part.after {
            Some(after) => range.rest.after = after,
            None => self.current += 1,
        }
    }

    /// The whole answer. It sorts, which takes its time: this is not for a thread that others wait
    /// for.
    #[must_use]
    pub fn finish(mut self) -> QueryAnswer {
        for range in &mut self.ranges {
            finish(&range.rest.request, &mut range.response);
        }
        let mut ranges = self.ranges.into_iter();
        match self.whole {
            LargeRequest::Range => match ranges.next() {
                Some(range) => PendingResponse::range(&range.rest.request, range.response),
                None => QueryAnswer::Range(RangeResponse::default()),
            },
            LargeRequest::Txn(whole) => {
                let (request, mut whole) = *whole;
                let mut next = ranges.next();
                let mut place = 0;
                each_range(&mut whole, &mut |response| {
                    if let Some(range) = next.take_if(|range| range.place == place) {
                        *response = range.response;
                        next = ranges.next();
                    }
                    place += 1;
                });
                PendingResponse::txn(&request, whole)
            }
        }
    }
}

/// Visits the ranges of a response in the order of the request.
fn each_range(response: &mut TxnResponse, visit: &mut impl FnMut(&mut RangeResponse)) {
    for op in &mut response.responses {
        match &mut op.response {
            Some(Response::ResponseRange(range)) => visit(range),
            Some(Response::ResponseTxn(inner)) => each_range(inner, visit),
            _ => {}
        }
    }
}

/// The first slice of a read: its ranges one after the other, until it is full.
pub(crate) struct FirstSlice {
    keys_left: usize,
    /// Ranges begun so far.
    count: usize,
    unfinished: Vec<LargeRange>,
}

impl FirstSlice {
    pub(crate) fn new(keys: usize) -> Self {
        FirstSlice {
            keys_left: keys,
            count: 0,
            unfinished: Vec::new(),
        }
    }

    /// Answers a range, or begins to.
    pub(crate) fn range(
        &mut self,
        view: View<'_>,
        request: &RangeRequest,
        revision: i64,
    ) -> RangeResponse {
        let place = self.count;
        self.count += 1;
        let mut response = RangeResponse {
            header: Some(header(view.revision)),
            ..RangeResponse::default()
        };
        let mut room = room_max(request);
        let share = view.store.keys_per_slice / RANGE_SHARE;
        let keys_max = self.keys_left.max(share).max(1);
        let slice = view.range_slice(request, revision, None, room, keys_max, &mut response);
        self.keys_left = self.keys_left.saturating_sub(slice.keys);
        let Some(after) = slice.after else {
            finish(request, &mut response);
            return response;
        };
        room -= response.kvs.len();
        let rest = RangeRest {
            request: request.clone(),
            revision,
            after,
            room,
            pin: view.store.pins.pin(revision),
        };
        self.unfinished.push(LargeRange {
            place,
            rest,
            response,
        });
        RangeResponse::default()
    }

    /// The answer to a range request.
    pub(crate) fn end_range(self, request: &RangeRequest, response: RangeResponse) -> QueryAnswer {
        if self.unfinished.is_empty() {
            return PendingResponse::range(request, response);
        }
        self.rest(LargeRequest::Range)
    }

    /// The answer to a transaction.
    pub(crate) fn end_txn(self, request: &TxnRequest, response: TxnResponse) -> QueryAnswer {
        if self.unfinished.is_empty() {
            return PendingResponse::txn(request, response);
        }
        self.rest(LargeRequest::Txn(Box::new((request.clone(), response))))
    }

    fn rest(self, whole: LargeRequest) -> QueryAnswer {
        QueryAnswer::Large(Box::new(LargeRead {
            whole,
            ranges: self.unfinished,
            current: 0,
        }))
    }
}

impl Store {
    /// Reads on in a range.
    pub(crate) fn range_rest(&self, rest: &RangeRest) -> Result<RangePart, Refused> {
        if rest.revision < self.compacted && !self.pins.holds(&rest.pin) {
            return Err(Refused::Compacted);
        }
        if rest.revision > self.revision {
            return Err(Refused::FutureRevision);
        }
        let mut response = RangeResponse::default();
        let slice = self.view().range_slice(
            &rest.request,
            rest.revision,
            Some(&rest.after),
            rest.room,
            self.keys_per_slice,
            &mut response,
        );
        Ok(RangePart {
            kvs: response.kvs,
            count: response.count,
            after: slice.after,
        })
    }
}
