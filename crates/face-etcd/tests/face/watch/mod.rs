//! Watch streams over the network.

mod regressions;

use crate::backend;
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, PutRequest, TxnRequest, WatchCancelRequest,
    WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use quorate_etcd_api::mvccpb::Event;
use quorate_etcd_store::Store;
use quorate_face_etcd::Limits;
use quorate_face_etcd::client::{KvClient, WatchClient};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

async fn start(limits: Limits) -> Channel {
    backend::serve_face(backend::start(), limits).await
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
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
            .await
            .expect("a stream");
        Stream {
            requests,
            responses: stream.into_inner(),
        }
    }

    async fn ask(&self, request: RequestUnion) {
        let request_union = Some(request);
        let sent = self.requests.send(WatchRequest { request_union }).await;
        sent.expect("the stream is open");
    }

    async fn next(&mut self) -> WatchResponse {
        let response = tokio::time::timeout(Duration::from_secs(10), self.responses.message());
        let response = response.await.expect("something is sent");
        response.expect("no error").expect("the stream is open")
    }

    async fn create(&mut self, request: WatchCreateRequest) -> WatchResponse {
        self.ask(RequestUnion::CreateRequest(request)).await;
        self.next().await
    }

    /// Collects events until one has this revision.
    async fn until(&mut self, revision: i64) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        while events.last().is_none_or(|last| at(last) < revision) {
            let response = self.next().await;
            assert!(!response.canceled, "{response:?}");
            events.extend(response.events);
        }
        events
    }
}

fn at(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

/// Type, key, revision, and the value before, in short.
fn seen(events: &[Event]) -> Vec<String> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let line = |event: &Event| {
        let kv = event.kv.clone().unwrap_or_default();
        let kind = if event.r#type == 0 { "put" } else { "del" };
        let prev = event.prev_kv.as_ref().map(|kv| text(&kv.value));
        let prev = prev.map_or(String::new(), |value| format!(" was {value}"));
        format!("{kind} {} @{}{prev}", text(&kv.key), kv.mod_revision)
    };
    events.iter().map(line).collect()
}

fn watch(key: &str, range_end: &str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        key: bytes(key),
        range_end: bytes(range_end),
        start_revision,
        ..WatchCreateRequest::default()
    }
}

async fn put(kv: &mut KvClient<Channel>, key: &str, value: &str) -> i64 {
    let request = PutRequest {
        key: bytes(key),
        value: bytes(value),
        ..PutRequest::default()
    };
    let response = kv.put(request).await.expect("put").into_inner();
    response.header.expect("a header").revision
}

async fn delete(kv: &mut KvClient<Channel>, key: &str, range_end: &str) {
    let request = DeleteRangeRequest {
        key: bytes(key),
        range_end: bytes(range_end),
        ..DeleteRangeRequest::default()
    };
    kv.delete_range(request).await.expect("delete");
}

async fn compact(kv: &mut KvClient<Channel>, revision: i64) {
    let physical = true;
    let request = CompactionRequest { revision, physical };
    kv.compact(request).await.expect("compaction");
}

#[tokio::test]
async fn several_watches_of_one_stream() {
    let channel = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    put(&mut kv, "a", "1").await;
    let mut stream = Stream::open(&channel).await;
    let mut all = watch("a", "z", 2);
    (all.prev_kv, all.watch_id) = (true, 7);
    let created = stream.create(all.clone()).await;
    assert_eq!((created.watch_id, created.created), (7, true));
    assert_eq!(created.header.map(|header| header.revision), Some(2));
    assert_eq!(seen(&stream.until(2).await), ["put a @2"]);

    let mut deletions = watch("b", "", 0);
    deletions.filters = vec![0];
    assert_eq!(stream.create(deletions).await.watch_id, 0);
    for (request, why) in [
        (all, "mvcc: duplicate watch ID provided on the WatchStream"),
        (watch("b", "a", 0), "mvcc: watcher range is empty"),
        (
            watch("b", "", -1),
            "etcdserver: mvcc: required revision has been compacted",
        ),
    ] {
        let refused = stream.create(request).await;
        assert!(refused.created && refused.canceled);
        assert_eq!((refused.watch_id, &refused.cancel_reason[..]), (-1, why));
    }

    let write = |key: &str| {
        let request = PutRequest {
            key: bytes(key),
            value: bytes("2"),
            ..PutRequest::default()
        };
        Request::RequestPut(request).into()
    };
    let request = TxnRequest {
        success: vec![write("b"), write("a")],
        ..TxnRequest::default()
    };
    kv.txn(request).await.expect("txn");
    let both = stream.next().await;
    assert_eq!(both.watch_id, 7);
    assert_eq!(seen(&both.events), ["put b @3", "put a @3 was 1"]);
    delete(&mut kv, "a", "\0").await;
    let mut got = [stream.next().await, stream.next().await];
    got.sort_by_key(|response| response.watch_id);
    assert_eq!(seen(&got[0].events), ["del b @4"]);
    assert_eq!(seen(&got[1].events), ["del a @4 was 2", "del b @4 was 2"]);

    let request = |watch_id| RequestUnion::CancelRequest(WatchCancelRequest { watch_id });
    stream.ask(request(99)).await; // no such watch: nothing is said
    stream.ask(request(7)).await;
    let canceled = stream.next().await;
    assert_eq!((canceled.watch_id, canceled.canceled), (7, true));
    put(&mut kv, "b", "3").await;
    delete(&mut kv, "b", "").await;
    assert_eq!(seen(&stream.next().await.events), ["del b @6"]);
}

