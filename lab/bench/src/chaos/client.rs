//! Clients: puts, deletions, transactions and reads on keys that all share, and puts on their own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request as Part;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest,
};
use quorate_face_etcd::client::KvClient;
use quorate_sim::judge::{Refusal, Request, Response};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::history::{Outcome, Session};

/// A client of one replica, with one request outstanding.
#[derive(Debug)]
pub(super) struct Client {
    id: usize,
    replica: usize,
    session: Arc<Session>,
    kv: KvClient<Channel>,
    random: fastrand::Rng,
    sequence: u64,
    /// A revision at which a shared key was seen.
    seen: i64,
    value_bytes: usize,
    /// The beginning of the round: before it, history may be forgotten.
    begin: i64,
}

impl Client {
    pub(super) fn new(
        id: usize,
        session: &Arc<Session>,
        seed: u64,
        begin: i64,
    ) -> Result<Client, String> {
        let replica = id % session.replicas();
        let kv = KvClient::new(session.channel(replica)?);
        Ok(Client {
            id,
            replica,
            session: Arc::clone(session),
            kv: kv.max_decoding_message_size(usize::MAX),
            random: fastrand::Rng::with_seed(seed ^ id as u64),
            sequence: 0,
            seen: 0,
            value_bytes: VALUE_BYTES,
            begin,
        })
    }

