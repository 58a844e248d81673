//! What once went wrong in etcd, asked of this face: each test is named after the mistake, with the
//! number of etcd's issue.

use super::*;
use quorate_core::{Application, At};
use quorate_etcd_api::etcdserverpb::{RangeRequest, RequestOp};
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_sim::judge::{self, Journal};

/// Everything that happened, as a watch that was told everything tells it.
async fn journal(channel: &Channel, through: i64) -> Journal {
    let mut all = Stream::open(channel).await;
    all.create(watch("\0", "\0", 1)).await;
    let mut journal = Journal::default();
    let told = all.until(through).await;
    journal.add(&told, through + 1).expect("a sound journal");
    journal
}

/// Holds what a watch was told against the journal, and demands that nothing is missing.
fn judge(request: &WatchCreateRequest, told: &[WatchResponse], journal: &Journal) {
    let (key, end) = (request.key.clone(), request.range_end.clone());
    let mut judge = judge::Stream::new(key, end, request.start_revision);
    for response in told {
        judge.respond(response, journal).unwrap();
    }
    judge.finish(journal.end(), journal).unwrap();
}

fn revision(response: &WatchResponse) -> i64 {
    response.header.as_ref().map_or(0, |header| header.revision)
}

/// etcd #15220: a notice of progress overtook events of the revisions it spoke of.
#[tokio::test]
async fn progress_is_not_announced_ahead_of_events() {
    let limits = Limits {
        watch_progress_interval: Duration::from_millis(3),
        ..Limits::default()
    };
    let channel = start(limits).await;
    let mut kv = KvClient::new(channel.clone());
    let mut request = watch("a", "b", 1);
    request.progress_notify = true;
    let mut stream = Stream::open(&channel).await;
    let mut told = vec![stream.create(request.clone()).await];
    let mut last = 1;
    for n in 0..200 {
        let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
        // Both are under way at once.
        let key = ["a1", "a2", "b"][n % 3];
        (last, ()) = tokio::join!(put(&mut kv, key, "v"), stream.ask(progress));
    }
    stream
        .ask(RequestUnion::ProgressRequest(WatchProgressRequest {}))
        .await;
    let is_last = |told: &WatchResponse| told.events.is_empty() && revision(told) >= last;
    while !told.last().is_some_and(is_last) {
        told.push(stream.next().await);
    }
    let notices = told.iter().filter(|told| told.events.is_empty()).count();
    assert!(notices > 10, "{notices} notices say too little");
    judge(&request, &told, &journal(&channel, last).await);
}

/// etcd #20221: a watch that waits for a revision to come was told of older ones.
#[tokio::test]
async fn a_watch_of_a_future_revision_is_told_nothing_older() {
    let limits = Limits {
        watch_progress_interval: Duration::from_millis(3),
        ..Limits::default()
    };
    let channel = start(limits).await;
    let mut kv = KvClient::new(channel.clone());
    put(&mut kv, "a", "before").await;
    let mut request = watch("a", "", 30);
    request.progress_notify = true;
    let mut stream = Stream::open(&channel).await;
    let mut told = vec![stream.create(request.clone()).await];
    let mut last = 0;
    while last < 40 {
        last = put(&mut kv, "a", "v").await;
        stream
            .ask(RequestUnion::ProgressRequest(WatchProgressRequest {}))
            .await;
    }
    let end = |told: &WatchResponse| told.events.last().is_some_and(|event| at(event) >= last);
    while !told.last().is_some_and(end) {
        told.push(stream.next().await);
    }
    assert!(
        told.iter()
            .flat_map(|told| &told.events)
            .all(|event| at(event) >= 30)
    );
    judge(&request, &told, &journal(&channel, last).await);
}

/// etcd #18089, #19179: a deletion at the very revision that was compacted was lost to those who
/// watch from there.
#[tokio::test]
async fn a_deletion_at_the_compacted_revision_is_told() {
    let channel = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    put(&mut kv, "a", "1").await;
    put(&mut kv, "c", "1").await;
    delete(&mut kv, "a", "").await; // revision 4
    let mut early = Stream::open(&channel).await;
    early.create(watch("a", "b", 4)).await;
    compact(&mut kv, 4).await;
    for n in 0..100 {
        // Time to free what may be freed.
        put(&mut kv, "b", &n.to_string()).await;
    }
    let last = put(&mut kv, "a", "2").await;
    assert_eq!(
        seen(&early.until(last).await),
        ["del a @4", &format!("put a @{last}")]
    );
    let mut late = Stream::open(&channel).await;
    late.create(watch("a", "b", 4)).await;
    assert_eq!(
        seen(&late.until(last).await),
        ["del a @4", &format!("put a @{last}")]
    );
}

