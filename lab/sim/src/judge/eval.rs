//! What a request comes to on a given state: etcd's semantics once more, as plainly as possible.

use super::journal::Journal;
use super::op::{Op, Request, Response};
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request as Part;
use quorate_etcd_api::etcdserverpb::response_op::Response as PartAnswer;
use quorate_etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest,
    RangeResponse, RequestOp, SortOrder, SortTarget, TxnRequest, TxnResponse,
};
use quorate_etcd_api::mvccpb::{Event, EventType, KeyValue};
use std::cmp::Ordering;

/// A request being carried out on the state at a revision.
pub(super) struct Eval<'a> {
    journal: &'a Journal,
    before: i64,
    /// What it has changed so far.
    pub(super) events: Vec<Event>,
}

impl<'a> Eval<'a> {
    pub(super) fn new(journal: &'a Journal, before: i64) -> Self {
        Eval {
            journal,
            before,
            events: Vec::new(),
        }
    }

    /// The answer, without headers, of a request that is not refused.
    pub(super) fn run(&mut self, request: &Request) -> Response {
        match request {
            Request::Range(range) => Response::Range(self.range(range)),
            Request::Put(put) => Response::Put(self.put(put)),
            Request::Delete(delete) => Response::Delete(self.delete(delete)),
            Request::Txn(txn) => Response::Txn(self.txn(txn)),
            Request::Revoke(lease) => {
                self.end_lease(*lease);
                Response::Revoked
            }
            Request::Compact(_) => Response::Compacted,
            Request::Grant(_) => Response::Granted,
            Request::Renew(_) => Response::Renewed,
            Request::Auth(_) | Request::AuthStatus => Response::Auth,
        }
    }

    /// A key as it is now.
    fn get(&self, key: &[u8]) -> Option<&KeyValue> {
        let is_it = |event: &&Event| event.kv.as_ref().is_some_and(|kv| kv.key[..] == *key);
        match self.events.iter().rev().find(is_it) {
            Some(event) if event.r#type == EventType::Put as i32 => event.kv.as_ref(),
            Some(_) => None,
            None => self.journal.get(key, self.before),
        }
    }

    /// The keys of a range as they are now.
    fn keys(&self, key: &[u8], range_end: &[u8]) -> Vec<KeyValue> {
        let mut found: Vec<KeyValue> = self
            .journal
            .range(key, range_end, self.before)
            .cloned()
            .collect();
        for kv in self.events.iter().filter_map(|event| event.kv.as_ref()) {
            if !super::covers(key, range_end, &kv.key) {
                continue;
            }
            let place = found.binary_search_by(|other| other.key.cmp(&kv.key));
            match (place, self.get(&kv.key).cloned()) {
                (Ok(at), Some(now)) => found[at] = now,
                (Ok(at), None) => drop(found.remove(at)),
                (Err(at), Some(now)) => found.insert(at, now),
                (Err(_), None) => {}
            }
        }
        found
    }

    fn put(&mut self, put: &PutRequest) -> PutResponse {
        let revision = self.before + 1;
        let old = self.get(&put.key).cloned();
        let kept = |ignore: bool| old.as_ref().filter(|_| ignore);
        let kv = KeyValue {
            key: put.key.clone(),
            create_revision: old.as_ref().map_or(revision, |old| old.create_revision),
            mod_revision: revision,
            version: old.as_ref().map_or(0, |old| old.version) + 1,
            value: kept(put.ignore_value)
                .map_or(&put.value, |old| &old.value)
                .clone(),
            lease: kept(put.ignore_lease).map_or(put.lease, |old| old.lease),
        };
        self.events.push(Event {
            r#type: EventType::Put as i32,
            kv: Some(kv),
            prev_kv: None,
        });
        PutResponse {
            header: None,
            prev_kv: old.filter(|_| put.prev_kv),
        }
    }

