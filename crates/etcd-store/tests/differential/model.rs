//! The model: one full copy of the store per revision, and nothing clever.

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::compare::TargetUnion;
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest,
    LeaseRevokeRequest, PutRequest, PutResponse, RangeRequest, RangeResponse, RequestOp,
    ResponseHeader, TxnRequest, TxnResponse,
};
use quorate_etcd_api::mvccpb::{Event, KeyValue};
use quorate_etcd_store::{Refused, command};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

type Snapshot = BTreeMap<Bytes, KeyValue>;

#[derive(Clone)]
pub(crate) struct Model {
    /// By revision; 0 is never used, 1 is empty.
    snapshots: Vec<Snapshot>,
    /// The changes of the transaction under way, if any were made.
    next: Option<Snapshot>,
    /// Every lease, and how often it was granted or renewed.
    pub(crate) leases: BTreeMap<i64, u64>,
    /// Grants and renewals of all leases.
    pub(crate) renewals: u64,
    /// The first revision that can be read.
    pub(crate) compacted: i64,
    /// Commands that changed something.
    effective: Vec<Bytes>,
}

fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader {
        revision,
        ..ResponseHeader::default()
    })
}

fn within(key: &[u8], start: &[u8], end: &[u8]) -> bool {
    match end {
        b"" => key == start,
        b"\0" => key >= start,
        _ => start <= key && key < end,
    }
}

impl Model {
    pub(crate) fn new() -> Self {
        Model {
            snapshots: vec![Snapshot::new(), Snapshot::new()],
            next: None,
            leases: BTreeMap::new(),
            renewals: 0,
            compacted: -1,
            effective: Vec::new(),
        }
    }

    pub(crate) fn revision(&self) -> i64 {
        self.snapshots.len() as i64 - 1
    }

    pub(crate) fn keys(&self) -> u64 {
        self.snapshots.last().unwrap().len() as u64
    }

    pub(crate) fn replay(&self, mut apply: impl FnMut(Bytes)) {
        self.effective.iter().cloned().for_each(&mut apply);
    }

    pub(crate) fn put(&mut self, request: &PutRequest) -> Result<PutResponse, Refused> {
        self.admit_put(request)?;
        let response = self.write(request);
        self.commit(command::encode_put(request));
        Ok(response)
    }

    pub(crate) fn delete(&mut self, request: &DeleteRangeRequest) -> DeleteRangeResponse {
        let response = self.remove(request);
        self.commit(command::encode_delete_range(request));
        response
    }

    pub(crate) fn txn(&mut self, request: &TxnRequest) -> Result<TxnResponse, Refused> {
        let before = self.clone();
        before.admit(request)?;
        let mut response = self.run(&before, request);
        self.commit(command::encode_txn(request));
        response.header = header(self.revision());
        Ok(response)
    }

    pub(crate) fn compact(&mut self, request: &CompactionRequest) -> Result<(), Refused> {
        if request.revision <= self.compacted {
            return Err(Refused::Compacted);
        }
        if request.revision > self.revision() {
            return Err(Refused::FutureRevision);
        }
        self.compacted = request.revision;
        self.effective.push(command::encode_compact(request));
        Ok(())
    }

    pub(crate) fn grant(&mut self, id: i64) -> Result<(), Refused> {
        if self.leases.contains_key(&id) {
            return Err(Refused::LeaseExists);
        }
        self.renew(id);
        let request = LeaseGrantRequest { id, ttl: 9 };
        self.effective.push(command::encode_lease_grant(&request));
        Ok(())
    }

    pub(crate) fn renew(&mut self, id: i64) {
        self.renewals += 1;
        self.leases.insert(id, self.renewals);
    }

    pub(crate) fn revoke(&mut self, id: i64) -> Result<(), Refused> {
        self.leases.remove(&id).ok_or(Refused::LeaseNotFound)?;
        let keys = self.leased(id);
        for key in keys {
            self.change().0.remove(&key);
        }
        self.effective
            .push(command::encode_lease_revoke(&LeaseRevokeRequest { id }));
        if let Some(next) = self.next.take() {
            self.snapshots.push(next);
        }
        Ok(())
    }

    pub(crate) fn leased(&self, id: i64) -> Vec<Bytes> {
        let with = self.now().0.values().filter(|kv| kv.lease == id);
        with.map(|kv| kv.key.clone()).collect()
    }

