//! The store as a client sees it, one conversation per test.

use bytes::Bytes;
use prost::Message;
use quorate_core::{Admission, Application, At, Countdown};
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest,
    LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    PutRequest, RangeRequest, RequestOp, SortOrder, SortTarget, TxnRequest, TxnResponse,
};
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_etcd_store::{
    EventsQuery, Keys, Query, QueryAnswer, Refused, Store, TTL_S_MAX, command, decode_result,
};

/// Applies a command; gives the revision afterwards, and the response.
fn apply(store: &mut Store, body: &Bytes) -> Result<(i64, Bytes), Refused> {
    let applied = decode_result(&store.apply(At::default(), body, &[]))?;
    Ok((applied.revision, applied.response))
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put_request(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: bytes(key),
        value: bytes(value),
        ..PutRequest::default()
    }
}

fn put(store: &mut Store, key: &str, value: &str) -> i64 {
    let body = Store::encode_put(&put_request(key, value));
    apply(store, &body).expect("a plain put is never refused").0
}

fn delete(store: &mut Store, key: &str, end: &str) -> (i64, i64) {
    let body = Store::encode_delete_range(&DeleteRangeRequest {
        key: bytes(key),
        range_end: bytes(end),
        prev_kv: false,
    });
    let (revision, response) = apply(store, &body).expect("a deletion is never refused");
    let response = DeleteRangeResponse::decode(response).expect("encoded by the store");
    (revision, response.deleted)
}

fn txn(store: &mut Store, request: &TxnRequest) -> Result<(i64, TxnResponse), Refused> {
    let (revision, response) = apply(store, &Store::encode_txn(request))?;
    Ok((
        revision,
        TxnResponse::decode(response).expect("encoded by the store"),
    ))
}

fn range_request(key: &str, end: &str) -> RangeRequest {
    RangeRequest {
        key: bytes(key),
        range_end: bytes(end),
        ..RangeRequest::default()
    }
}

fn range(store: &Store, request: RangeRequest) -> Result<Vec<KeyValue>, Refused> {
    match store.query(&Query::Range(request)) {
        QueryAnswer::Range(response) => Ok(response.kvs),
        QueryAnswer::Refused(refused) => Err(refused),
        other => panic!("not the answer to a range: {other:?}"),
    }
}

fn compact(store: &mut Store, revision: i64) -> Result<i64, Refused> {
    let request = CompactionRequest {
        revision,
        physical: false,
    };
    apply(store, &Store::encode_compact(&request)).map(|(revision, _)| revision)
}

/// key, value, create revision, mod revision, version
type Row = (String, String, i64, i64, i64);

fn rows(kvs: Vec<KeyValue>) -> Vec<Row> {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).expect("tests use text");
    kvs.iter()
        .map(|kv| {
            let revisions = (kv.create_revision, kv.mod_revision, kv.version);
            (
                text(&kv.key),
                text(&kv.value),
                revisions.0,
                revisions.1,
                revisions.2,
            )
        })
        .collect()
}

fn row(key: &str, value: &str, create: i64, modified: i64, version: i64) -> Row {
    (key.to_owned(), value.to_owned(), create, modified, version)
}

fn keys(kvs: &[KeyValue]) -> String {
    kvs.iter().map(|kv| kv.key[0] as char).collect()
}

#[test]
fn revisions_and_versions_of_a_key_that_comes_and_goes() {
    let mut store = Store::new();
    assert_eq!(store.revision(), 1);
    assert_eq!(put(&mut store, "a", "1"), 2);
    assert_eq!(put(&mut store, "a", "2"), 3);
    assert_eq!(
        delete(&mut store, "b", ""),
        (3, 0),
        "nothing deleted, no revision"
    );
    assert_eq!(delete(&mut store, "a", "\0"), (4, 1));
    assert_eq!(put(&mut store, "a", "3"), 5);

    let at = |revision| {
        let request = RangeRequest {
            revision,
            ..range_request("a", "")
        };
        range(&store, request).map(rows)
    };
    assert_eq!(at(1), Ok(vec![]));
    assert_eq!(at(2), Ok(vec![row("a", "1", 2, 2, 1)]));
    assert_eq!(at(3), Ok(vec![row("a", "2", 2, 3, 2)]));
    assert_eq!(at(4), Ok(vec![]));
    assert_eq!(at(5), Ok(vec![row("a", "3", 5, 5, 1)]));
    assert_eq!(at(0), at(5));
    assert_eq!(at(-1), at(5));
    assert_eq!(at(6), Err(Refused::FutureRevision));
    let status = store.status();
    assert_eq!((status.revision, status.keys, status.compacted), (5, 1, -1));
}