    fn delete(&mut self, delete: &DeleteRangeRequest) -> DeleteRangeResponse {
        let gone = self.keys(&delete.key, &delete.range_end);
        self.remove(&gone);
        DeleteRangeResponse {
            header: None,
            deleted: gone.len() as i64,
            prev_kvs: if delete.prev_kv { gone } else { Vec::new() },
        }
    }

    fn end_lease(&mut self, lease: i64) {
        let gone = leased(self.journal, lease, self.before);
        self.remove(&gone);
    }

    fn remove(&mut self, gone: &[KeyValue]) {
        let revision = self.before + 1;
        let events = gone.iter().map(|kv| deletion(&kv.key, revision));
        self.events.extend(events);
    }

    fn txn(&mut self, txn: &TxnRequest) -> TxnResponse {
        let before = Eval::new(self.journal, self.before);
        self.branch(txn, &before)
    }

    /// Conditions, those of inner transactions too, see the state before the first operation.
    fn branch(&mut self, txn: &TxnRequest, before: &Eval<'_>) -> TxnResponse {
        let succeeded = txn.compare.iter().all(|compare| before.holds(compare));
        let ops: &[RequestOp] = if succeeded {
            &txn.success
        } else {
            &txn.failure
        };
        let parts = ops.iter().filter_map(|op| op.request.as_ref());
        let responses = parts.map(|part| match part {
            Part::RequestRange(range) => PartAnswer::ResponseRange(self.range(range)).into(),
            Part::RequestPut(put) => PartAnswer::ResponsePut(self.put(put)).into(),
            Part::RequestDeleteRange(delete) => {
                PartAnswer::ResponseDeleteRange(self.delete(delete)).into()
            }
            Part::RequestTxn(inner) => PartAnswer::ResponseTxn(self.branch(inner, before)).into(),
        });
        let responses = responses.collect();
        TxnResponse {
            header: None,
            succeeded,
            responses,
        }
    }

    fn range(&self, range: &RangeRequest) -> RangeResponse {
        let (key, end) = (&range.key[..], &range.range_end[..]);
        let mut kvs = if range.revision > 0 && range.revision <= self.before {
            let past = self.journal.range(key, end, range.revision);
            past.cloned().collect()
        } else {
            self.keys(key, end)
        };
        let count = kvs.len() as i64;
        if range.count_only {
            kvs.clear();
        }
        let limit = usize::try_from(range.limit).ok().filter(|limit| *limit > 0);
        let limit = limit.unwrap_or(usize::MAX);
        let is_filtered = filter(range, &mut kvs);
        if range.sort_order == SortOrder::None as i32 && !is_filtered {
            // A target without an order sorts what the limit let through, and one more.
            kvs.truncate(limit.saturating_add(1));
        }
        sort(range, &mut kvs);
        let more = kvs.len() > limit;
        kvs.truncate(limit);
        if range.keys_only {
            for kv in &mut kvs {
                kv.value = Bytes::new();
                if range.sort_target != SortTarget::Value as i32 {
                    kv.lease = 0;
                }
            }
        }
        RangeResponse {
            header: None,
            kvs,
            more,
            count,
        }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let found = self.keys(&compare.key, &compare.range_end);
        if found.is_empty() {
            let is_value = compare.target == CompareTarget::Value as i32;
            return !is_value && relates(compare, &KeyValue::default());
        }
        found.iter().all(|kv| relates(compare, kv))
    }
}

/// The keys of a lease at a revision, ascending.
pub(super) fn leased(journal: &Journal, lease: i64, revision: i64) -> Vec<KeyValue> {
    let all = journal.range(b"\0", b"\0", revision);
    all.filter(|kv| kv.lease == lease).cloned().collect()
}

fn deletion(key: &Bytes, revision: i64) -> Event {
    Event {
        r#type: EventType::Delete as i32,
        kv: Some(KeyValue {
            key: key.clone(),
            mod_revision: revision,
            ..KeyValue::default()
        }),
        prev_kv: None,
    }
}

