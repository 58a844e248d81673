//! Requests on the keys that all clients of a round share, and how each is sent.

use bytes::Bytes;
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request as Part;
use quorate_etcd_api::etcdserverpb::response_op::Response as PartAnswer;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, Compare, DeleteRangeRequest, PutRequest, RangeRequest,
    TxnRequest, TxnResponse,
};
use quorate_load::load::rpc::{Call, Channel, Failure};
use quorate_sim::judge::{Refusal, Request, Response};

use super::session::Session;

/// Draws requests for one client.
#[derive(Debug)]
pub(super) struct Requests {
    client: usize,
    random: fastrand::Rng,
    /// The number of the client's last write.
    sequence: u64,
    /// The number of shared keys. Few, so that requests meet; one digit.
    keys: u8,
    /// The revision at which each shared key was last seen modified.
    modified: Vec<i64>,
}

/// An answer, and the revision it was given at where the response does not have it.
#[derive(Debug)]
pub(super) struct StoreAnswer {
    pub(super) response: Response,
    pub(super) revision: Option<i64>,
}

impl Requests {
    pub(super) fn new(client: usize, keys: u8, seed: u64) -> Requests {
        Requests {
            client,
            random: fastrand::Rng::with_seed(seed),
            sequence: 0,
            keys,
            modified: vec![0; keys.into()],
        }
    }

    /// The number of the client's next write.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// The next request; every value it may store is unique.
    pub(super) fn draw(&mut self, session: &Session) -> Request {
        let key = self.random.u8(..self.keys);
        match self.random.u8(..20) {
            0..=4 => Request::Put(self.put(session, shared_key(session, key))),
            5..=8 => Request::Range(RangeRequest {
                serializable: self.random.u8(..4) == 0,
                ..one(shared_key(session, key))
            }),
            9..=11 => Request::Range(self.several(session, key)),
            12..=13 => Request::Delete(self.delete(session, key)),
            14..=16 => Request::Txn(self.swap(session, key)),
            _ => Request::Txn(self.move_on(session, key)),
        }
    }

    /// A put of the client's next value.
    pub(super) fn put(&mut self, session: &Session, key: Bytes) -> PutRequest {
        let sequence = self.next_sequence();
        PutRequest {
            key,
            value: session.value(self.client, sequence),
            prev_kv: self.random.u8(..4) == 0,
            ..PutRequest::default()
        }
    }

    /// Remembers what an answer says of shared keys.
    pub(super) fn learn(&mut self, session: &Session, response: &Response) {
        let Response::Range(range) = response else {
            return;
        };
        for kv in &range.kvs {
            for (key, modified) in (0..self.keys).zip(&mut self.modified) {
                if shared_key(session, key) == kv.key {
                    *modified = kv.mod_revision.max(*modified);
                }
            }
        }
    }

    /// All shared keys, or the first few: now, or at a revision that was seen before.
    fn several(&mut self, session: &Session, key: u8) -> RangeRequest {
        let seen = self.modified[usize::from(key)];
        RangeRequest {
            limit: [0, 0, 3][self.random.usize(..3)],
            revision: if self.random.u8(..4) == 0 { seen } else { 0 },
            serializable: self.random.u8(..3) == 0,
            ..all(session)
        }
    }

    /// Deletes a key, or now and then several.
    fn delete(&mut self, session: &Session, key: u8) -> DeleteRangeRequest {
        let range_end = match self.random.u8(..8) {
            0 => shared_key(session, self.random.u8(key..self.keys)),
            _ => Bytes::new(),
        };
        DeleteRangeRequest {
            key: shared_key(session, key),
            range_end,
            prev_kv: self.random.bool(),
        }
    }

    /// Writes a key if it is as it was last seen, and reads it otherwise.
    fn swap(&mut self, session: &Session, key: u8) -> TxnRequest {
        let seen = self.modified[usize::from(key)];
        let key = shared_key(session, key);
        TxnRequest {
            compare: vec![Compare {
                target: CompareTarget::Mod as i32,
                key: key.clone(),
                target_union: Some(TargetUnion::ModRevision(seen)),
                ..Compare::default()
            }],
            success: vec![Part::RequestPut(self.put(session, key.clone())).into()],
            failure: vec![Part::RequestRange(one(key)).into()],
        }
    }