#[test]
fn sorting_limits_and_counts() {
    let mut store = Store::new();
    for (key, value) in [("c", "1"), ("a", "3"), ("b", "2"), ("d", "0"), ("a", "4")] {
        put(&mut store, key, value);
    }
    let none = SortOrder::None;
    let (up, down) = (SortOrder::Ascend, SortOrder::Descend);
    for (order, target, limit, expected, more) in [
        (none, SortTarget::Key, 0, "abcd", false),
        (none, SortTarget::Key, 2, "ab", true),
        (none, SortTarget::Key, 4, "abcd", false),
        (none, SortTarget::Key, i64::MAX, "abcd", false),
        (down, SortTarget::Key, 3, "dcb", true),
        (up, SortTarget::Value, 0, "dcba", false),
        (down, SortTarget::Value, 2, "ab", true),
        (up, SortTarget::Create, 0, "cabd", false),
        (up, SortTarget::Mod, 0, "cbda", false),
        (down, SortTarget::Mod, 1, "a", true),
        (up, SortTarget::Version, 0, "bcda", false),
        // Ties stay in key order either way.
        (down, SortTarget::Version, 0, "abcd", false),
        // Without an order only what the limit let through, and one more, is sorted.
        (none, SortTarget::Value, 0, "dcba", false),
        (none, SortTarget::Value, 2, "cb", true),
    ] {
        let query = Query::Range(RangeRequest {
            sort_order: order as i32,
            sort_target: target as i32,
            limit,
            ..range_request("a", "z")
        });
        let QueryAnswer::Range(response) = store.query(&query) else {
            panic!("refused: {query:?}");
        };
        let got = (&keys(&response.kvs)[..], response.more, response.count);
        assert_eq!(got, (expected, more, 4), "{query:?}");
    }
}

#[test]
fn a_transaction_sees_its_own_writes_but_compares_what_was_before() {
    let mut store = Store::new();
    put(&mut store, "a", "old");
    let is_old = Compare {
        key: bytes("a"),
        target: CompareTarget::Value as i32,
        result: CompareResult::Equal as i32,
        target_union: Some(TargetUnion::Value(bytes("old"))),
        ..Compare::default()
    };
    let read = || RequestOp::from(Request::RequestRange(range_request("a", "")));
    let inner = TxnRequest {
        compare: vec![is_old.clone()],
        success: vec![read()],
        failure: vec![],
    };
    let request = TxnRequest {
        compare: vec![is_old],
        success: vec![
            read(),
            Request::RequestPut(put_request("a", "new")).into(),
            Request::RequestTxn(inner).into(),
        ],
        failure: vec![],
    };
    let (revision, response) = txn(&mut store, &request).expect("it is admitted");
    assert_eq!((revision, response.succeeded), (3, true));
    let values: Vec<_> = response
        .responses
        .into_iter()
        .map(|op| op.response)
        .collect();
    let [
        Some(Response::ResponseRange(before)),
        Some(Response::ResponsePut(_)),
        Some(Response::ResponseTxn(inner)),
    ] = &values[..]
    else {
        panic!("one response per operation: {values:?}");
    };
    assert_eq!(before.kvs[0].value, "old");
    assert!(
        inner.succeeded,
        "conditions see the state before the transaction"
    );
    let Some(Response::ResponseRange(after)) = &inner.responses[0].response else {
        panic!("the inner read: {inner:?}");
    };
    assert_eq!(after.kvs[0].value, "new");
    assert_eq!(after.header.map(|header| header.revision), Some(3));

    let (revision, response) = txn(&mut store, &request).expect("it is admitted");
    assert_eq!(
        (revision, response.succeeded),
        (3, false),
        "no change, no revision"
    );
}