/// etcd #17529: watches of a stream whose client reads slowly lost events.
#[tokio::test]
async fn watches_of_a_starved_stream_lose_nothing() {
    let channel = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    let mut stream = Stream::open(&channel).await;
    let requests: Vec<WatchCreateRequest> = (0..20)
        .map(|n| WatchCreateRequest {
            watch_id: n + 1,
            ..watch(&format!("a{}", n % 10), "b", 1)
        })
        .collect();
    for request in &requests {
        let create = RequestUnion::CreateRequest(request.clone());
        stream.ask(create).await;
    }
    let value = "x".repeat(10_000);
    let mut last = 0;
    for n in 0..200 {
        // Nobody reads the stream.
        last = put(&mut kv, &format!("a{}", n % 10), &value).await;
    }
    last = last.max(put(&mut kv, "a9", "end").await);
    let mut told: Vec<Vec<WatchResponse>> = vec![Vec::new(); requests.len()];
    let mut behind = requests.len();
    while behind > 0 {
        let response = stream.next().await;
        let ends = |event: &Event| at(event) == last;
        behind -= usize::from(response.events.last().is_some_and(ends));
        told[response.watch_id as usize - 1].push(response);
    }
    let journal = journal(&channel, last).await;
    for (request, told) in requests.iter().zip(&told) {
        judge(request, told, &journal);
    }
}

/// etcd #18667: a transaction that reads a compacted revision must be refused as a whole.
#[tokio::test]
async fn a_transaction_that_reads_a_compacted_revision_changes_nothing() {
    let channel = start(Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    for n in 0..4 {
        put(&mut kv, "a", &n.to_string()).await;
    }
    compact(&mut kv, 4).await;
    let op = |request| RequestOp {
        request: Some(request),
    };
    let old = RangeRequest {
        key: bytes("a"),
        revision: 2,
        ..RangeRequest::default()
    };
    let write = PutRequest {
        key: bytes("b"),
        value: bytes("1"),
        ..PutRequest::default()
    };
    let request = TxnRequest {
        success: vec![
            op(Request::RequestPut(write)),
            op(Request::RequestRange(old.clone())),
        ],
        ..TxnRequest::default()
    };
    let nested = TxnRequest {
        success: vec![op(Request::RequestTxn(request.clone()))],
        ..TxnRequest::default()
    };
    for request in [request, nested] {
        let refused = kv.txn(request).await.expect_err("compacted");
        assert_eq!(refused.code(), tonic::Code::OutOfRange);
        assert!(refused.message().contains("compacted"), "{refused:?}");
    }
    // A branch that is not taken does not count, and nothing has happened.
    let untaken = TxnRequest {
        failure: vec![op(Request::RequestRange(old))],
        ..TxnRequest::default()
    };
    let answer = kv
        .txn(untaken)
        .await
        .expect("it reads nothing")
        .into_inner();
    assert_eq!(answer.header.expect("a header").revision, 5);
    assert_eq!(put(&mut kv, "a", "after").await, 6);
}

/// etcd #15271: a watch at a member that was behind went back in time when the member caught up
/// with a snapshot.
#[tokio::test]
async fn a_watch_does_not_go_back_when_a_replica_is_given_a_snapshot() {
    let (handle, jump) = backend::start_behind();
    let channel = backend::serve_face(handle, Limits::default()).await;
    let mut kv = KvClient::new(channel.clone());
    let mut ahead = Store::new();
    for n in 0..5 {
        put(&mut kv, "a", &n.to_string()).await;
        apply_put(&mut ahead, n);
    }
    // The watches were at another replica, which was ahead; this one knows nothing after 6.
    let mut lost = Stream::open(&channel).await;
    assert!(!lost.create(watch("a", "", 10)).await.canceled);
    let mut kept = Stream::open(&channel).await;
    let request = watch("a", "", 17);
    let mut told = vec![kept.create(request.clone()).await];
    for n in 5..20 {
        apply_put(&mut ahead, n);
    }
    let (revision, physical) = (15, false);
    apply(
        &mut ahead,
        &Store::encode_compact(&CompactionRequest { revision, physical }),
    );
    jump.send(ahead).await.expect("the replica runs");
    let last = put(&mut kv, "a", "end").await;
    assert_eq!(last, 22);
    let canceled = lost.next().await;
    assert!(canceled.events.is_empty(), "{canceled:?}");
    assert_eq!((canceled.canceled, canceled.compact_revision), (true, 15));
    while !told
        .iter()
        .flat_map(|told| &told.events)
        .any(|event| at(event) == last)
    {
        told.push(kept.next().await);
    }
    let mut all = Stream::open(&channel).await;
    all.create(watch("\0", "\0", 15)).await;
    let mut truth = Journal::new(16, content(&mut kv, 15).await);
    let told_all = all.until(last).await;
    let later: Vec<Event> = told_all
        .into_iter()
        .filter(|event| at(event) > 15)
        .collect();
    truth.add(&later, last + 1).expect("a sound journal");
    judge(&request, &told, &truth);
}

fn apply_put(store: &mut Store, n: usize) {
    let request = PutRequest {
        key: bytes("a"),
        value: bytes(&n.to_string()),
        ..PutRequest::default()
    };
    apply(store, &Store::encode_put(&request));
}

fn apply(store: &mut Store, body: &Bytes) {
    store.apply(At::default(), body, &[]);
}

/// The keys at a revision.
async fn content(kv: &mut KvClient<Channel>, revision: i64) -> Vec<KeyValue> {
    let request = RangeRequest {
        key: bytes("\0"),
        range_end: bytes("\0"),
        revision,
        ..RangeRequest::default()
    };
    let found = kv.range(request).await.expect("it can be read");
    found.into_inner().kvs
}
