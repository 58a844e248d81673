//! The face over the network, driven by the generated clients.

use crate::backend;
use crate::backend::get;
use bytes::Bytes;
use quorate_core::Principal;
use quorate_etcd_api::etcdserverpb::compare::{CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{
    AlarmAction, AlarmMember, AlarmRequest, AlarmType, CompactionRequest, Compare,
    DefragmentRequest, DeleteRangeRequest, HashKvRequest, LeaseGrantRequest, LeaseGrantResponse,
    MemberListRequest, PutRequest, RangeRequest, ResponseHeader, SortOrder, SortTarget,
    StatusRequest, TxnRequest,
};
use quorate_etcd_store::Store;
use quorate_face_etcd::client::{ClusterClient, KvClient, MaintenanceClient};
use quorate_face_etcd::{Limits, Metrics, serve};
use quorate_server::Handle;
use std::net::SocketAddr;
use std::sync::Arc;
use tonic::Code;
use tonic::codegen::http::uri::PathAndQuery;

/// Serves on a port of its own until the test ends.
async fn start(handle: Handle<Store>, limits: Limits) -> SocketAddr {
    let listener = backend::listen();
    let address = listener.local_addr().expect("it is bound");
    let metrics: Metrics = Arc::new(|| "up 1\n".to_owned());
    tokio::spawn(serve(
        listener,
        handle,
        limits,
        Some(metrics),
        std::future::pending(),
    ));
    address
}

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

fn range(key: &str) -> RangeRequest {
    RangeRequest {
        key: bytes(key),
        ..RangeRequest::default()
    }
}

fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader {
        cluster_id: 7,
        member_id: 2,
        revision,
        raft_term: 1,
    })
}

#[tokio::test]
async fn a_key_is_written_read_and_deleted() {
    let address = start(backend::start(), Limits::default()).await;
    let mut kv = KvClient::new(backend::connect(address).await);

    let response = kv.put(put("a", "1")).await.expect("put").into_inner();
    assert_eq!((response.header, response.prev_kv), (header(2), None));
    let mut again = put("a", "2");
    again.prev_kv = true;
    let response = kv.put(again).await.expect("put").into_inner();
    assert_eq!(response.header, header(3));
    assert_eq!(response.prev_kv.map(|kv| kv.value), Some(bytes("1")));

    for serializable in [false, true] {
        let mut request = range("a");
        request.serializable = serializable;
        let response = kv.range(request).await.expect("range").into_inner();
        assert_eq!((response.header, response.count), (header(3), 1));
        assert_eq!(response.kvs[0].value, "2");
    }

    let delete = DeleteRangeRequest {
        key: bytes("a"),
        prev_kv: true,
        ..DeleteRangeRequest::default()
    };
    let response = kv.delete_range(delete).await.expect("delete").into_inner();
    assert_eq!((response.header, response.deleted), (header(4), 1));
    assert_eq!(response.prev_kvs[0].value, "2");
}

/// Scenario: more keys than the store looks at in one go, and writes while they are read.
#[tokio::test]
async fn large_reads_are_whole_and_of_one_revision() {
    let handle = backend::start();
    let address = start(handle.clone(), Limits::default()).await;
    let mut kv = KvClient::new(backend::connect(address).await);
    for n in 0..3000 {
        let body = Store::encode_put(&put(&format!("k-{n:04}"), "v"));
        let written = handle.write(body, Principal::default()).await;
        written.expect("the backend takes everything");
    }
    let writer = tokio::spawn(async move {
        for n in 0.. {
            let body = Store::encode_put(&put(&format!("k-{:04}", n % 3000), "new"));
            if handle.write(body, Principal::default()).await.is_err() {
                return;
            }
        }
    });
    let all = RangeRequest {
        range_end: bytes("l"),
        sort_order: SortOrder::Descend as i32,
        sort_target: SortTarget::Mod as i32,
        ..range("k")
    };
    let response = kv.range(all.clone()).await.expect("range").into_inner();
    let revision = response.header.expect("there is one").revision;
    assert_eq!((response.count, response.kvs.len()), (3000, 3000));
    assert_eq!(response.kvs[0].mod_revision, revision);
    let sorted = response
        .kvs
        .is_sorted_by(|a, b| a.mod_revision > b.mod_revision);
    assert!(sorted);
    let limited = RangeRequest {
        limit: 2500,
        revision,
        ..all.clone()
    };
    let again = kv.range(limited).await.expect("range").into_inner();
    assert_eq!((again.count, again.more), (3000, true));
    assert_eq!(again.kvs, response.kvs[..2500]);

    let twice = TxnRequest {
        success: vec![
            Request::RequestRange(all.clone()).into(),
            Request::RequestRange(all).into(),
        ],
        ..TxnRequest::default()
    };
    let response = kv.txn(twice).await.expect("txn").into_inner();
    assert_eq!(response.responses.len(), 2);
    assert_eq!(response.responses[0], response.responses[1]);

    let mut maintenance = MaintenanceClient::new(backend::connect(address).await);
    let mut hash = async || {
        let request = HashKvRequest { revision };
        let response = maintenance.hash_kv(request).await.expect("hash");
        response.into_inner().hash
    };
    assert_eq!(hash().await, hash().await);
    writer.abort();
}