#[test]
fn a_refused_transaction_changes_nothing() {
    let mut store = Store::new();
    put(&mut store, "a", "1");
    let before = store.hash(0);
    let mut keep = put_request("missing", "");
    keep.ignore_value = true;
    let mut leased = put_request("b", "1");
    leased.lease = 9;
    let future = RangeRequest {
        revision: 3,
        ..range_request("a", "")
    };
    for (second, expected) in [
        (Request::RequestPut(keep), Refused::KeyNotFound),
        (Request::RequestPut(leased), Refused::LeaseNotFound),
        (Request::RequestRange(future), Refused::FutureRevision),
        (
            Request::RequestPut(put_request("a", "3")),
            Refused::DuplicateKey,
        ),
    ] {
        let first = Request::RequestPut(put_request("a", "2"));
        let request = TxnRequest {
            success: vec![first.into(), second.into()],
            ..TxnRequest::default()
        };
        assert_eq!(txn(&mut store, &request), Err(expected));
        assert_eq!(store.hash(0), before);
    }
}

#[test]
fn a_lease_is_missed_before_a_key() {
    let mut store = Store::new();
    let both = PutRequest {
        lease: 9,
        ignore_value: true,
        ..put_request("a", "")
    };
    let alone = apply(&mut store, &Store::encode_put(&both));
    assert_eq!(alone, Err(Refused::LeaseNotFound));
    let request = TxnRequest {
        success: vec![Request::RequestPut(both).into()],
        ..TxnRequest::default()
    };
    assert_eq!(txn(&mut store, &request), Err(Refused::LeaseNotFound));
}

#[test]
fn conditions_over_a_range_and_over_nothing() {
    let mut store = Store::new();
    put(&mut store, "a", "1");
    put(&mut store, "b", "2");
    put(&mut store, "b", "3");
    let version = |key: &str, end: &str, relation, n| Compare {
        key: bytes(key),
        range_end: bytes(end),
        target: CompareTarget::Version as i32,
        result: relation as i32,
        target_union: Some(TargetUnion::Version(n)),
    };
    let value = |key: &str, relation, text| Compare {
        key: bytes(key),
        target: CompareTarget::Value as i32,
        result: relation as i32,
        target_union: Some(TargetUnion::Value(bytes(text))),
        ..Compare::default()
    };
    use CompareResult::{Equal, Greater, Less, NotEqual};
    for (condition, expected) in [
        (version("a", "", Equal, 1), true),
        (version("a", "c", Equal, 1), false),
        (version("a", "c", Greater, 0), true),
        (version("a", "c", Less, 3), true),
        (version("a", "\0", NotEqual, 2), false),
        (version("x", "", Equal, 0), true),
        (version("x", "\0", Less, 1), true),
        (version("x", "", Greater, 0), false),
        (value("x", Equal, ""), false),
        (value("x", NotEqual, "1"), false),
        (value("a", Less, "11"), true),
    ] {
        let request = TxnRequest {
            compare: vec![condition],
            ..TxnRequest::default()
        };
        let QueryAnswer::Txn(response) = store.query(&Query::Txn(request.clone())) else {
            panic!("refused: {request:?}");
        };
        assert_eq!(response.succeeded, expected, "{request:?}");
    }
}

#[test]
fn a_query_cannot_write() {
    let store = Store::new();
    let request = TxnRequest {
        success: vec![Request::RequestPut(put_request("a", "1")).into()],
        ..TxnRequest::default()
    };
    let answer = store.query(&Query::Txn(request));
    assert_eq!(answer, QueryAnswer::Refused(Refused::Malformed));
}

