//! Calls with `hasleader`: when they are refused, and when their streams end.

use crate::backend;
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, PutRequest, RangeRequest,
    StatusRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};
use quorate_etcd_store::Store;
use quorate_face_etcd::Limits;
use quorate_face_etcd::client::{KvClient, LeaseClient, MaintenanceClient, WatchClient};
use quorate_server::{Handle, Quorum};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

async fn start() -> (Channel, Handle<Store>) {
    let handle = backend::start();
    let channel = backend::serve_face(handle.clone(), Limits::default()).await;
    (channel, handle)
}

fn with<T>(message: T, hasleader: Option<&'static str>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(value) = hasleader {
        let value = value.parse().expect("a header");
        request.metadata_mut().insert("hasleader", value);
    }
    request
}

fn expect_no_leader(what: &str, status: &Status) {
    let said = (status.code(), status.message());
    assert_eq!(said, (Code::Unavailable, "etcdserver: no leader"), "{what}");
}

/// A watch of all keys that was created, and what keeps it open.
async fn watch(
    channel: &Channel,
    hasleader: Option<&'static str>,
) -> Result<(mpsc::Sender<WatchRequest>, Streaming<WatchResponse>), Status> {
    let (requests, stream) = mpsc::channel(1);
    let create = WatchCreateRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        ..WatchCreateRequest::default()
    };
    let create = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    requests.send(create).await.expect("there is room");
    let call = with(ReceiverStream::new(stream), hasleader);
    let opened = WatchClient::new(channel.clone()).watch(call).await?;
    let mut responses = opened.into_inner();
    assert!(
        responses
            .message()
            .await?
            .is_some_and(|first| first.created)
    );
    Ok((requests, responses))
}

async fn keep_alive(
    channel: &Channel,
    hasleader: Option<&'static str>,
) -> Result<
    (
        mpsc::Sender<LeaseKeepAliveRequest>,
        Streaming<LeaseKeepAliveResponse>,
    ),
    Status,
> {
    let mut client = LeaseClient::new(channel.clone());
    let grant = LeaseGrantRequest { ttl: 600, id: 0 };
    let id = client.lease_grant(grant).await?.into_inner().id;
    let (requests, stream) = mpsc::channel(1);
    let renew = LeaseKeepAliveRequest { id };
    requests.send(renew).await.expect("there is room");
    let call = with(ReceiverStream::new(stream), hasleader);
    let mut answers = client.lease_keep_alive(call).await?.into_inner();
    assert!(answers.message().await?.is_some());
    Ok((requests, answers))
}

async fn put(channel: &Channel, hasleader: Option<&'static str>) -> Result<i64, Status> {
    let put = PutRequest {
        key: b"k".to_vec().into(),
        ..PutRequest::default()
    };
    let mut client = KvClient::new(channel.clone());
    let put = client.put(with(put, hasleader)).await?;
    Ok(put.into_inner().header.map_or(0, |header| header.revision))
}

/// Scenario: the replica misses its quorum, and reaches it again.
#[tokio::test]
async fn a_quorum_that_is_missed_refuses_calls_and_ends_no_stream() {
    let (channel, handle) = start().await;
    let (_requests, mut responses) = watch(&channel, Some("true")).await.expect("a watch");
    let (renewals, mut renewed) = keep_alive(&channel, Some("true")).await.expect("a lease");
    handle.publish_quorum(Quorum::Missed);
    expect_no_leader("put", &put(&channel, Some("true")).await.unwrap_err());
    expect_no_leader("watch", &watch(&channel, Some("true")).await.unwrap_err());
    let leases = keep_alive(&channel, Some("true")).await.unwrap_err();
    expect_no_leader("keep-alive", &leases);
    let mut kv = KvClient::new(channel.clone());
    let range = kv.range(with(RangeRequest::default(), Some("true"))).await;
    expect_no_leader("range", &range.unwrap_err());
    let mut maintenance = MaintenanceClient::new(channel.clone());
    let status = maintenance
        .status(with(StatusRequest {}, Some("true")))
        .await;
    expect_no_leader("status", &status.unwrap_err());
    // Only the value that clients send means it.
    for other in [None, Some("false"), Some("")] {
        put(&channel, other).await.expect("it asks for no leader");
    }
    handle.publish_quorum(Quorum::Reached);
    let revision = put(&channel, Some("true"))
        .await
        .expect("there is a quorum");
    while responses
        .message()
        .await
        .expect("the watch goes on")
        .and_then(|response| response.header)
        .is_none_or(|header| header.revision < revision)
    {}
    let renew = LeaseKeepAliveRequest { id: 1 };
    renewals.send(renew).await.expect("there is room");
    let answer = renewed.message().await.expect("renewals go on");
    assert!(answer.is_some());
}

/// Scenario: streams with and without `hasleader` are open when the quorum is lost.
#[tokio::test]
async fn a_quorum_that_is_lost_ends_the_streams_that_want_one() {
    let (channel, handle) = start().await;
    let (_plain, mut told) = watch(&channel, None).await.expect("a watch");
    assert!(!handle.is_quorum_watched());
    let (_requests, mut responses) = watch(&channel, Some("true")).await.expect("a watch");
    let (_renewals, mut renewed) = keep_alive(&channel, Some("true")).await.expect("a lease");
    assert!(handle.is_quorum_watched());
    handle.publish_quorum(Quorum::Missed);
    handle.publish_quorum(Quorum::Lost);
    expect_no_leader("watch", &responses.message().await.unwrap_err());
    expect_no_leader("keep-alive", &renewed.message().await.unwrap_err());
    put(&channel, None).await.expect("the backend decides");
    let event = told.message().await.expect("the watch goes on");
    assert!(event.is_some_and(|response| response.events.len() == 1));
    while handle.is_quorum_watched() {
        tokio::task::yield_now().await;
    }
}