#[tokio::test]
async fn transactions_that_write_and_that_only_read() {
    let address = start(backend::start(), Limits::default()).await;
    let mut kv = KvClient::new(backend::connect(address).await);
    let create = TxnRequest {
        compare: vec![Compare {
            key: bytes("a"),
            target: CompareTarget::Mod as i32,
            target_union: Some(TargetUnion::ModRevision(0)),
            ..Compare::default()
        }],
        success: vec![Request::RequestPut(put("a", "1")).into()],
        failure: vec![Request::RequestRange(range("a")).into()],
    };
    for (revision, succeeded) in [(2, true), (2, false)] {
        let response = kv.txn(create.clone()).await.expect("txn").into_inner();
        assert_eq!(response.header, header(revision));
        assert_eq!(response.succeeded, succeeded);
        assert_eq!(response.responses.len(), 1);
    }
    let read = TxnRequest {
        success: vec![Request::RequestRange(range("a")).into()],
        ..TxnRequest::default()
    };
    let response = kv.txn(read).await.expect("txn").into_inner();
    assert_eq!((response.header, response.succeeded), (header(2), true));
    let applied = MaintenanceClient::new(backend::connect(address).await)
        .status(StatusRequest {})
        .await
        .expect("status")
        .into_inner()
        .raft_applied_index;
    assert_eq!(
        applied, 2,
        "a transaction that only reads is not in the log"
    );
}

#[tokio::test]
async fn what_is_refused_has_the_code_and_text_of_etcd() {
    let limits = Limits {
        request_bytes_max: 1000,
        txn_ops_max: 2,
        ..Limits::default()
    };
    let address = start(backend::start(), limits).await;
    let mut kv = KvClient::new(backend::connect(address).await);

    let mut kept = put("a", "1");
    kept.ignore_value = true;
    let mut missing = put("a", "");
    missing.ignore_value = true;
    let mut leased = put("a", "1");
    leased.lease = 5;
    let invalid = Code::InvalidArgument;
    for (request, code, text) in [
        (put("", "1"), invalid, "etcdserver: key is not provided"),
        (kept, invalid, "etcdserver: value is provided"),
        (missing, invalid, "etcdserver: key not found"),
        (
            leased,
            Code::NotFound,
            "etcdserver: requested lease not found",
        ),
        (
            put("a", &"x".repeat(1000)),
            invalid,
            "etcdserver: request is too large",
        ),
    ] {
        let status = kv.put(request).await.expect_err(text);
        assert_eq!((status.code(), status.message()), (code, text));
    }

    let op = |key| Request::RequestPut(put(key, "1")).into();
    for (ops, text) in [
        (
            vec![op("a"), op("b"), op("c")],
            "etcdserver: too many operations in txn request",
        ),
        (
            vec![op("a"), op("a")],
            "etcdserver: duplicate key given in txn request",
        ),
    ] {
        let request = TxnRequest {
            success: ops,
            ..TxnRequest::default()
        };
        let status = kv.txn(request).await.expect_err(text);
        assert_eq!((status.code(), status.message()), (invalid, text));
    }

    let mut future = range("a");
    future.revision = 9;
    let mut unsorted = range("a");
    unsorted.sort_target = 9;
    let future_text = "etcdserver: mvcc: required revision is a future revision";
    for (request, code, text) in [
        (future, Code::OutOfRange, future_text),
        (unsorted, invalid, "etcdserver: invalid sort option"),
    ] {
        let status = kv.range(request).await.expect_err(text);
        assert_eq!((status.code(), status.message()), (code, text));
    }

    let compact = |revision, physical| CompactionRequest { revision, physical };
    let status = kv.compact(compact(9, false)).await.expect_err("future");
    assert_eq!(
        (status.code(), status.message()),
        (Code::OutOfRange, future_text)
    );
}