#[test]
fn what_compaction_keeps_and_refuses() {
    let mut store = Store::new();
    put(&mut store, "a", "1");
    put(&mut store, "b", "1");
    put(&mut store, "a", "2");
    delete(&mut store, "b", "");
    put(&mut store, "a", "3"); // revision 6
    assert_eq!(compact(&mut store, 7), Err(Refused::FutureRevision));
    assert_eq!(compact(&mut store, 5), Ok(6));
    assert_eq!(compact(&mut store, 5), Err(Refused::Compacted));
    assert_eq!(compact(&mut store, -1), Err(Refused::Compacted));
    let at = |store: &Store, revision| {
        let request = RangeRequest {
            revision,
            ..range_request("a", "z")
        };
        range(store, request).map(|kvs| rows(kvs).len())
    };
    let seen: Vec<_> = [0, 4, 5, 6].map(|revision| at(&store, revision)).into();
    assert_eq!(seen, [Ok(1), Err(Refused::Compacted), Ok(1), Ok(1)]);
    assert_eq!(
        store.hash(5).map(|found| found.compacted),
        Ok(5),
        "the digest names what it leaves out"
    );
    assert_eq!(store.hash(4), Err(Refused::Compacted));
    // Nothing is before the first revision, and nothing can be compacted there.
    let nothing = store.hash(-1).expect("a digest of nothing");
    assert_eq!(
        (nothing.hash_revision, nothing.revision),
        (-1, store.revision())
    );
    assert_eq!(nothing.hash, Store::new().hash(0).expect("so is this").hash);
    let read = TxnRequest {
        success: vec![
            Request::RequestRange(RangeRequest {
                revision: 4,
                ..range_request("a", "")
            })
            .into(),
        ],
        ..TxnRequest::default()
    };
    assert_eq!(txn(&mut store, &read), Err(Refused::Compacted));
}

#[test]
fn compaction_frees_memory_whatever_shape_the_history_has() {
    let (mut store, mut small) = (Store::new(), Store::new());
    for n in 0..2000 {
        put(&mut store, "hot", &n.to_string());
        put(&mut store, &format!("once{n}"), "x");
    }
    delete(&mut store, "once", "oncf");
    put(&mut store, "hot", "last");
    put(&mut small, "hot", "last");
    let full = store.status();
    let now = store.revision();
    compact(&mut store, now).expect("it is the present");
    assert_eq!(store.status().keys, 1);
    assert!(!store.status().tidy, "nothing large is freed at once");
    assert!(store.status().bytes > full.bytes / 2);
    while store.tidy() {}
    assert_eq!(store.status().bytes, small.status().bytes);
}

#[test]
fn a_lease_ends_with_its_countdown_unless_it_was_renewed() {
    let mut store = Store::new();
    let grant = |id, ttl| command::encode_lease_grant(&LeaseGrantRequest { id, ttl });
    let too_long = apply(&mut store, &grant(5, TTL_S_MAX + 1));
    assert_eq!(too_long, Err(Refused::LeaseTtlTooLarge));
    let (revision, response) = apply(&mut store, &grant(5, 0)).expect("granted");
    let response = LeaseGrantResponse::decode(response).expect("encoded by the store");
    assert_eq!((revision, response.id, response.ttl), (1, 5, 2));
    assert_eq!(apply(&mut store, &grant(5, 9)), Err(Refused::LeaseExists));

    let first = countdown(&mut store);
    assert_eq!((first.0, first.1), (5, 2_000_000_000));
    let renew = command::encode_lease_renew(&LeaseKeepAliveRequest { id: 5 });
    apply(&mut store, &renew).expect("renewed");
    let second = countdown(&mut store);
    for key in ["b", "a"] {
        let mut request = put_request(key, "1");
        request.lease = 5;
        apply(&mut store, &Store::encode_put(&request)).expect("the lease exists");
    }
    put(&mut store, "b", "without a lease"); // revision 4
    assert_eq!(apply(&mut store, &first.2).map(|(at, _)| at), Ok(4));
    assert_eq!(store.status().keys, 2);
    assert_eq!(apply(&mut store, &second.2).map(|(at, _)| at), Ok(5));
    let left = range(&store, range_request("a", "z")).expect("it is readable");
    assert_eq!(keys(&left), "b");
    assert_eq!(store.take_countdowns(), [Countdown::Stop { id: 5 }]);
    assert_eq!(apply(&mut store, &second.2).map(|(at, _)| at), Ok(5));
    let (_, response) = apply(&mut store, &renew).expect("no error");
    let response = LeaseKeepAliveResponse::decode(response).expect("encoded by the store");
    assert_eq!((response.id, response.ttl), (5, 0), "a lease that is gone");
    let revoke = command::encode_lease_revoke(&LeaseRevokeRequest { id: 5 });
    assert_eq!(apply(&mut store, &revoke), Err(Refused::LeaseNotFound));

    let mut chosen = || {
        let (_, response) = apply(&mut store, &grant(0, 60)).expect("granted");
        LeaseGrantResponse::decode(response)
            .expect("encoded by the store")
            .id
    };
    let (one, two) = (chosen(), chosen());
    assert!(one > 0 && two > 0 && one != two);
}