    /// Sends one request after the other until the round's load is over.
    pub(super) async fn run(mut self) {
        while !self.session.is_over() {
            let request = self.draw();
            match self.ask(request).await {
                Some(Response::Range(range)) => {
                    let newest = range.kvs.iter().map(|kv| kv.mod_revision).max();
                    self.seen = newest.unwrap_or(self.seen);
                }
                Some(_) => {}
                // A replica that is down is not asked as fast as it refuses.
                None => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Asks one thing.
    pub(super) async fn ask(&mut self, request: Request) -> Option<Response> {
        let session = Arc::clone(&self.session);
        let (id, replica) = (self.id, self.replica);
        let answer = send(&mut self.kv, request.clone());
        session.ask(id, replica, request, answer).await
    }

    fn draw(&mut self) -> Request {
        match self.random.u8(..100) {
            0..30 => Request::Put(self.put(self.own())),
            30..45 => {
                let key = self.shared();
                Request::Put(self.put(key))
            }
            45..60 => Request::Range(one(self.shared())),
            60..70 => Request::Range(self.several()),
            70..76 => Request::Delete(self.delete()),
            76..88 => Request::Txn(self.swap()),
            88..99 => Request::Txn(self.move_on()),
            _ => Request::Compact(self.begin),
        }
    }

    fn own(&self) -> Bytes {
        let name = format!("own/{}/{}", self.id, self.sequence % OWN_KEYS);
        self.session.key(&name)
    }

    fn shared(&mut self) -> Bytes {
        let number = self.random.u8(..SHARED_KEYS);
        self.session.key(&format!("{SHARED}{number}"))
    }

    fn put(&mut self, key: Bytes) -> PutRequest {
        self.sequence += 1;
        let text = format!("{}-{}-", self.id, self.sequence);
        let value = format!("{text:.<width$}", width = self.value_bytes);
        PutRequest {
            key,
            value: self.session.value(value),
            ..PutRequest::default()
        }
    }

    fn several(&mut self) -> RangeRequest {
        let (key, range_end) = self.session.range(SHARED);
        let past = self.seen > 0 && self.random.u8(..4) == 0;
        RangeRequest {
            key,
            range_end,
            limit: [0, 0, 3][self.random.usize(..3)],
            revision: if past { self.seen } else { 0 },
            serializable: self.random.bool(),
            ..RangeRequest::default()
        }
    }

    fn delete(&mut self) -> DeleteRangeRequest {
        if self.random.u8(..8) == 0 {
            let (key, range_end) = self.session.range(&format!("{SHARED}1"));
            return delete(key, range_end);
        }
        delete(self.shared(), Bytes::new())
    }

    /// Writes a key if it is as it was last seen.
    fn swap(&mut self) -> TxnRequest {
        let key = self.shared();
        let condition = Compare {
            result: CompareResult::Equal as i32,
            target: CompareTarget::Mod as i32,
            key: key.clone(),
            range_end: Bytes::new(),
            target_union: Some(TargetUnion::ModRevision(self.seen)),
        };
        TxnRequest {
            compare: vec![condition],
            success: vec![Part::RequestPut(self.put(key.clone())).into()],
            failure: vec![Part::RequestRange(one(key)).into()],
        }
    }

    /// Moves on from one key to the next: two writes that belong together, and a look at all.
    fn move_on(&mut self) -> TxnRequest {
        let number = self.random.u8(..SHARED_KEYS - 1);
        let here = self.session.key(&format!("{SHARED}{number}"));
        let there = self.session.key(&format!("{SHARED}{}", number + 1));
        let condition = Compare {
            result: CompareResult::Greater as i32,
            target: CompareTarget::Version as i32,
            key: here.clone(),
            range_end: Bytes::new(),
            target_union: Some(TargetUnion::Version(0)),
        };
        let (key, range_end) = self.session.range(SHARED);
        let all = RangeRequest {
            key,
            range_end,
            ..RangeRequest::default()
        };
        TxnRequest {
            compare: vec![condition],
            success: vec![
                Part::RequestDeleteRange(delete(here.clone(), Bytes::new())).into(),
                Part::RequestPut(self.put(there.clone())).into(),
                Part::RequestRange(all).into(),
            ],
            failure: vec![
                Part::RequestPut(self.put(here)).into(),
                Part::RequestRange(one(there)).into(),
            ],
        }
    }
}

/// Sends a request.
pub(super) async fn send(kv: &mut KvClient<Channel>, request: Request) -> Outcome {
    let answer = match request {
        Request::Range(range) => kv
            .range(range)
            .await
            .map(|it| Response::Range(it.into_inner())),
        Request::Put(put) => kv.put(put).await.map(|it| Response::Put(it.into_inner())),
        Request::Delete(delete) => {
            let answer = kv.delete_range(delete).await;
            answer.map(|it| Response::Delete(it.into_inner()))
        }
        Request::Txn(txn) => kv.txn(txn).await.map(|it| Response::Txn(it.into_inner())),
        Request::Compact(revision) => {
            let request = CompactionRequest {
                revision,
                physical: false,
            };
            return match kv.compact(request).await {
                Ok(answer) => {
                    let header = answer.into_inner().header;
                    let revision = header.map_or(0, |header| header.revision);
                    Outcome::AnsweredAt(revision, Response::Compacted)
                }
                Err(status) => judged(&status),
            };
        }
        Request::Revoke(_) => Err(Status::unimplemented("not a request of this service")),
    };
    answer.map_or_else(|status| judged(&status), Outcome::Answered)
}

/// What an error says of its request.
pub(super) fn judged(status: &Status) -> Outcome {
    let refusals = [
        (errors::COMPACTED, Refusal::Compacted),
        (errors::FUTURE_REVISION, Refusal::Future),
        (errors::LEASE_NOT_FOUND, Refusal::LeaseNotFound),
    ];
    let known = refusals
        .into_iter()
        .find(|(error, _)| error.text == status.message());
    match known {
        Some((_, refusal)) => Outcome::Answered(Response::Refused(refusal)),
        None => Outcome::Unknown(describe(status)),
    }
}

/// An error by its kind: what the transport adds differs from case to case.
pub(super) fn describe(status: &Status) -> String {
    match status.code() {
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal
            if !status.message().starts_with("etcdserver") =>
        {
            "connection lost".to_owned()
        }
        _ => status.message().to_owned(),
    }
}

/// Reads one key.
pub(super) fn one(key: Bytes) -> RangeRequest {
    RangeRequest {
        key,
        ..RangeRequest::default()
    }
}

fn delete(key: Bytes, range_end: Bytes) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key,
        range_end,
        prev_kv: false,
    }
}

const SHARED: &str = "shared/";
/// Few, so that requests meet; one digit.
const SHARED_KEYS: u8 = 8;
const OWN_KEYS: u64 = 200;
const VALUE_BYTES: usize = 100;
const PAUSE: Duration = Duration::from_millis(30);