/// Applies the bounds on revisions; says whether there are any. A bound of 0 is none.
fn filter(range: &RangeRequest, kvs: &mut Vec<KeyValue>) -> bool {
    let within = |value, min, max| (min == 0 || value >= min) && (max == 0 || value <= max);
    kvs.retain(|kv| {
        let (min, max) = (range.min_mod_revision, range.max_mod_revision);
        let (since, until) = (range.min_create_revision, range.max_create_revision);
        within(kv.mod_revision, min, max) && within(kv.create_revision, since, until)
    });
    let bounds = [
        range.min_mod_revision,
        range.max_mod_revision,
        range.min_create_revision,
        range.max_create_revision,
    ];
    bounds != [0; 4]
}

fn sort(range: &RangeRequest, kvs: &mut [KeyValue]) {
    let compare = |a: &KeyValue, b: &KeyValue| match SortTarget::try_from(range.sort_target) {
        Ok(SortTarget::Version) => a.version.cmp(&b.version),
        Ok(SortTarget::Create) => a.create_revision.cmp(&b.create_revision),
        Ok(SortTarget::Mod) => a.mod_revision.cmp(&b.mod_revision),
        Ok(SortTarget::Value) => a.value.cmp(&b.value),
        Ok(SortTarget::Key) | Err(_) => a.key.cmp(&b.key),
    };
    if range.sort_order == SortOrder::Descend as i32 {
        kvs.sort_by(|a, b| compare(b, a));
    } else {
        kvs.sort_by(compare);
    }
}

/// An operand of another kind than the target counts as zero.
fn relates(compare: &Compare, kv: &KeyValue) -> bool {
    use TargetUnion::{CreateRevision, Lease, ModRevision, Value, Version};
    let operand = compare.target_union.as_ref();
    let ordering = match (CompareTarget::try_from(compare.target), operand) {
        (Ok(CompareTarget::Value), Some(Value(value))) => kv.value.cmp(value),
        (Ok(CompareTarget::Value), _) => kv.value[..].cmp(b""),
        (Ok(CompareTarget::Version), Some(Version(n))) => kv.version.cmp(n),
        (Ok(CompareTarget::Version), _) => kv.version.cmp(&0),
        (Ok(CompareTarget::Create), Some(CreateRevision(n))) => kv.create_revision.cmp(n),
        (Ok(CompareTarget::Create), _) => kv.create_revision.cmp(&0),
        (Ok(CompareTarget::Mod), Some(ModRevision(n))) => kv.mod_revision.cmp(n),
        (Ok(CompareTarget::Mod), _) => kv.mod_revision.cmp(&0),
        (Ok(CompareTarget::Lease), Some(Lease(n))) => kv.lease.cmp(n),
        (Ok(CompareTarget::Lease), _) => kv.lease.cmp(&0),
        (Err(_), _) => Ordering::Equal,
    };
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => ordering.is_eq(),
        Ok(CompareResult::NotEqual) => ordering.is_ne(),
        Ok(CompareResult::Greater) => ordering.is_gt(),
        Ok(CompareResult::Less) => ordering.is_lt(),
        Err(_) => true,
    }
}

/// Whether two tellings of a revision say the same; what was there before, one may leave out.
pub(super) fn same(one: &[Event], other: &[Event]) -> bool {
    let same = |(a, b): (&Event, &Event)| {
        let is_one_silent = a.prev_kv.is_none() || b.prev_kv.is_none();
        (a.r#type, &a.kv) == (b.r#type, &b.kv) && (a.prev_kv == b.prev_kv || is_one_silent)
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// Whether a request, carried out at a revision, makes the changes of this revision.
pub(super) fn comes_to(op: &Op, journal: &Journal, revision: i64) -> bool {
    let mut eval = Eval::new(journal, revision - 1);
    eval.run(&op.request);
    same(&eval.events, journal.of(revision))
}