    /// Moves on from one key to the next: two writes that belong together, and a read of all. Begins with the
    /// key if it is not there.
    fn move_on(&mut self, session: &Session, key: u8) -> TxnRequest {
        let here = shared_key(session, key);
        let there = shared_key(session, (key + 1) % self.keys);
        let delete = DeleteRangeRequest {
            key: here.clone(),
            ..DeleteRangeRequest::default()
        };
        TxnRequest {
            compare: vec![Compare {
                result: CompareResult::Greater as i32,
                target: CompareTarget::Version as i32,
                key: here.clone(),
                target_union: Some(TargetUnion::Version(0)),
                ..Compare::default()
            }],
            success: vec![
                Part::RequestDeleteRange(delete).into(),
                Part::RequestPut(self.put(session, there.clone())).into(),
                Part::RequestRange(all(session)).into(),
            ],
            failure: vec![
                Part::RequestPut(self.put(session, here)).into(),
                Part::RequestRange(one(there)).into(),
            ],
        }
    }
}

fn shared_key(session: &Session, key: u8) -> Bytes {
    session.key(&format!("{SHARED}{key}"))
}

/// Reads one key.
fn one(key: Bytes) -> RangeRequest {
    RangeRequest {
        key,
        ..RangeRequest::default()
    }
}

/// Reads all shared keys.
fn all(session: &Session) -> RangeRequest {
    session.range(SHARED).request()
}

/// Sends a request and waits for its answer. A refusal that the store is to give is an answer, too.
pub(super) async fn send(channel: &mut Channel, request: &Request) -> Result<StoreAnswer, Failure> {
    let mut revision = None;
    let answered = match request {
        Request::Range(range) => channel.call(Call::Range, range).await.map(Response::Range),
        Request::Put(put) => channel.call(Call::Put, put).await.map(Response::Put),
        Request::Delete(delete) => {
            let deleted = channel.call(Call::DeleteRange, delete).await;
            deleted.map(Response::Delete)
        }
        Request::Txn(txn) => channel.call(Call::Txn, txn).await.map(Response::Txn),
        Request::Compact(until) => {
            let request = CompactionRequest {
                revision: *until,
                physical: false,
            };
            let compacted = channel.call(Call::Compact, &request).await;
            compacted.map(|answer: CompactionResponse| {
                revision = Some(answer.header.map_or(0, |header| header.revision));
                Response::Compacted
            })
        }
        Request::Revoke(_)
        | Request::Grant(_)
        | Request::Renew(_)
        | Request::Auth(_)
        | Request::AuthStatus => Err(Failure {
            text: "the KV service has no leases and no users".to_owned(),
            connection_lost: false,
        }),
    };
    match answered {
        Ok(response) => Ok(StoreAnswer { response, revision }),
        Err(failure) => refused(&failure.text).ok_or(failure),
    }
}

/// The answer in an error that a store is to give.
pub(super) fn refused(text: &str) -> Option<StoreAnswer> {
    let refusals = [
        (errors::COMPACTED, Refusal::Compacted),
        (errors::FUTURE_REVISION, Refusal::Future),
        (errors::LEASE_NOT_FOUND, Refusal::LeaseNotFound),
    ];
    let mut known = refusals.into_iter();
    let (_, refusal) = known.find(|(error, _)| text.ends_with(error.text))?;
    Some(StoreAnswer {
        response: Response::Refused(refusal),
        revision: None,
    })
}

/// Stores a value under a key unless there is one, and reads since when there is one otherwise.
pub(super) fn put_once(key: Bytes, value: Bytes) -> TxnRequest {
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
        keys_only: true,
        ..one(key)
    };
    TxnRequest {
        compare: vec![absent],
        success: vec![Part::RequestPut(put).into()],
        failure: vec![Part::RequestRange(look).into()],
    }
}

/// Sends a [`put_once`]; returns the revision since which the key is there.
pub(super) async fn send_put_once(
    channel: &mut Channel,
    request: &TxnRequest,
) -> Result<i64, Failure> {
    let answer: TxnResponse = channel.call(Call::Txn, request).await?;
    let revision = answer.header.as_ref().map_or(0, |header| header.revision);
    let parts = answer.responses.iter();
    let found = parts.filter_map(|part| match &part.response {
        Some(PartAnswer::ResponseRange(range)) => range.kvs.first(),
        _ => None,
    });
    Ok(found.last().map_or(revision, |kv| kv.mod_revision))
}

/// What names of shared keys begin with, behind what all names of the round begin with.
const SHARED: &str = "shared/";
