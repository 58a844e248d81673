//! Changing the store: one write transaction.

use crate::history::{History, Version};
use crate::journal::KeyChange;
use crate::plan::{Plan, Step};
use crate::span::Span;
use crate::store::{KEY_BYTES, Store, VERSION_BYTES};
use crate::stored_value::StoredValue;
use crate::value_refs::ValueRef;
use crate::view::{View, header, key_value};
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    TxnResponse,
};

/// A write transaction under way. Everything it changes gets the same revision, which the store
/// takes when the transaction ends, if there was a change.
pub(crate) struct WriteTransaction<'a> {
    store: &'a mut Store,
    changes: u32,
}

impl<'a> WriteTransaction<'a> {
    pub(crate) fn new(store: &'a mut Store) -> Self {
        WriteTransaction { store, changes: 0 }
    }

    /// Ends the transaction and returns the store's revision.
    pub(crate) fn finish(self) -> i64 {
        if self.changes > 0 {
            self.store.revision += 1;
        }
        self.store.revision
    }

    /// What the next operation sees.
    fn view(&self) -> View<'_> {
        View {
            store: self.store,
            revision: self.store.revision + i64::from(self.changes > 0),
        }
    }

    /// Runs an admitted transaction.
    pub(crate) fn txn(&mut self, plan: &Plan<'_>) -> TxnResponse {
        let responses = plan.steps.iter().map(|step| self.step(step).into());
        TxnResponse {
            // Only the outermost transaction's header says something.
            header: Some(header(0)),
            succeeded: plan.succeeded,
            responses: responses.collect(),
        }
    }

    fn step(&mut self, step: &Step<'_>) -> Response {
        match step {
            Step::Range(range) => Response::ResponseRange(self.range(range)),
            Step::Put(put, apart) => Response::ResponsePut(self.put(put, *apart)),
            Step::Delete(delete) => Response::ResponseDeleteRange(self.delete(delete)),
            Step::Txn(inner) => Response::ResponseTxn(self.txn(inner)),
        }
    }

    /// Runs an admitted range: its revision, if it names one, is readable.
    fn range(&self, request: &RangeRequest) -> RangeResponse {
        let view = self.view();
        let revision = match request.revision {
            named if named > 0 => named,
            _ => view.revision,
        };
        view.range_at(request, revision)
    }

    /// Runs an admitted put, of this value if it is kept as a payload.
    pub(crate) fn put(&mut self, request: &PutRequest, apart: Option<ValueRef>) -> PutResponse {
        self.store.operations.puts += 1;
        let modified = self.store.revision + 1;
        let mut next = Version {
            value: StoredValue::default(),
            modified,
            created: modified,
            version: 1,
            lease: request.lease,
            sub: self.changes,
        };
        let mut prev_kv = None;
        let mut old_lease = 0;
        let history = self.store.keys.get_mut(&request.key[..]);
        let present = history.as_ref().and_then(|history| history.now());
        if let Some(present) = present {
            next.created = present.created;
            next.version = present.version + 1;
            old_lease = present.lease;
            if request.ignore_lease {
                next.lease = present.lease;
            }
            prev_kv = request.prev_kv.then(|| key_value(&request.key, present));
        } else {
            self.store.live += 1;
        }
        next.value = match present {
            Some(present) if request.ignore_value => present.value.clone(),
            _ if let Some(reference) = apart => StoredValue::by_reference(reference),
            _ if request.value.len() < SHARED_BYTES_MIN => StoredValue::copy(&request.value),
            _ => StoredValue::share(&request.value),
        };
        let new_lease = next.lease;
        self.store.bytes += VERSION_BYTES + next.value.bytes_held();
        if let Some(reference) = next.value.reference() {
            self.store.payloads.hold(reference);
        }
        if let Some(history) = history {
            history.push(next);
        } else {
            self.store.bytes += KEY_BYTES + request.key.len() as u64;
            let key = request.key[..].into();
            self.store.keys.insert(key, History::new(next));
        }
        if old_lease != new_lease {
            let leases = &mut self.store.leases;
            leases.attach(&request.key, old_lease, new_lease);
        }
        self.store.journal.push(KeyChange {
            revision: modified,
            sub: self.changes,
            key: &request.key,
        });
        self.changes += 1;
        PutResponse {
            header: Some(header(modified)),
            prev_kv,
        }
    }

    /// Deletes one key.
    pub(crate) fn delete_key(&mut self, key: &[u8]) {
        self.delete(&DeleteRangeRequest {
            key: Bytes::copy_from_slice(key),
            ..DeleteRangeRequest::default()
        });
    }

    /// Runs a deletion.
    pub(crate) fn delete(&mut self, request: &DeleteRangeRequest) -> DeleteRangeResponse {
        self.store.operations.deletions += 1;
        let modified = self.store.revision + 1;
        let mut response = DeleteRangeResponse::default();
        let mut delete = |key: &[u8], history: &mut History| {
            let Some(present) = history.now() else {
                return;
            };
            if request.prev_kv {
                response.prev_kvs.push(key_value(key, present));
            }
            self.store.leases.attach(key, present.lease, 0);
            history.push(Version::deletion(modified, self.changes));
            self.store.journal.push(KeyChange {
                revision: modified,
                sub: self.changes,
                key,
            });
            self.changes += 1;
            response.deleted += 1;
        };
        let span = Span::new(&request.key, &request.range_end);
        if let Span::One(key) = span {
            if let Some(history) = self.store.keys.get_mut(key) {
                delete(&request.key, history);
            }
        } else if let Some(bounds) = span.bounds() {
            for (key, history) in self.store.keys.range_mut::<[u8], _>(bounds) {
                delete(key, history);
            }
        }
        let deleted = response.deleted.unsigned_abs();
        self.store.live -= deleted;
        self.store.bytes += VERSION_BYTES * deleted;
        response.header = Some(header(self.view().revision));
        response
    }
}

/// What a request carries is a slice of a large receive buffer; only a value that is large itself is
/// not worth copying.
const SHARED_BYTES_MIN: usize = 256 << 10;
