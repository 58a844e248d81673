//! The face over a replica that keeps values apart, driven by the generated clients.

use crate::backend;
use crate::backend::shelf::{Mood, Shelf};
use bytes::Bytes;
use quorate_core::PAYLOAD_BYTES_MAX;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, SortOrder,
    SortTarget, TxnRequest, TxnResponse, WatchCreateRequest, WatchProgressRequest, WatchRequest,
    WatchResponse,
};
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_face_etcd::Limits;
use quorate_face_etcd::client::{KvClient, WatchClient};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// Values shorter than this stay in the commands.
const PAYLOAD_MIN: usize = 4;

async fn start(limits: Limits) -> (Channel, Arc<Shelf>) {
    let (handle, shelf) = backend::start_apart(PAYLOAD_MIN);
    (backend::serve_face(handle, limits).await, shelf)
}

async fn start_kv() -> (KvClient<Channel>, Arc<Shelf>) {
    let (channel, shelf) = start(Limits::default()).await;
    (KvClient::new(channel), shelf)
}

fn put_request(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        prev_kv: true,
        ..PutRequest::default()
    }
}

/// Puts, and says what was there before.
async fn put(kv: &mut KvClient<Channel>, key: &str, value: &str) -> Option<KeyValue> {
    let answer = kv.put(put_request(key, value)).await;
    answer.expect("a plain put").into_inner().prev_kv
}

fn range_request(key: &str, end: &str) -> RangeRequest {
    RangeRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        range_end: Bytes::copy_from_slice(end.as_bytes()),
        ..RangeRequest::default()
    }
}

async fn range(kv: &mut KvClient<Channel>, request: RangeRequest) -> Result<Vec<KeyValue>, Status> {
    Ok(kv.range(request).await?.into_inner().kvs)
}

async fn compact(kv: &mut KvClient<Channel>, revision: i64) {
    let physical = true;
    let compacted = kv.compact(CompactionRequest { revision, physical }).await;
    compacted.expect("it can be compacted");
}

/// Key, value and version of each, in short.
fn rows(kvs: &[KeyValue]) -> Vec<String> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let row = |kv: &KeyValue| format!("{} {} {}", text(&kv.key), text(&kv.value), kv.version);
    kvs.iter().map(row).collect()
}

fn op(request: Request) -> RequestOp {
    request.into()
}

#[tokio::test]
async fn values_come_back_whole_wherever_a_response_has_them() {
    let (mut kv, shelf) = start_kv().await;
    assert_eq!(put(&mut kv, "a", "s").await, None);
    assert_eq!(put(&mut kv, "b", "second").await, None);
    assert_eq!(put(&mut kv, "c", "third").await, None);
    let before = put(&mut kv, "b", "fourth").await.expect("it was there");
    assert_eq!(rows(&[before]), ["b second 1"]);
    assert_eq!(shelf.traffic().asked, 1, "of the previous value");

    let all = range(&mut kv, range_request("a", "z")).await.unwrap();
    assert_eq!(rows(&all), ["a s 1", "b fourth 2", "c third 1"]);
    let by_value = RangeRequest {
        sort_target: SortTarget::Value as i32,
        sort_order: SortOrder::Descend as i32,
        limit: 2,
        ..range_request("a", "z")
    };
    let sorted = range(&mut kv, by_value.clone()).await.unwrap();
    assert_eq!(rows(&sorted), ["c third 1", "a s 1"]);
    let asked = shelf.traffic().asked;
    let keys_only = RangeRequest {
        keys_only: true,
        ..range_request("a", "z")
    };
    let keys = range(&mut kv, keys_only).await.unwrap();
    assert_eq!(rows(&keys), ["a  1", "b  2", "c  1"]);
    assert_eq!(shelf.traffic().asked, asked, "keys need no values");

    let txn = TxnRequest {
        success: vec![
            op(Request::RequestPut(put_request("c", "fifth"))),
            op(Request::RequestRange(by_value)),
        ],
        ..TxnRequest::default()
    };
    let response = kv.txn(txn).await.expect("a transaction").into_inner();
    assert_eq!(
        response.header.as_ref().map(|header| header.revision),
        Some(6)
    );
    let [first, second] = &response.responses[..] else {
        panic!("two responses: {response:?}");
    };
    let Some(Response::ResponsePut(first)) = &first.response else {
        panic!("a put's: {first:?}");
    };
    assert_eq!(rows(first.prev_kv.as_slice()), ["c third 1"]);
    let Some(Response::ResponseRange(second)) = &second.response else {
        panic!("a range's: {second:?}");
    };
    assert_eq!(rows(&second.kvs), ["a s 1", "b fourth 2"]);

    let delete = DeleteRangeRequest {
        key: Bytes::from_static(b"b"),
        range_end: Bytes::from_static(b"z"),
        prev_kv: true,
    };
    let deleted = kv
        .delete_range(delete)
        .await
        .expect("a deletion")
        .into_inner();
    assert_eq!(rows(&deleted.prev_kvs), ["b fourth 2", "c fifth 2"]);
}

