//! What a client is told of a write that got no result: docs/reference/statuses.md has the same rows.

use crate::backend;
use bytes::Bytes;
use quorate_core::{Admission, Application, At, EntryId, PayloadId, Principal, Slot};
use quorate_etcd_api::etcdserverpb::request_op::Request as Operation;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest,
    MemberPromoteRequest, PutRequest, TxnRequest,
};
use quorate_etcd_store::Store;
use quorate_face_etcd::client::{ClusterClient, KvClient, LeaseClient};
use quorate_server::{ChangeError, Failure, Handle, Request};
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// A face whose requests the test answers.
async fn start(capacity: usize) -> (Channel, Handle<Store>, Receiver<Request>) {
    let (handle, requests) = Handle::new(capacity);
    let channel = backend::serve_face(handle.clone(), backend::userless()).await;
    (channel, handle, requests)
}

fn put() -> PutRequest {
    PutRequest {
        key: Bytes::from_static(b"k"),
        ..PutRequest::default()
    }
}

fn txn() -> TxnRequest {
    TxnRequest {
        success: vec![Operation::RequestPut(put()).into()],
        ..TxnRequest::default()
    }
}

/// A request that goes by the routes, past the short way for the most frequent calls.
fn by_the_routes<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    let plain = "identity".parse().expect("a header");
    request.metadata_mut().insert("grpc-encoding", plain);
    request
}

/// The place of the first command in the log.
fn first() -> At {
    At {
        slot: Slot(0),
        index: 0,
        stamp_ns: 0,
        principal: Principal(0),
        admission: Admission::All,
        payload: PayloadId {
            entry: EntryId::default(),
            part: 0,
        },
    }
}

type Told = (Code, String);

async fn told<T>(call: impl Future<Output = Result<T, Status>>) -> Told {
    let status = call.await.err().expect("there is no result");
    (status.code(), status.message().to_owned())
}

/// Everything that changes something, and what it was told.
async fn all(channel: &Channel) -> Vec<(&'static str, Told)> {
    let mut kv = KvClient::new(channel.clone());
    let mut lease = LeaseClient::new(channel.clone());
    let mut cluster = ClusterClient::new(channel.clone());
    let delete = DeleteRangeRequest {
        key: Bytes::from_static(b"k"),
        ..DeleteRangeRequest::default()
    };
    let grant = LeaseGrantRequest { id: 0, ttl: 60 };
    vec![
        ("put", told(kv.put(put())).await),
        ("routed put", told(kv.put(by_the_routes(put()))).await),
        ("txn", told(kv.txn(txn())).await),
        ("routed txn", told(kv.txn(by_the_routes(txn()))).await),
        ("delete", told(kv.delete_range(delete)).await),
        (
            "compact",
            told(kv.compact(CompactionRequest::default())).await,
        ),
        ("grant", told(lease.lease_grant(grant)).await),
        (
            "revoke",
            told(lease.lease_revoke(LeaseRevokeRequest { id: 1 })).await,
        ),
        (
            "promote",
            told(cluster.member_promote(MemberPromoteRequest { id: 1 })).await,
        ),
    ]
}

/// Codes of which etcd's Go client takes a call for one that did not reach the server, and makes it again elsewhere.
const REPEATED_BY_GO: [Code; 2] = [Code::Cancelled, Code::DeadlineExceeded];

