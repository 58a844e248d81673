//! Requests on the keys that all clients share.

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::compare::{CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request as Part;
use quorate_etcd_api::etcdserverpb::response_op::Response as PartAnswer;
use quorate_etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
};
use quorate_sim::judge::{Request, Response};

use super::clients::{SHARED_KEYS, Session};
use quorate_load::load::rpc::{Call, Channel, Failure};

/// Draws requests for one client.
#[derive(Debug)]
pub(super) struct Drawer {
    client: u32,
    random: fastrand::Rng,
    /// The revision at which each key was last seen modified.
    modified: [i64; SHARED_KEYS as usize],
}

impl Drawer {
    pub(super) fn new(client: u32, seed: u64) -> Drawer {
        Drawer {
            client,
            random: fastrand::Rng::with_seed(seed),
            modified: [0; SHARED_KEYS as usize],
        }
    }

    /// The next request; every value it may store has a number of its own.
    pub(super) fn draw(&mut self, session: &Session, sequence: &mut u64) -> Request {
        let key = self.random.u8(..SHARED_KEYS);
        match self.random.u8(..20) {
            0..=5 => Request::Put(self.put(session, key, sequence)),
            6..=10 => Request::Range(RangeRequest {
                serializable: self.random.u8(..4) == 0,
                ..read(session, key)
            }),
            11..=13 => Request::Range(self.span(session)),
            14 => Request::Delete(DeleteRangeRequest {
                key: session.shared_key(key),
                range_end: session.shared_key(self.random.u8(key..=SHARED_KEYS)),
                prev_kv: self.random.bool(),
            }),
            _ => Request::Txn(self.txn(session, key, sequence)),
        }
    }

    /// Remembers what an answer says of a key.
    pub(super) fn learn(&mut self, session: &Session, response: &Response) {
        let Response::Range(range) = response else {
            return;
        };
        for kv in &range.kvs {
            let known = (0..SHARED_KEYS).zip(&mut self.modified);
            for (_, modified) in known.filter(|(key, _)| session.shared_key(*key) == kv.key) {
                *modified = kv.mod_revision.max(*modified);
            }
        }
    }

    fn put(&mut self, session: &Session, key: u8, sequence: &mut u64) -> PutRequest {
        *sequence += 1;
        PutRequest {
            key: session.shared_key(key),
            value: session.payload.value(self.client, *sequence),
            prev_kv: self.random.u8(..4) == 0,
            ..PutRequest::default()
        }
    }

    /// All shared keys, or the first few.
    fn span(&mut self, session: &Session) -> RangeRequest {
        let (key, range_end) = session.shared_range();
        RangeRequest {
            key,
            range_end,
            limit: [0, 0, 2][self.random.usize(..3)],
            serializable: self.random.u8(..4) == 0,
            ..RangeRequest::default()
        }
    }

    /// If a key is as it was last seen: stores it and another, and reads all; else reads it.
    fn txn(&mut self, session: &Session, key: u8, sequence: &mut u64) -> TxnRequest {
        let other = (key + 1) % SHARED_KEYS;
        let part = |request| RequestOp {
            request: Some(request),
        };
        let second = match self.random.u8(..3) {
            0 => Part::RequestDeleteRange(DeleteRangeRequest {
                key: session.shared_key(other),
                ..DeleteRangeRequest::default()
            }),
            _ => Part::RequestPut(self.put(session, other, sequence)),
        };
        let expected = self.modified[usize::from(key)];
        let compare = Compare {
            target: CompareTarget::Mod as i32,
            key: session.shared_key(key),
            target_union: Some(TargetUnion::ModRevision(expected)),
            ..Compare::default()
        };
        TxnRequest {
            compare: if self.random.bool() {
                vec![compare]
            } else {
                Vec::new()
            },
            success: vec![
                part(Part::RequestPut(self.put(session, key, sequence))),
                part(second),
                part(Part::RequestRange(self.span(session))),
            ],
            failure: vec![part(Part::RequestRange(read(session, key)))],
        }
    }
}

fn read(session: &Session, key: u8) -> RangeRequest {
    RangeRequest {
        key: session.shared_key(key),
        ..RangeRequest::default()
    }
}

/// Sends a request and waits for its answer.
pub(super) async fn send(channel: &mut Channel, request: &Request) -> Result<Response, Failure> {
    match request {
        Request::Range(range) => channel.call(Call::Range, range).await.map(Response::Range),
        Request::Put(put) => channel.call(Call::Put, put).await.map(Response::Put),
        Request::Delete(delete) => {
            let deleted = channel.call(Call::DeleteRange, delete).await;
            deleted.map(Response::Delete)
        }
        Request::Txn(txn) => channel.call(Call::Txn, txn).await.map(Response::Txn),
        Request::Revoke(_) | Request::Compact(_) => unreachable!("no client asks for these"),
    }
}

/// Stores a value under a key unless there is one, and says since when there is.
pub(super) fn put_once(key: Bytes, value: Bytes) -> TxnRequest {
    let part = |request| RequestOp {
        request: Some(request),
    };
    let absent = Compare {
        target: CompareTarget::Create as i32,
        key: key.clone(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    let put = PutRequest {
        key: key.clone(),
        value,
        ..PutRequest::default()
    };
    let look = RangeRequest {
        key,
        keys_only: true,
        ..RangeRequest::default()
    };
    TxnRequest {
        compare: vec![absent],
        success: vec![part(Part::RequestPut(put))],
        failure: vec![part(Part::RequestRange(look))],
    }
}

/// Sends such a request; gives the revision since which the key is there.
pub(super) async fn ask_once(channel: &mut Channel, request: &TxnRequest) -> Result<i64, Failure> {
    let answer: TxnResponse = channel.call(Call::Txn, request).await?;
    let revision = answer.header.as_ref().map_or(0, |header| header.revision);
    let parts = answer.responses.iter();
    let found = parts.filter_map(|part| match &part.response {
        Some(PartAnswer::ResponseRange(range)) => range.kvs.first(),
        _ => None,
    });
    Ok(found.last().map_or(revision, |kv| kv.mod_revision))
}

/// The range of names that begin with a prefix.
pub(super) fn prefixed(prefix: String) -> (Bytes, Bytes) {
    let mut end = prefix.clone().into_bytes();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (prefix.into(), end.into())
}