fn when(result: CompareResult, than: &'static str, reads: &str) -> TxnRequest {
    let read = |key: &str| op(Request::RequestRange(range_request(key, "")));
    TxnRequest {
        compare: vec![Compare {
            result: result as i32,
            target: CompareTarget::Value as i32,
            key: Bytes::from_static(b"k"),
            range_end: Bytes::new(),
            target_union: Some(TargetUnion::Value(than.into())),
        }],
        success: vec![read(reads)],
        failure: vec![],
    }
}

/// Whether its conditions held, and how many values it read.
fn outcome(response: &TxnResponse) -> (bool, usize) {
    (response.succeeded, response.responses.len())
}

#[tokio::test]
async fn values_are_compared_by_order_too() {
    let (mut kv, shelf) = start_kv().await;
    put(&mut kv, "k", "middle").await;
    for (result, than, expected) in [
        (CompareResult::Less, "zzzz", true),
        (CompareResult::Less, "aaaa", false),
        (CompareResult::Greater, "aaaa", true),
        (CompareResult::Greater, "zzzz", false),
    ] {
        let reads = when(result, than, "k");
        let response = kv.txn(reads.clone()).await.expect("it reads").into_inner();
        assert_eq!(outcome(&response), (expected, usize::from(expected)));
        let mut writes = reads;
        writes
            .success
            .push(op(Request::RequestPut(put_request("other", than))));
        let response = kv.txn(writes).await.expect("it writes").into_inner();
        assert_eq!(outcome(&response), (expected, 2 * usize::from(expected)));
        let revision = response.header.expect("a header").revision;
        assert!(revision > 1);
    }
    let asked = shelf.traffic().asked;
    for result in [CompareResult::Equal, CompareResult::NotEqual] {
        let response = kv.txn(when(result, "middle", "x")).await.expect("it reads");
        let equal = result == CompareResult::Equal;
        assert_eq!(response.into_inner().succeeded, equal);
    }
    assert_eq!(shelf.traffic().asked, asked, "equality needs no values");
}

/// Scenario: the value is replaced while the one that is compared is on its way.
#[tokio::test]
async fn what_changed_while_it_was_compared_is_compared_again() {
    let (mut kv, shelf) = start_kv().await;
    put(&mut kv, "k", "middle").await;
    shelf.set(Mood::Held);
    let asked = shelf.traffic().asked;
    let mut other = kv.clone();
    let mut txn = when(CompareResult::Less, "nnnn", "x");
    txn.success
        .push(op(Request::RequestPut(put_request("x", "less"))));
    let waiting = tokio::spawn(async move { other.txn(txn).await });
    shelf.asked(asked + 1).await;
    let replace = PutRequest {
        prev_kv: false,
        ..put_request("k", "zzzz")
    };
    kv.put(replace).await.expect("a plain put");
    shelf.set(Mood::Given);
    let response = waiting.await.expect("no panic").expect("it is applied");
    assert!(!response.into_inner().succeeded);
    assert_eq!(range(&mut kv, range_request("x", "")).await.unwrap(), []);
}

/// Scenario: the value is replaced and compacted while it is on its way.
#[tokio::test]
async fn a_value_that_was_compacted_meanwhile_is_read_again() {
    let (mut kv, shelf) = start_kv().await;
    put(&mut kv, "k", "first").await;
    for (revision, expected) in [(0, Ok("k second 2")), (2, Err(Code::OutOfRange))] {
        let is_new = revision == 0;
        shelf.set(Mood::Held);
        let (asked, mut other) = (shelf.traffic().asked, kv.clone());
        let request = RangeRequest {
            revision,
            ..range_request("k", "")
        };
        let reading = tokio::spawn(async move { range(&mut other, request).await });
        if is_new {
            shelf.asked(asked + 1).await;
            let second = PutRequest {
                prev_kv: false,
                ..put_request("k", "second")
            };
            kv.put(second).await.expect("a plain put");
            compact(&mut kv, 3).await;
        }
        shelf.set(Mood::Given);
        let found = reading.await.expect("no panic");
        let found = found.map(|kvs| rows(&kvs).concat());
        assert_eq!(
            found.map_err(|status| status.code()),
            expected.map(str::to_owned)
        );
    }
}