#[tokio::test]
async fn compacted_revisions_cannot_be_read() {
    let address = start(backend::start(), Limits::default()).await;
    let mut kv = KvClient::new(backend::connect(address).await);
    for value in ["1", "2", "3"] {
        kv.put(put("a", value)).await.expect("put");
    }
    let compact = CompactionRequest {
        revision: 3,
        physical: true,
    };
    let response = kv.compact(compact).await.expect("compaction").into_inner();
    assert_eq!(response.header, header(4));
    let mut old = range("a");
    old.revision = 2;
    let text = "etcdserver: mvcc: required revision has been compacted";
    for status in [
        kv.range(old.clone()).await.expect_err(text),
        kv.compact(compact).await.expect_err(text),
    ] {
        assert_eq!((status.code(), status.message()), (Code::OutOfRange, text));
    }
    old.revision = 3;
    let kept = kv.range(old).await.expect("range").into_inner();
    assert_eq!(kept.kvs[0].value, "2");

    let mut maintenance = MaintenanceClient::new(backend::connect(address).await);
    let hash = maintenance.hash_kv(HashKvRequest { revision: 0 }).await;
    let hash = hash.expect("hash").into_inner();
    assert_eq!((hash.hash_revision, hash.compact_revision), (4, 3));
}

#[tokio::test]
async fn a_replica_that_does_not_answer() {
    // Nobody drains the requests: the first waits, and there is no room for a second.
    let (handle, mut requests) = Handle::new(1);
    let address = start(handle, backend::userless()).await;
    let channel = backend::connect(address).await;
    let (mut first, mut second) = (KvClient::new(channel.clone()), KvClient::new(channel));
    let waiting = tokio::spawn(async move { first.put(put("a", "1")).await });
    while requests.is_empty() {
        tokio::task::yield_now().await;
    }
    let refused = (second.put(put("a", "1")).await).expect_err("there is no room");
    let got = (refused.code(), refused.message());
    let text = "etcdserver: too many requests";
    assert_eq!(got, (Code::ResourceExhausted, text));
    let Some(quorate_server::Request::Write { reply, .. }) = requests.recv().await else {
        panic!("the put arrives");
    };
    let late = reply.send(Err(quorate_server::Failure::Timeout));
    late.expect("somebody waits");
    let late = waiting
        .await
        .expect("no panic")
        .expect_err("it took too long");
    let got = (late.code(), late.message());
    assert_eq!(got, (Code::Unavailable, "etcdserver: request timed out"));
    drop(requests);
    let status = second.put(put("a", "1")).await.expect_err("it has stopped");
    let got = (status.code(), status.message());
    assert_eq!(got, (Code::Unavailable, "etcdserver: server stopped"));
}

#[tokio::test]
async fn status_digest_and_members() {
    let address = start(backend::start(), Limits::default()).await;
    let channel = backend::connect(address).await;
    KvClient::new(channel.clone())
        .put(put("a", "1"))
        .await
        .expect("put");
    let mut maintenance = MaintenanceClient::new(channel.clone());

    let status = maintenance.status(StatusRequest {}).await;
    let status = status.expect("status").into_inner();
    assert_eq!(status.header, header(2));
    assert_eq!(status.version, "3.7.0");
    assert_eq!(
        (status.leader, status.raft_term, status.raft_index),
        (2, 1, 1)
    );
    assert!(status.db_size > 0 && status.errors.is_empty());
    assert!(status.db_size_in_use > 0 && status.db_size_quota >= status.db_size);

    let hash = maintenance.hash_kv(HashKvRequest { revision: 0 }).await;
    let hash = hash.expect("hash").into_inner();
    assert_eq!((hash.hash_revision, hash.compact_revision), (2, -1));

    // etcd sends no header with the one, and says where the store is with the other.
    let defragmented = maintenance.defragment(DefragmentRequest {}).await;
    assert_eq!(defragmented.expect("defragment").into_inner().header, None);
    let alarms = maintenance.alarm(AlarmRequest::default()).await;
    let alarms = alarms.expect("alarms").into_inner();
    assert_eq!((alarms.header, alarms.alarms), (header(2), vec![]));

    let members = ClusterClient::new(channel)
        .member_list(MemberListRequest { linearizable: true })
        .await
        .expect("members")
        .into_inner()
        .members;
    let [member] = &members[..] else {
        panic!("one member: {members:?}");
    };
    assert_eq!((member.id, &member.name[..]), (2, "two"));
    assert_eq!(member.peer_urls, ["http://127.0.0.1:2380"]);
    assert!(member.client_urls.is_empty());
}

/// An alarm as clients name it.
fn alarm(action: AlarmAction, member_id: u64, kind: AlarmType) -> AlarmRequest {
    AlarmRequest {
        action: action as i32,
        member_id,
        alarm: kind as i32,
    }
}

