//! Histories written by hand: good ones pass, and each kind of lie is found.

mod histories;
mod journal;
mod rights;
mod streams;

use super::{Asker, Journal, Op, Request, Response, Returned, Summary, check};
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::compare::{CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request as Part;
use quorate_etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest,
    RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use quorate_etcd_api::mvccpb::{Event, EventType, KeyValue};

/// A change: a key, and its new value or nothing.
type Change<'a> = (&'a str, Option<&'a str>);

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: bytes(key),
        value: bytes(value),
        ..PutRequest::default()
    }
}

fn range(key: &str, end: &str) -> RangeRequest {
    RangeRequest {
        key: bytes(key),
        range_end: bytes(end),
        ..RangeRequest::default()
    }
}

fn delete(key: &str, end: &str) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: bytes(key),
        range_end: bytes(end),
        prev_kv: false,
    }
}

fn part(part: Part) -> RequestOp {
    RequestOp {
        request: Some(part),
    }
}

/// The events of a revision, as they follow from what the journal has.
fn events(journal: &Journal, revision: i64, changes: &[Change<'_>], lease: i64) -> Vec<Event> {
    let event = |&(key, value): &Change<'_>| {
        let old = journal.get(key.as_bytes(), revision - 1);
        let mut kv = KeyValue {
            key: bytes(key),
            mod_revision: revision,
            ..KeyValue::default()
        };
        if let Some(value) = value {
            kv.value = bytes(value);
            kv.create_revision = old.map_or(revision, |old| old.create_revision);
            kv.version = old.map_or(0, |old| old.version) + 1;
            kv.lease = lease;
        }
        Event {
            r#type: match value {
                Some(_) => EventType::Put as i32,
                None => EventType::Delete as i32,
            },
            kv: Some(kv),
            prev_kv: None,
        }
    };
    changes.iter().map(event).collect()
}

/// A history and its journal.
#[derive(Default)]
struct Story {
    ops: Vec<Op>,
    journal: Journal,
}

impl Story {
    /// Observers tell of a revision.
    fn told(self, changes: &[Change<'_>]) -> Self {
        self.told_leased(changes, 0)
    }

    fn told_leased(mut self, changes: &[Change<'_>], lease: i64) -> Self {
        let revision = self.journal.end();
        let events = events(&self.journal, revision, changes, lease);
        self.journal.add(&events, revision + 1).unwrap();
        self
    }

    fn op(
        mut self,
        [invoked, stamp]: [u64; 2],
        request: Request,
        at: i64,
        response: Response,
    ) -> Self {
        self.ops.push(Op {
            client: self.ops.len(),
            asker: Asker::Anybody,
            request,
            invoked,
            returned: (stamp > 0).then(|| Returned::at(stamp, at, response)),
            reader: 0,
        });
        self
    }

    /// Somebody asked the last request.
    fn by(mut self, asker: Asker) -> Self {
        self.ops.last_mut().unwrap().asker = asker;
        self
    }

    fn put(self, span: [u64; 2], key: &str, value: &str, at: i64) -> Self {
        let response = Response::Put(PutResponse::default());
        self.op(span, Request::Put(put(key, value)), at, response)
    }

    fn put_unknown(self, invoked: u64, key: &str, value: &str) -> Self {
        self.put([invoked, 0], key, value, 0)
    }

    fn delete(self, span: [u64; 2], key: &str, end: &str, at: i64, deleted: i64) -> Self {
        let response = Response::Delete(DeleteRangeResponse {
            deleted,
            ..DeleteRangeResponse::default()
        });
        self.op(span, Request::Delete(delete(key, end)), at, response)
    }

    /// A read that gives what was there at a revision, and says it is of another.
    fn range(self, span: [u64; 2], request: RangeRequest, shows: i64, at: i64) -> Self {
        let kvs = self.journal.range(&request.key, &request.range_end, shows);
        let kvs: Vec<KeyValue> = kvs.cloned().collect();
        let count = kvs.len() as i64;
        let response = RangeResponse {
            kvs,
            count,
            ..RangeResponse::default()
        };
        self.op(span, Request::Range(request), at, Response::Range(response))
    }

    fn get(self, span: [u64; 2], key: &str, shows: i64, at: i64) -> Self {
        self.range(span, range(key, ""), shows, at)
    }

    fn get_stale(mut self, span: [u64; 2], key: &str, at: i64, reader: u64) -> Self {
        let request = RangeRequest {
            serializable: true,
            ..range(key, "")
        };
        self = self.range(span, request, at, at);
        self.ops.last_mut().unwrap().reader = reader;
        self
    }

    /// Stores two values if the first key was last modified at a revision, else reads the second.
    fn txn(
        self,
        span: [u64; 2],
        expects: i64,
        values: [&str; 2],
        at: i64,
        succeeded: bool,
    ) -> Self {
        let request = pair(expects, values);
        let mut responses = vec![];
        if succeeded {
            let done = || PutResponse::default();
            responses = vec![done_put(done()), done_put(done())];
        } else {
            let kvs: Vec<KeyValue> = self.journal.range(b"b", b"", at).cloned().collect();
            let count = kvs.len() as i64;
            let found = RangeResponse {
                kvs,
                count,
                ..RangeResponse::default()
            };
            let found = quorate_etcd_api::etcdserverpb::response_op::Response::ResponseRange(found);
            responses.push(found.into());
        }
        let response = TxnResponse {
            header: None,
            succeeded,
            responses,
        };
        self.op(span, Request::Txn(request), at, Response::Txn(response))
    }

    fn good(&self) -> Summary {
        check(&self.ops, &self.journal).unwrap()
    }

    fn bad(&self, why: &str) {
        let complaint = check(&self.ops, &self.journal).unwrap_err();
        assert!(complaint.contains(why), "{complaint}");
    }
}

fn done_put(put: PutResponse) -> quorate_etcd_api::etcdserverpb::ResponseOp {
    quorate_etcd_api::etcdserverpb::response_op::Response::ResponsePut(put).into()
}

fn pair(expects: i64, [a, b]: [&str; 2]) -> TxnRequest {
    TxnRequest {
        compare: vec![Compare {
            target: CompareTarget::Mod as i32,
            key: bytes("a"),
            target_union: Some(TargetUnion::ModRevision(expects)),
            ..Compare::default()
        }],
        success: vec![
            part(Part::RequestPut(put("a", a))),
            part(Part::RequestPut(put("b", b))),
        ],
        failure: vec![part(Part::RequestRange(range("b", "")))],
    }
}