#[tokio::test]
async fn who_cannot_be_given_a_value_is_told_how_much_is_missing() {
    let (mut kv, shelf) = start_kv().await;
    put(&mut kv, "k", "value").await;
    shelf.set(Mood::Scattered);
    let refused = range(&mut kv, range_request("k", ""))
        .await
        .expect_err("scattered");
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(
        refused.message().contains("1 of the 3 fragments"),
        "{refused}"
    );
    // Writing needs nobody's fragments; only its answer does, and says that it was done.
    let written = kv
        .put(put_request("k", "other"))
        .await
        .expect_err("scattered");
    assert_eq!(written.code(), Code::DataLoss);
    assert!(written.message().contains("was carried out"), "{written}");
    shelf.set(Mood::Given);
    let found = range(&mut kv, range_request("k", "")).await.unwrap();
    assert_eq!(rows(&found), ["k other 2"]);
}

/// Scenario: more is read at once than may be under way.
#[tokio::test]
async fn what_is_under_way_is_bounded() {
    const VALUES: usize = 40;
    const VALUE_BYTES: usize = 4 << 20;
    let (channel, shelf) = start(Limits::default()).await;
    let mut kv = KvClient::new(channel).max_decoding_message_size(usize::MAX);
    let value = Bytes::from(vec![7; VALUE_BYTES]);
    for n in 0..VALUES {
        let put = PutRequest {
            key: format!("k{n:02}").into(),
            value: value.clone(),
            ..PutRequest::default()
        };
        kv.put(put).await.expect("it is not too large");
    }
    shelf.set(Mood::Held);
    let mut reader = kv.clone();
    let reading = tokio::spawn(async move { range(&mut reader, range_request("k", "l")).await });
    shelf.asked(10).await;
    shelf.set(Mood::Given);
    let found = reading.await.expect("no panic").expect("it can be read");
    assert_eq!(found.len(), VALUES);
    assert!(found.iter().all(|kv| kv.value == value));
    let traffic = shelf.traffic();
    assert_eq!((traffic.asked, traffic.bytes_under_way), (VALUES, 0));
    assert!(traffic.bytes_under_way_max <= 128 << 20, "{traffic:?}");
}

#[tokio::test]
async fn a_request_counts_with_its_values() {
    let limits = Limits {
        request_bytes_max: 1000,
        ..Limits::default()
    };
    let (channel, _) = start(limits).await;
    let mut kv = KvClient::new(channel);
    let refused = kv.put(put_request("k", &"x".repeat(1000))).await;
    let refused = refused.expect_err("it is too large");
    assert_eq!(refused.message(), "etcdserver: request is too large");
    put(&mut kv, "k", &"x".repeat(900)).await;
}

#[tokio::test]
async fn a_value_of_the_greatest_length_is_written_read_and_returned() {
    let limits = Limits {
        request_bytes_max: PAYLOAD_BYTES_MAX + 1000,
        ..Limits::default()
    };
    let (channel, shelf) = start(limits).await;
    let mut kv = KvClient::new(channel).max_decoding_message_size(usize::MAX);
    let value: Bytes = (0..PAYLOAD_BYTES_MAX).map(|n| (n % 251) as u8).collect();
    let mut large = put_request("k", "");
    large.value = value.clone();
    kv.put(large).await.expect("it is not too large");
    let found = range(&mut kv, range_request("k", "")).await.unwrap();
    assert!(found[0].value == value);
    let before = put(&mut kv, "k", "s").await.expect("it was there");
    assert!(before.value == value);
    assert_eq!(
        shelf.traffic().bytes_under_way_max,
        PAYLOAD_BYTES_MAX as u64
    );
}

/// One watch stream.
struct Stream {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Stream {
    async fn open(channel: &Channel) -> Self {
        let (requests, sent) = mpsc::channel(16);
        let stream = WatchClient::new(channel.clone())
            .watch(ReceiverStream::new(sent))
            .await;
        Stream {
            requests,
            responses: stream.expect("a stream").into_inner(),
        }
    }

    async fn ask(&self, request: RequestUnion) {
        let request_union = Some(request);
        let sent = self.requests.send(WatchRequest { request_union }).await;
        sent.expect("the stream is open");
    }

