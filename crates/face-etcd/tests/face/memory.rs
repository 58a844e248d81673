//! What clients can make a replica keep in memory: requests that are half sent, answers that are not taken.

use crate::backend;
use bytes::{BufMut, Bytes, BytesMut};
use h2::SendStream;
use h2::client::SendRequest;
use http::Request;
use prost::Message;
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{PutRequest, RangeRequest, WatchCreateRequest, WatchRequest};
use quorate_face_etcd::client::{KvClient, WatchClient};
use quorate_face_etcd::{Limits, serve};
use quorate_server::{Budget, Door, Listener};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic::transport::Channel;

/// Serves on a port of its own until the test ends; clients may take so much memory.
fn start(client_memory: usize) -> (SocketAddr, Budget) {
    let budget = Budget::new(client_memory);
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listener = Listener::new(port, Door::Client).expect("a listener");
    let listener = listener.budgeted(budget.clone());
    let address = listener.local_addr().expect("it is bound");
    let handle = backend::start();
    let served = serve(
        listener,
        handle,
        Limits::default(),
        None,
        std::future::pending(),
    );
    tokio::spawn(served);
    (address, budget)
}

async fn honest(address: SocketAddr) -> KvClient<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("a URL");
    let client = KvClient::new(endpoint.connect().await.expect("a connection"));
    client.max_decoding_message_size(usize::MAX)
}

fn put(key: &str, value_bytes: usize) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: vec![7; value_bytes].into(),
        ..PutRequest::default()
    }
}

/// A connection whose client takes only as much as it is told to; its streams have windows of so many bytes.
async fn connect(address: SocketAddr, window_bytes: u32) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.expect("a connection");
    let mut http = h2::client::Builder::new();
    http.initial_window_size(window_bytes);
    let (client, connection) = http.handshake(stream).await.expect("HTTP/2");
    tokio::spawn(async move { drop(connection.await) });
    client.ready().await.expect("it is connected")
}

type Answer = h2::client::ResponseFuture;

/// Begins a call of keys and values.
fn call(client: &mut SendRequest<Bytes>, method: &str) -> (Answer, SendStream<Bytes>) {
    call_service(client, &format!("KV/{method}"))
}

/// Begins a call, named with its service.
fn call_service(client: &mut SendRequest<Bytes>, method: &str) -> (Answer, SendStream<Bytes>) {
    let request = Request::post(format!("http://quorate/etcdserverpb.{method}"))
        .header("content-type", "application/grpc")
        .body(())
        .expect("a request");
    client.send_request(request, false).expect("a stream")
}

/// A message with its prefix.
fn framed(message: &impl Message) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.encoded_len()).expect("it is short"));
    message.encode(&mut framed).expect("there is room");
    framed.freeze()
}

/// The status that an answer begins with, if it has no message.
async fn refusal(answer: Answer) -> Option<(Code, String)> {
    let answer = answer.await.expect("an answer");
    let status = tonic::Status::from_header_map(answer.headers())?;
    Some((status.code(), status.message().to_owned()))
}

/// Waits until this is true.
async fn until(what: &str, is_true: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_true() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never comes that {what}");
}

/// Scenario: a client begins one put after the other and sends only the first 100 KiB of each 1 MiB. Another one puts.
#[tokio::test]
async fn half_sent_puts_are_bounded_and_small_puts_of_others_succeed() {
    const BUDGET: usize = 4 << 20;
    let (address, budget) = start(BUDGET);
    let mut attacker = connect(address, 65_535).await;
    let half = framed(&put("a", 1 << 20)).slice(..100 << 10);
    let mut open = Vec::new();
    for _ in 0..100 {
        let (answer, mut body) = call(&mut attacker, "Put");
        body.send_data(half.clone(), false).expect("it is open");
        open.push((answer, body));
    }
    let mut client = honest(address).await;
    let mut refused = 0;
    for (answer, _) in &mut open {
        client.put(put("b", 100)).await.expect("there is room");
        assert!(budget.used() <= BUDGET);
        let soon = tokio::time::timeout(Duration::from_millis(10), answer);
        if let Ok(answer) = soon.await {
            let answer = answer.expect("an answer");
            let status = tonic::Status::from_header_map(answer.headers()).expect("a refusal");
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert!(status.message().contains("--max-client-memory"));
            refused += 1;
        }
    }
    assert!(refused > 50, "{refused}");
    assert!(budget.refused() > 0);
    drop((open, attacker));
    until("everything is given back", || budget.used() == 0).await;
    client.put(put("b", 1 << 20)).await.expect("there is room");
}