/// The number, time and command of the only countdown that was started.
fn countdown(store: &mut Store) -> (u64, u64, Bytes) {
    match &store.take_countdowns()[..] {
        [
            Countdown::Start {
                id,
                after_ns,
                command,
            },
        ] => (*id, *after_ns, command.clone()),
        other => panic!("one countdown is started: {other:?}"),
    }
}

/// The digest is compared between versions of the software too: it must never change by accident.
#[test]
fn the_digest_of_a_small_store() {
    let mut store = Store::new();
    put(&mut store, "a", "1");
    put(&mut store, "b", "2");
    let at_three = store.hash(0).expect("now can be hashed");
    delete(&mut store, "a", "");
    assert_eq!(store.hash(3).map(|found| found.hash), Ok(at_three.hash));
    assert_ne!(store.hash(4).map(|found| found.hash), Ok(at_three.hash));
    assert_eq!(store.hash(5), Err(Refused::FutureRevision));
    assert_eq!(at_three.hash, 9_304_348_904_348_840_515);
}

#[test]
fn a_small_value_does_not_keep_its_buffer_and_a_large_one_is_not_copied() {
    for (length, shared) in [(100, false), (1 << 20, true)] {
        let mut store = Store::new();
        let mut request = put_request("key", "");
        request.value = Bytes::from(vec![7; length]);
        let body = Store::encode_put(&request);
        apply(&mut store, &body).expect("a plain put is never refused");
        let kept = &range(&store, range_request("key", "")).expect("it is there")[0];
        assert_eq!(body.as_ptr_range().contains(&kept.value.as_ptr()), shared);
        assert!(!body.as_ptr_range().contains(&kept.key.as_ptr()));
    }
}