    async fn watch(&mut self, watch_id: i64, key: &'static str, start_revision: i64) {
        let create = WatchCreateRequest {
            watch_id,
            key: key.into(),
            start_revision,
            prev_kv: true,
            ..WatchCreateRequest::default()
        };
        self.ask(RequestUnion::CreateRequest(create)).await;
        assert!(self.next().await.created);
    }

    async fn next(&mut self) -> WatchResponse {
        let response = tokio::time::timeout(Duration::from_secs(10), self.responses.message());
        let response = response.await.expect("something is sent");
        response.expect("no error").expect("the stream is open")
    }

    /// Watch, value, revision and value before, of each event until this revision is told.
    async fn until(&mut self, revision: i64) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let response = self.next().await;
            assert!(!response.canceled, "{response:?}");
            for event in response.events {
                let kv = event.kv.expect("every event has one");
                let text = |kv: &KeyValue| String::from_utf8_lossy(&kv.value).into_owned();
                let before = event.prev_kv.as_ref().map(text).unwrap_or_default();
                let (value, at) = (text(&kv), kv.mod_revision);
                lines.push(format!("{} {value} @{at} was {before}", response.watch_id));
                if at == revision {
                    return lines;
                }
            }
        }
    }
}

#[tokio::test]
async fn watches_are_told_values_in_order() {
    let (channel, _) = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    put(&mut kv, "a", "first").await;
    put(&mut kv, "a", "2").await;
    let mut stream = Stream::open(&channel).await;
    stream.watch(1, "a", 1).await;
    for n in 4..60 {
        put(&mut kv, "a", &format!("value {n}")).await;
    }
    let told = stream.until(59).await;
    assert_eq!(told[0], "1 first @2 was ");
    assert_eq!(told[1], "1 2 @3 was first");
    assert_eq!(told[2], "1 value 4 @4 was 2");
    for n in 5..60 {
        let before = n - 1;
        assert_eq!(told[n - 2], format!("1 value {n} @{n} was value {before}"));
    }
}

/// Scenario: the values of one watch do not come; the others of its stream are told theirs, which
/// need none, and nobody is told of progress beyond.
#[tokio::test]
async fn a_watch_that_waits_for_values_holds_up_no_other() {
    let (channel, shelf) = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    let mut stream = Stream::open(&channel).await;
    stream.watch(1, "a", 0).await;
    stream.watch(2, "b", 0).await;
    shelf.set(Mood::Held);
    put(&mut kv, "a", "value").await;
    shelf.asked(1).await;
    put(&mut kv, "b", "s").await;
    assert_eq!(stream.until(3).await, ["2 s @3 was "]);
    let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
    stream.ask(progress).await;
    // It is asked after the request for progress, and told before it is answered.
    let small = PutRequest {
        prev_kv: false,
        ..put_request("a", "t")
    };
    kv.put(small).await.expect("a plain put");
    put(&mut kv, "b", "u").await;
    assert_eq!(stream.until(5).await, ["2 u @5 was s"]);
    shelf.set(Mood::Given);
    assert_eq!(
        stream.until(4).await,
        ["1 value @2 was ", "1 t @4 was value"]
    );
    let told = stream.next().await;
    assert!(told.events.is_empty(), "{told:?}");
    assert!(told.header.expect("a header").revision >= 3);
}

/// Scenario: a value that a watch is to be told cannot be had for a while.
#[tokio::test]
async fn a_watch_goes_on_once_its_values_can_be_had() {
    let (channel, shelf) = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    let mut stream = Stream::open(&channel).await;
    stream.watch(1, "a", 0).await;
    shelf.set(Mood::Scattered);
    put(&mut kv, "a", "value").await;
    shelf.asked(3).await;
    shelf.set(Mood::Given);
    assert_eq!(stream.until(2).await, ["1 value @2 was "]);
}

/// Scenario: what a watch is to be told is compacted before its value has come.
#[tokio::test]
async fn a_watch_whose_values_are_compacted_is_canceled() {
    let (channel, shelf) = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    let mut stream = Stream::open(&channel).await;
    stream.watch(1, "a", 0).await;
    shelf.set(Mood::Held);
    for value in ["value", "s", "t"] {
        let put = PutRequest {
            prev_kv: false,
            ..put_request("a", value)
        };
        kv.put(put).await.expect("a plain put");
        shelf.asked(1).await;
    }
    compact(&mut kv, 4).await;
    shelf.set(Mood::Given);
    let told = stream.next().await;
    assert_eq!(
        (told.canceled, told.compact_revision),
        (true, 4),
        "{told:?}"
    );
}