#[tokio::test]
async fn each_failure_has_the_code_and_text_of_etcd_in_each_call() {
    let rows = [
        (
            Failure::Overloaded,
            Code::ResourceExhausted,
            "etcdserver: too many requests",
        ),
        (
            Failure::TooLarge,
            Code::InvalidArgument,
            "etcdserver: request is too large",
        ),
        (
            Failure::Timeout,
            Code::Unavailable,
            "etcdserver: request timed out",
        ),
        (
            Failure::NotServing,
            Code::Unavailable,
            "etcdserver: no leader",
        ),
        (
            Failure::Stopping,
            Code::Unavailable,
            "etcdserver: server stopped",
        ),
        (
            Failure::Stopped,
            Code::Unavailable,
            "etcdserver: server stopped",
        ),
        (
            Failure::NoSpace,
            Code::ResourceExhausted,
            "etcdserver: mvcc: database space exceeded",
        ),
        (
            Failure::Corrupt,
            Code::DataLoss,
            "etcdserver: corrupt cluster",
        ),
    ];
    for (failure, code, text) in rows {
        let (channel, _handle, mut requests) = start(64).await;
        let answering = tokio::spawn(async move {
            while let Some(request) = requests.recv().await {
                let answered = match request {
                    Request::Write { reply, .. } => reply.send(Err(failure)).is_ok(),
                    Request::Change { reply, .. } => reply.send(Err(failure.into())).is_ok(),
                    // A promotion is judged by what is known of the members.
                    Request::Status { reply } => reply.send(backend::status(1)).is_ok(),
                    other => panic!("nothing else is asked for: {other:?}"),
                };
                assert!(answered, "the client waits");
            }
        });
        for (call, told) in all(&channel).await {
            assert_eq!(told, (code, text.to_owned()), "{call}, {failure:?}");
        }
        assert!(
            !failure.may_be_done() || !REPEATED_BY_GO.contains(&code),
            "{failure:?}"
        );
        answering.abort();
    }
}

/// Scenario: the replica ends while writes wait in it, and others come afterwards.
#[tokio::test]
async fn a_replica_that_ended_says_so() {
    let (channel, _handle, mut requests) = start(64).await;
    let mut kv = KvClient::new(channel.clone());
    let waiting = tokio::spawn(async move { told(kv.put(put())).await });
    let request = requests.recv().await.expect("the put arrives");
    drop((request, requests));
    let stopped = (Code::Unavailable, "etcdserver: server stopped".to_owned());
    assert_eq!(waiting.await.expect("no panic"), stopped);
    for (call, told) in all(&channel).await {
        assert_eq!(told, stopped, "{call}");
    }
}

/// Scenario: the first write is done, and the replica takes no more requests when its response is put together,
/// which names the replica.
#[tokio::test]
async fn a_write_that_was_done_is_not_told_as_refused() {
    let (channel, handle, mut requests) = start(1).await;
    let mut kv = KvClient::new(channel);
    let mut putting = tokio::spawn(async move { kv.put(put()).await });
    let Some(Request::Write { body, reply, .. }) = requests.recv().await else {
        panic!("the put arrives");
    };
    let other = tokio::spawn(async move { handle.write(Bytes::new(), Principal::default()).await });
    while requests.is_empty() {
        tokio::task::yield_now().await;
    }
    let result = Store::new().apply(first(), &body, &[]);
    reply.send(Ok(result)).expect("the client waits");
    // It asks again for as long as there is no room.
    let told = tokio::time::timeout(Duration::from_millis(50), &mut putting).await;
    assert!(told.is_err(), "{told:?}");
    other.abort();
    drop(requests.recv().await);
    let Some(Request::Status { reply }) = requests.recv().await else {
        panic!("the replica is asked what it is");
    };
    // It ends now: whether the write was done, the client does not learn, but not that it was refused.
    drop(reply);
    let status = putting.await.expect("no panic").expect_err("no response");
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.message(), "etcdserver: server stopped");
}

/// Scenario: a change of the group came too early, again and again: it was not done.
#[tokio::test]
async fn a_change_that_was_refused_is_a_failed_precondition() {
    let (channel, _handle, mut requests) = start(64).await;
    let answering = tokio::spawn(async move {
        while let Some(request) = requests.recv().await {
            match request {
                Request::Change { reply, .. } => {
                    let why = ChangeError::Refused("a reason".to_owned());
                    reply.send(Err(why)).expect("the client waits");
                }
                Request::Status { reply } => {
                    reply.send(backend::status(1)).expect("the client waits");
                }
                _ => {}
            }
        }
    });
    let mut cluster = ClusterClient::new(channel);
    let promote = cluster.member_promote(MemberPromoteRequest { id: 1 });
    let expected = (Code::FailedPrecondition, "quorate: a reason".to_owned());
    assert_eq!(told(promote).await, expected);
    answering.abort();
}