#[test]
fn watchers_see_the_key_before_the_whole_transaction() {
    let mut store = Store::new();
    put(&mut store, "a", "1");
    let inner = |op: Request| TxnRequest {
        success: vec![op.into()],
        ..TxnRequest::default()
    };
    // A key may be put and then deleted by two inner transactions.
    let delete = DeleteRangeRequest {
        key: bytes("a"),
        range_end: bytes("c"),
        ..DeleteRangeRequest::default()
    };
    let puts = ["a", "b"].map(|key| {
        let put = Request::RequestPut(put_request(key, "2"));
        Request::RequestTxn(inner(put)).into()
    });
    let mut both = TxnRequest::default();
    both.success.extend(puts);
    let delete = Request::RequestDeleteRange(delete);
    (both.success).push(Request::RequestTxn(inner(delete)).into());
    txn(&mut store, &both).expect("allowed");
    for keys in [
        Keys::All,
        Keys::Span {
            key: bytes("a"),
            range_end: bytes("\0"),
        },
    ] {
        let QueryAnswer::Events(found) = store.query(&Query::Events(EventsQuery { keys, from: 3 }))
        else {
            panic!("nothing was compacted");
        };
        let seen = found.events.iter().map(|event| {
            let kv = event.kv.as_ref().expect("every event has a key");
            let before = event.prev_kv.as_ref().map(|kv| kv.value.clone());
            (event.r#type, kv.key.clone(), before)
        });
        let one = || Some(bytes("1"));
        let expected = [
            (0, bytes("a"), one()),
            (0, bytes("b"), None),
            (1, bytes("a"), one()),
            (1, bytes("b"), None),
        ];
        assert!(seen.eq(expected), "{found:?}");
    }
}

#[test]
fn keys_without_values_come_without_leases() {
    let mut store = Store::new();
    let grant = command::encode_lease_grant(&LeaseGrantRequest { id: 7, ttl: 60 });
    apply(&mut store, &grant).expect("the number is free");
    let leased = PutRequest {
        lease: 7,
        ..put_request("a", "1")
    };
    apply(&mut store, &Store::encode_put(&leased)).expect("the lease is there");
    for (keys_only, sort_target, lease) in [(false, 0, 7), (true, 0, 0), (true, 4, 7)] {
        let request = RangeRequest {
            key: bytes("a"),
            keys_only,
            sort_target,
            ..RangeRequest::default()
        };
        let QueryAnswer::Range(found) = store.query(&Query::Range(request)) else {
            panic!("a range");
        };
        assert_eq!(found.kvs[0].lease, lease);
    }
}

/// What etcd refuses while its NOSPACE alarm is on, and what it does not; and CORRUPT refuses all.
#[test]
fn alarms_refuse_what_would_make_the_store_larger_or_everything() {
    let mut store = Store::new();
    put(&mut store, "a", "1");
    let put_op = |key| RequestOp {
        request: Some(Request::RequestPut(put_request(key, "2"))),
    };
    let delete_op = RequestOp {
        request: Some(Request::RequestDeleteRange(DeleteRangeRequest {
            key: bytes("a"),
            ..DeleteRangeRequest::default()
        })),
    };
    let nested = TxnRequest {
        failure: vec![put_op("b")],
        ..TxnRequest::default()
    };
    let nested = RequestOp {
        request: Some(Request::RequestTxn(nested)),
    };
    let txn = |op| {
        Store::encode_txn(&TxnRequest {
            success: vec![op],
            ..TxnRequest::default()
        })
    };
    let grant = LeaseGrantRequest { id: 7, ttl: 60 };
    let compaction = CompactionRequest {
        revision: 2,
        ..CompactionRequest::default()
    };
    let deletion = DeleteRangeRequest {
        key: bytes("none"),
        ..DeleteRangeRequest::default()
    };
    let cases = [
        (Store::encode_put(&put_request("b", "2")), true),
        (txn(put_op("b")), true),
        (txn(nested), true),
        (command::encode_lease_grant(&grant), true),
        (txn(delete_op), false),
        (Store::encode_delete_range(&deletion), false),
        (Store::encode_compact(&compaction), false),
        (
            command::encode_lease_renew(&LeaseKeepAliveRequest { id: 7 }),
            false,
        ),
    ];
    let mut apply = |admission, body: &Bytes| {
        let at = At {
            admission,
            ..At::default()
        };
        decode_result(&store.apply(at, body, &[])).map(drop)
    };
    for (body, grows) in &cases {
        assert_eq!((Store::COMMAND_PROPERTIES.grows)(body), *grows, "{body:?}");
        let corrupt = apply(Admission::Nothing, body);
        assert_eq!(corrupt, Err(Refused::Corrupt), "{body:?}");
        let expected = if *grows {
            Err(Refused::NoSpace)
        } else {
            Ok(())
        };
        assert_eq!(apply(Admission::NoGrowth, body), expected, "{body:?}");
    }
    assert_eq!(store.revision(), 3, "the deletion alone was done");
    let garbage = Bytes::from_static(b"\x7f");
    assert!(!(Store::COMMAND_PROPERTIES.grows)(&garbage));
}