#[tokio::test]
async fn history_the_future_and_what_is_compacted() {
    let channel = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    for n in 0..5 {
        put(&mut kv, "a", &n.to_string()).await;
    }
    let mut stream = Stream::open(&channel).await;
    stream.create(watch("a", "", 9)).await; // now is 6
    for n in 5..9 {
        put(&mut kv, "a", &n.to_string()).await;
    }
    assert_eq!(seen(&stream.until(10).await), ["put a @9", "put a @10"]);

    // Who is up to date sees everything, however fast it is compacted.
    put(&mut kv, "a", "x").await;
    put(&mut kv, "a", "y").await;
    compact(&mut kv, 12).await;
    assert_eq!(seen(&stream.until(12).await), ["put a @11", "put a @12"]);

    let mut late = Stream::open(&channel).await;
    assert!(!late.create(watch("a", "", 11)).await.canceled);
    let canceled = late.next().await;
    assert_eq!((canceled.canceled, canceled.compact_revision), (true, 12));
    let mut edge = watch("a", "", 12);
    edge.prev_kv = true;
    late.create(edge).await;
    put(&mut kv, "a", "z").await;
    assert_eq!(
        seen(&late.until(13).await),
        ["put a @12", "put a @13 was y"]
    );
}

#[tokio::test]
async fn progress_on_request_and_by_itself() {
    let limits = Limits {
        watch_progress_interval: Duration::from_millis(50),
        ..Limits::default()
    };
    let channel = start(limits).await;
    let mut kv = KvClient::new(channel.clone());
    let mut stream = Stream::open(&channel).await;
    let progress = || RequestUnion::ProgressRequest(WatchProgressRequest {});
    stream.ask(progress()).await; // without a watch there is no progress
    stream.create(watch("a", "", 0)).await;
    for n in 0..20 {
        put(&mut kv, "b", "1").await;
        let last = put(&mut kv, "a", "1").await;
        stream.ask(progress()).await;
        assert_eq!(
            seen(&stream.next().await.events),
            [format!("put a @{last}")]
        );
        let told = stream.next().await;
        assert_eq!((told.watch_id, told.events.len()), (-1, 0), "round {n}");
        assert_eq!(told.header.map(|header| header.revision), Some(last));
    }
    let mut notified = watch("c", "", 0);
    notified.progress_notify = true;
    let id = stream.create(notified).await.watch_id;
    for _ in 0..2 {
        let told = stream.next().await;
        assert_eq!((told.watch_id, told.events.len()), (id, 0));
        assert_eq!(told.header.map(|header| header.revision), Some(41));
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody_and_misses_nothing() {
    let channel = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    let mut stuck = Stream::open(&channel).await;
    let mut second = Stream::open(&channel).await;
    stuck.create(watch("a", "b", 0)).await;
    second.create(watch("a", "b", 0)).await;
    let value = "x".repeat(20_000);
    let mut last = 0;
    for n in 0..600 {
        // Far more than any window or queue holds.
        last = put(&mut kv, &format!("a{}", n % 10), &value).await;
        let got = second.next().await;
        assert_eq!(at(&got.events[0]), last);
    }
    let got: Vec<i64> = stuck.until(last).await.iter().map(at).collect();
    assert_eq!(got, (2..=last).collect::<Vec<_>>());
    // It is up to date again.
    let next = put(&mut kv, "a", "1").await;
    assert_eq!(stuck.until(next).await.len(), 1);
}

#[tokio::test]
async fn random_watches_see_what_one_that_watches_everything_sees() {
    let channel = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    let mut state = 11u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut all = Stream::open(&channel).await;
    all.create(watch("\0", "\0", 1)).await;
    let mut others: Vec<(Stream, WatchCreateRequest, i64)> = Vec::new();
    let mut last = 1;
    for n in 0..400 {
        let name = format!("{}", (b'a' + random(6) as u8) as char);
        last = put(&mut kv, &name, &n.to_string()).await;
        if n % 8 == 0 {
            let start = random(last as u64 + 20) as i64;
            let end = ["", "\0", "z", "d~"][random(4) as usize];
            let mut request = watch(&name, end, start);
            request.filters = [vec![], vec![1]][random(2) as usize].clone();
            let mut stream = Stream::open(&channel).await;
            let created = stream.create(request.clone()).await;
            if !created.canceled {
                others.push((stream, request, last));
            }
        }
    }
    assert!(others.len() > 30);
    // One more that everybody sees ends it.
    for name in ["a", "b", "c", "d", "e", "f"] {
        last = put(&mut kv, name, "end").await;
    }
    let truth = all.until(last).await;
    for (stream, request, created_at) in &mut others {
        let from = match request.start_revision {
            0 => *created_at + 1,
            start => start,
        };
        let matches = |event: &&Event| {
            let key = &event.kv.as_ref().expect("there is one").key;
            let inside = match &request.range_end[..] {
                b"" => key == &request.key,
                b"\0" => *key >= request.key,
                end => *key >= request.key && &key[..] < end,
            };
            inside && at(event) >= from
        };
        let expected: Vec<Event> = truth.iter().filter(matches).cloned().collect();
        let end = expected.last().map_or(0, at);
        assert_eq!(seen(&stream.until(end).await), seen(&expected));
    }
}