/// Scenario: there are 8 MiB of values. Clients ask for them, 1 KiB at a time or all at once, and take nothing.
#[tokio::test]
async fn answers_that_are_not_taken_are_bounded() {
    const BUDGET: usize = 12 << 20;
    let (address, budget) = start(BUDGET);
    let mut client = honest(address).await;
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        client.put(put(key, 1 << 20)).await.expect("put");
    }
    client.put(put("small", 1 << 10)).await.expect("put");
    let all = RangeRequest {
        key: "a".into(),
        range_end: "i".into(),
        ..RangeRequest::default()
    };
    let one = RangeRequest {
        key: "small".into(),
        ..RangeRequest::default()
    };
    // The first one holds its answer; there is no room for that of the second.
    let mut clients = Vec::new();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut attacker = connect(address, 0).await;
        let (answer, mut body) = call(&mut attacker, "Range");
        body.send_data(framed(&all), true).expect("it is open");
        answers.push(answer);
        clients.push(attacker);
    }
    let second = answers.pop().expect("there are two");
    let first = answers.pop().expect("there are two").await.expect("answer");
    assert_eq!(first.status(), 200);
    assert!(tonic::Status::from_header_map(first.headers()).is_none());
    let (code, text) = refusal(second).await.expect("no room");
    assert_eq!(code, Code::ResourceExhausted);
    assert!(text.contains("--max-client-memory"), "{text}");
    assert!((8 << 20..BUDGET).contains(&budget.used()));
    // Small ones take what is left.
    let mut many = connect(address, 0).await;
    let mut small = Vec::new();
    for _ in 0..1000 {
        let (answer, mut body) = call(&mut many, "Range");
        body.send_data(framed(&one), true).expect("it is open");
        small.push(answer);
    }
    let mut refused = 0;
    let mut held = Vec::new();
    for answer in small {
        let answer = answer.await.expect("an answer");
        match tonic::Status::from_header_map(answer.headers()) {
            Some(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted);
                refused += 1;
            }
            None => held.push(answer),
        }
    }
    assert!(refused > 0 && budget.used() <= BUDGET);
    let fresh = honest(address).await.put(put("i", 100)).await;
    fresh.expect("there is room for a small put");
    drop((first, held, many, clients));
    until("everything is given back", || budget.used() == 0).await;
    let answer = client.range(all).await.expect("there is room");
    assert_eq!(answer.into_inner().kvs.len(), 8);
}

/// Scenario: one stream creates watches with keys of 100 KiB.
#[tokio::test]
async fn watches_are_bounded() {
    const BUDGET: usize = 4 << 20;
    let (address, budget) = start(BUDGET);
    let channel = Channel::from_shared(format!("http://{address}")).expect("a URL");
    let mut client = WatchClient::new(channel.connect().await.expect("a connection"));
    let (ask, asked) = tokio::sync::mpsc::channel(1);
    let answers = client.watch(ReceiverStream::new(asked)).await;
    let mut answers = answers.expect("a stream").into_inner();
    let mut created = 0;
    for number in 0..100 {
        let create = WatchCreateRequest {
            key: vec![number; 100 << 10].into(),
            ..WatchCreateRequest::default()
        };
        let request_union = Some(RequestUnion::CreateRequest(create));
        let asking = ask.send(WatchRequest { request_union });
        asking.await.expect("the stream is open");
        let answer = answers.message().await.expect("an answer");
        let answer = answer.expect("the stream is open");
        assert!(answer.created && budget.used() <= BUDGET);
        match answer.canceled {
            false => created += 1,
            true => assert!(answer.cancel_reason.contains("--max-client-memory")),
        }
    }
    assert!((10..20).contains(&created), "{created}");
    drop((ask, answers, client));
    until("everything is given back", || budget.used() == 0).await;
}

/// Scenario (etcd's #22147): requests about leases and users of 1 MiB, which say nothing that anybody reads.
#[tokio::test]
async fn requests_without_keys_and_values_are_small() {
    let (address, budget) = start(64 << 20);
    let mut client = connect(address, 65_535).await;
    for method in [
        "Lease/LeaseGrant",
        "Lease/LeaseRevoke",
        "Lease/LeaseKeepAlive",
        "Lease/LeaseTimeToLive",
        "Lease/LeaseLeases",
        "Cluster/MemberList",
        "Maintenance/Alarm",
        "Auth/Authenticate",
    ] {
        for (bytes, is_taken) in [(1 << 10, true), (1 << 20, false)] {
            let (answer, mut body) = call_service(&mut client, method);
            body.send_data(unread(bytes), true).expect("it is open");
            let refused = refused_at_all(answer).await;
            let is_too_large = |(code, text): (Code, String)| {
                code == Code::OutOfRange && text.contains("decoded message length too large")
            };
            let is_refused = refused.is_some_and(is_too_large);
            assert_eq!(is_refused, !is_taken, "{method} with {bytes} bytes");
        }
    }
    drop(client);
    until("everything is given back", || budget.used() == 0).await;
}

/// A message with a field of so many bytes that no request has.
fn unread(bytes: usize) -> Bytes {
    let mut message = BytesMut::new();
    prost::encoding::bytes::encode(1000, &vec![7_u8; bytes], &mut message);
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("it is short"));
    framed.extend_from_slice(&message);
    framed.freeze()
}

/// The status that an answer begins or ends with.
async fn refused_at_all(answer: Answer) -> Option<(Code, String)> {
    let answer = answer.await.expect("an answer");
    let mut status = tonic::Status::from_header_map(answer.headers());
    if status.is_none() {
        let mut body = answer.into_body();
        while let Some(data) = body.data().await {
            let taken = body
                .flow_control()
                .release_capacity(data.expect("data").len());
            taken.expect("it was given");
        }
        let trailers = body.trailers().await.expect("an end");
        status = trailers.and_then(|trailers| tonic::Status::from_header_map(&trailers));
    }
    status.map(|status| (status.code(), status.message().to_owned()))
}