    /// The events of a range from a revision on, ordered by key within a revision.
    pub(crate) fn events(&self, key: &[u8], end: &[u8], from: i64) -> Result<Vec<Event>, Refused> {
        if from < self.compacted {
            return Err(Refused::Compacted);
        }
        let mut events = Vec::new();
        for revision in from.max(2)..=self.revision() {
            let (old, new) = (
                &self.snapshots[revision as usize - 1],
                &self.snapshots[revision as usize],
            );
            let known = revision > self.compacted;
            let keys: BTreeSet<&Bytes> = old.keys().chain(new.keys()).collect();
            for name in keys.into_iter().filter(|name| within(name, key, end)) {
                let prev_kv = old.get(name).filter(|_| known).cloned();
                match new.get(name) {
                    Some(kv) if kv.mod_revision == revision => events.push(Event {
                        r#type: 0,
                        kv: Some(kv.clone()),
                        prev_kv,
                    }),
                    None => events.push(Event {
                        r#type: 1,
                        kv: Some(KeyValue {
                            key: name.clone(),
                            mod_revision: revision,
                            ..KeyValue::default()
                        }),
                        prev_kv,
                    }),
                    Some(_) => {}
                }
            }
        }
        Ok(events)
    }

    fn commit(&mut self, body: Bytes) {
        if let Some(next) = self.next.take() {
            self.snapshots.push(next);
            self.effective.push(body);
        }
    }

    /// The state that operations see, and its revision.
    fn now(&self) -> (&Snapshot, i64) {
        match &self.next {
            Some(next) => (next, self.revision() + 1),
            None => (self.snapshots.last().unwrap(), self.revision()),
        }
    }

    fn change(&mut self) -> (&mut Snapshot, i64) {
        let revision = self.revision() + 1;
        let last = self.snapshots.last().unwrap();
        (self.next.get_or_insert_with(|| last.clone()), revision)
    }

    fn write(&mut self, request: &PutRequest) -> PutResponse {
        let (state, revision) = self.change();
        let old = state.get(&request.key).cloned();
        let new = KeyValue {
            key: request.key.clone(),
            create_revision: old.as_ref().map_or(revision, |old| old.create_revision),
            mod_revision: revision,
            version: old.as_ref().map_or(0, |old| old.version) + 1,
            value: match &old {
                Some(old) if request.ignore_value => old.value.clone(),
                _ => request.value.clone(),
            },
            lease: match &old {
                Some(old) if request.ignore_lease => old.lease,
                _ => request.lease,
            },
        };
        state.insert(request.key.clone(), new);
        PutResponse {
            header: header(revision),
            prev_kv: old.filter(|_| request.prev_kv),
        }
    }

    fn remove(&mut self, request: &DeleteRangeRequest) -> DeleteRangeResponse {
        let gone: Vec<KeyValue> = (self.now().0.values())
            .filter(|kv| within(&kv.key, &request.key, &request.range_end))
            .cloned()
            .collect();
        for kv in &gone {
            self.change().0.remove(&kv.key);
        }
        DeleteRangeResponse {
            header: header(self.now().1),
            deleted: gone.len() as i64,
            prev_kvs: if request.prev_kv { gone } else { Vec::new() },
        }
    }