#[tokio::test]
async fn alarms_are_raised_listed_and_ended_and_refuse_what_etcd_refuses() {
    let address = start(backend::start(), Limits::default()).await;
    let channel = backend::connect(address).await;
    let (mut kv, mut maintenance) = (
        KvClient::new(channel.clone()),
        MaintenanceClient::new(channel),
    );
    kv.put(put("a", "1")).await.expect("put");
    let member = |member_id, kind: AlarmType| AlarmMember {
        member_id,
        alarm: kind as i32,
    };
    let mut ask = async |request: AlarmRequest| {
        let answer = maintenance.alarm(request).await.expect("answered");
        answer.into_inner().alarms
    };
    let none = AlarmType::None;
    assert_eq!(ask(alarm(AlarmAction::Activate, 123, none)).await, []);
    let no_space = member(123, AlarmType::Nospace);
    let raised = ask(alarm(AlarmAction::Activate, 123, AlarmType::Nospace)).await;
    assert_eq!(raised, [no_space]);
    assert_eq!(ask(alarm(AlarmAction::Get, 0, none)).await, [no_space]);
    let corrupt = alarm(AlarmAction::Get, 0, AlarmType::Corrupt);
    assert_eq!(ask(corrupt).await, []);

    let refused = kv.put(put("a", "2")).await.expect_err("no space");
    let text = "etcdserver: mvcc: database space exceeded";
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::ResourceExhausted, text)
    );
    let deletion = DeleteRangeRequest {
        key: "a".into(),
        ..DeleteRangeRequest::default()
    };
    kv.delete_range(deletion).await.expect("it makes space");
    let health = |reason: &str| format!(r#"{{"health":"false","reason":"{reason}"}}"#);
    let well = r#"{"health":"true","reason":""}"#.to_owned();
    let no_space_health = (503, health("ALARM NOSPACE"));
    assert_eq!(get(address, "/health").await, no_space_health);
    let corrupt_left_out = get(address, "/health?exclude=CORRUPT").await;
    assert_eq!(corrupt_left_out, no_space_health);
    let excluded = get(address, "/health?exclude=CORRUPT&exclude=NOSPACE").await;
    assert_eq!(excluded, (200, well.clone()));
    assert_eq!(get(address, "/readyz").await.0, 200);

    let raised = ask(alarm(AlarmAction::Activate, 2, AlarmType::Corrupt)).await;
    assert_eq!(raised, [member(2, AlarmType::Corrupt)]);
    let refused = kv.put(put("a", "2")).await.expect_err("corrupt");
    let text = "etcdserver: corrupt cluster";
    assert_eq!((refused.code(), refused.message()), (Code::DataLoss, text));
    let list = "[-]data_corruption failed: alarm activated: CORRUPT\n";
    let (code, said) = get(address, "/readyz").await;
    assert!(code == 503 && said.starts_with(list), "{said}");

    for end in [no_space, member(2, AlarmType::Corrupt)] {
        let request = AlarmRequest {
            action: AlarmAction::Deactivate as i32,
            member_id: end.member_id,
            alarm: end.alarm,
        };
        assert_eq!(ask(request).await, [end]);
        assert_eq!(ask(request).await, [], "it has ended");
    }
    kv.put(put("a", "2")).await.expect("put");
    assert_eq!(get(address, "/health").await, (200, well));
}

#[tokio::test]
async fn what_nobody_serves() {
    let address = start(backend::start(), Limits::default()).await;
    let missing = (404, "404 page not found\n".to_owned());
    assert_eq!(get(address, "/nope").await, missing);

    let mut client = tonic::client::Grpc::new(backend::connect(address).await);
    client.ready().await.expect("it is connected");
    let path = "/etcdserverpb.Numbers/Multiply";
    let codec = tonic_prost::ProstCodec::<LeaseGrantRequest, LeaseGrantResponse>::default();
    let request = tonic::Request::new(LeaseGrantRequest::default());
    let status = client
        .unary(request, PathAndQuery::from_static(path), codec)
        .await
        .expect_err("no etcd has it");
    let text = "unknown method /etcdserverpb.Numbers/Multiply";
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unimplemented, text)
    );
}

#[tokio::test]
async fn told_to_stop_it_finishes_what_is_open() {
    let (handle, mut requests) = Handle::new(8);
    let listener = backend::listen();
    let address = listener.local_addr().expect("it is bound");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(serve(listener, handle, backend::userless(), None, async {
        let _ = stopped.await;
    }));
    let mut kv = KvClient::new(backend::connect(address).await);
    let open = tokio::spawn(async move { kv.put(put("a", "1")).await });

    let Some(quorate_server::Request::Write { reply, .. }) = requests.recv().await else {
        panic!("the put arrives");
    };
    stop.send(()).expect("it is serving");
    reply
        .send(Err(quorate_server::Failure::NoSpace))
        .expect("somebody waits");
    let status = open.await.expect("no panic").expect_err("no space");
    let text = "etcdserver: mvcc: database space exceeded";
    assert_eq!(
        (status.code(), status.message()),
        (Code::ResourceExhausted, text)
    );
    serving.await.expect("no panic");
}