    pub(crate) fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Refused> {
        let (state, now) = self.now();
        let state = match request.revision {
            revision if revision > now => return Err(Refused::FutureRevision),
            revision if revision <= 0 || revision == now => state,
            revision if revision < self.compacted => return Err(Refused::Compacted),
            revision => &self.snapshots[revision as usize],
        };
        let mut kvs: Vec<KeyValue> = (state.values())
            .filter(|kv| within(&kv.key, &request.key, &request.range_end))
            .cloned()
            .collect();
        let count = kvs.len() as i64;
        if request.count_only {
            kvs.clear();
        }
        let filters = [
            request.min_mod_revision,
            request.max_mod_revision,
            request.min_create_revision,
            request.max_create_revision,
        ];
        let limit = if request.limit > 0 {
            request.limit as usize
        } else {
            1_000_000
        };
        if request.sort_order == 0 && filters == [0; 4] {
            kvs.truncate(limit + 1);
        }
        kvs.retain(|kv| {
            request.min_mod_revision == 0 || kv.mod_revision >= request.min_mod_revision
        });
        kvs.retain(|kv| {
            request.max_mod_revision == 0 || kv.mod_revision <= request.max_mod_revision
        });
        kvs.retain(|kv| {
            request.min_create_revision == 0 || kv.create_revision >= request.min_create_revision
        });
        kvs.retain(|kv| {
            request.max_create_revision == 0 || kv.create_revision <= request.max_create_revision
        });
        kvs.sort_by(|a, b| {
            let ordering = match request.sort_target {
                0 => a.key.cmp(&b.key),
                1 => a.version.cmp(&b.version),
                2 => a.create_revision.cmp(&b.create_revision),
                3 => a.mod_revision.cmp(&b.mod_revision),
                _ => a.value.cmp(&b.value),
            };
            match request.sort_order {
                2 => ordering.reverse(),
                _ => ordering,
            }
        });
        let more = kvs.len() > limit;
        kvs.truncate(limit);
        if request.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
            if request.sort_target != 4 {
                kvs.iter_mut().for_each(|kv| kv.lease = 0);
            }
        }
        Ok(RangeResponse {
            header: header(now),
            kvs,
            more,
            count,
        })
    }

    fn taken<'a>(&self, request: &'a TxnRequest) -> (bool, &'a [RequestOp]) {
        if request.compare.iter().all(|compare| self.holds(compare)) {
            (true, &request.success)
        } else {
            (false, &request.failure)
        }
    }

    fn admit_put(&self, put: &PutRequest) -> Result<(), Refused> {
        if put.lease != 0 && !self.leases.contains_key(&put.lease) {
            return Err(Refused::LeaseNotFound);
        }
        if (put.ignore_value || put.ignore_lease) && !self.now().0.contains_key(&put.key) {
            return Err(Refused::KeyNotFound);
        }
        Ok(())
    }

    fn admit(&self, request: &TxnRequest) -> Result<(), Refused> {
        for op in self.taken(request).1 {
            match op.request.as_ref().unwrap() {
                Request::RequestRange(range) if range.revision > self.revision() => {
                    return Err(Refused::FutureRevision);
                }
                Request::RequestRange(range)
                    if range.revision != 0 && range.revision < self.compacted =>
                {
                    return Err(Refused::Compacted);
                }
                Request::RequestPut(put) => self.admit_put(put)?,
                Request::RequestTxn(inner) => self.admit(inner)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn run(&mut self, before: &Model, request: &TxnRequest) -> TxnResponse {
        let (succeeded, ops) = before.taken(request);
        let mut responses = Vec::new();
        for op in ops {
            let response = match op.request.as_ref().unwrap() {
                Request::RequestRange(range) => Response::ResponseRange(self.range(range).unwrap()),
                Request::RequestPut(put) => Response::ResponsePut(self.write(put)),
                Request::RequestDeleteRange(delete) => {
                    Response::ResponseDeleteRange(self.remove(delete))
                }
                Request::RequestTxn(inner) => Response::ResponseTxn(self.run(before, inner)),
            };
            responses.push(response.into());
        }
        TxnResponse {
            header: header(0),
            succeeded,
            responses,
        }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let found: Vec<&KeyValue> = (self.now().0.values())
            .filter(|kv| within(&kv.key, &compare.key, &compare.range_end))
            .collect();
        if found.is_empty() {
            return compare.target != 3 && relates(compare, &KeyValue::default());
        }
        found.into_iter().all(|kv| relates(compare, kv))
    }
}

fn relates(compare: &Compare, kv: &KeyValue) -> bool {
    let union = compare.target_union.as_ref();
    let number = |field: i64, tag: i32| {
        let given = match union {
            Some(TargetUnion::Version(n)) if tag == 0 => *n,
            Some(TargetUnion::CreateRevision(n)) if tag == 1 => *n,
            Some(TargetUnion::ModRevision(n)) if tag == 2 => *n,
            Some(TargetUnion::Lease(n)) if tag == 4 => *n,
            _ => 0,
        };
        field.cmp(&given)
    };
    let ordering = match compare.target {
        0 => number(kv.version, 0),
        1 => number(kv.create_revision, 1),
        2 => number(kv.mod_revision, 2),
        3 => match union {
            Some(TargetUnion::Value(value)) => kv.value.cmp(value),
            _ => kv.value.cmp(&Bytes::new()),
        },
        4 => number(kv.lease, 4),
        _ => Ordering::Equal,
    };
    match compare.result {
        0 => ordering == Ordering::Equal,
        1 => ordering == Ordering::Greater,
        2 => ordering == Ordering::Less,
        3 => ordering != Ordering::Equal,
        _ => true,
    }
}
