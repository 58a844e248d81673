//! Values that are kept as payloads, one conversation per test.

mod shelf;

use bytes::Bytes;
use prost::Message;
use quorate_core::{Application, At, Payload, PayloadId};
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, PutResponse, RangeRequest,
    TxnRequest, TxnResponse,
};
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_etcd_store::{
    Applied, EventsQuery, Keys, PendingResponse, Query, QueryAnswer, Refused, Store, command,
    decode_result, ordering,
};
use shelf::Shelved;

fn put(key: &'static str, value: &'static str) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: value.into(),
        ..PutRequest::default()
    }
}

fn delete(key: &'static str) -> Bytes {
    command::encode_delete_range(&DeleteRangeRequest {
        key: key.into(),
        ..DeleteRangeRequest::default()
    })
}

fn compact(revision: i64) -> Bytes {
    let physical = false;
    command::encode_compact(&CompactionRequest { revision, physical })
}

/// A condition on the value of a key or a range.
fn value(key: &'static str, end: &'static str, result: CompareResult, than: &str) -> Compare {
    Compare {
        result: result as i32,
        target: CompareTarget::Value as i32,
        key: key.into(),
        range_end: end.into(),
        target_union: Some(TargetUnion::Value(Bytes::copy_from_slice(than.as_bytes()))),
    }
}

fn when(compare: Vec<Compare>) -> TxnRequest {
    TxnRequest {
        compare,
        ..TxnRequest::default()
    }
}

fn shelved() -> Shelved {
    Shelved::new(Some(1), usize::MAX)
}

fn succeeded(store: &mut Shelved, txn: TxnRequest) -> Result<bool, Refused> {
    let applied = store.apply(&command::encode_txn(&txn))?;
    let response = TxnResponse::decode(applied.response).expect("the store encodes it");
    Ok(response.succeeded)
}

/// What the store itself makes of a transaction that only compares.
fn judged(store: &Shelved, txn: &TxnRequest) -> Result<bool, Refused> {
    match store.store.query(&Query::Txn(txn.clone())) {
        QueryAnswer::Txn(response) => Ok(response.succeeded),
        QueryAnswer::Refused(refused) => Err(refused),
        other => panic!("not the answer to a transaction: {other:?}"),
    }
}

#[test]
fn equality_needs_no_bytes_and_order_does() {
    use CompareResult::{Equal, Greater, Less, NotEqual};
    let mut store = shelved();
    store.put(put("k", "b")).unwrap();
    for (result, than, by_the_store, in_the_end) in [
        (Equal, "b", Ok(true), true),
        (Equal, "a", Ok(false), false),
        (Equal, "bb", Ok(false), false),
        (NotEqual, "b", Ok(false), false),
        (NotEqual, "a", Ok(true), true),
        (Greater, "b", Ok(false), false),
        (Less, "b", Ok(false), false),
        (Greater, "", Ok(true), true),
        (Less, "", Ok(false), false),
        (Greater, "a", Err(Refused::NeedsValue), true),
        (Greater, "c", Err(Refused::NeedsValue), false),
        (Less, "c", Err(Refused::NeedsValue), true),
        (Less, "aa", Err(Refused::NeedsValue), false),
    ] {
        let txn = when(vec![value("k", "", result, than)]);
        assert_eq!(judged(&store, &txn), by_the_store, "{result:?} {than}");
        assert_eq!(
            succeeded(&mut store, txn),
            Ok(in_the_end),
            "{result:?} {than}"
        );
    }
    // Of no key none holds, and the ones behind a condition that fails are not looked at.
    let none = when(vec![value("x", "", Less, "z")]);
    assert_eq!(judged(&store, &none), Ok(false));
    let behind = when(vec![value("k", "", Equal, "a"), value("k", "", Less, "c")]);
    assert_eq!(judged(&store, &behind), Ok(false));
}

/// Whether a decision made before these commands still counts after them.
fn still_counts(txn: &TxnRequest, commands: &[Bytes]) -> Option<bool> {
    let mut store = shelved();
    for (key, text) in [("b", "2"), ("c", "3"), ("d", "4")] {
        store.put(put(key, text)).unwrap();
    }
    let QueryAnswer::Txn(read) = store.query(&Query::Txn(ordering::question(txn))) else {
        panic!("what is there can be read");
    };
    let decided = ordering::decided(txn.clone(), &read);
    for body in commands {
        store.apply(body).unwrap();
    }
    let QueryAnswer::Txn(outer) = store.query(&Query::Txn(decided)) else {
        panic!("it needs no value any more");
    };
    ordering::answer(outer).map(|inner| inner.succeeded)
}

#[test]
fn a_decision_about_values_counts_while_what_it_depends_on_stays() {
    use CompareResult::{Greater, Less};
    let plain = |key, text| command::encode_put(&put(key, text));
    let one = when(vec![value("b", "", Less, "9")]);
    let all = when(vec![value("b", "e", Less, "9")]);
    let not_all = when(vec![value("b", "e", Greater, "2")]);
    let none = when(vec![value("x", "z", Less, "9")]);
    for (txn, commands, expected) in [
        (&one, vec![], Some(true)),
        (&one, vec![plain("c", "5")], Some(true)),
        (&one, vec![plain("b", "5")], None),
        (&one, vec![delete("b")], None),
        (&all, vec![], Some(true)),
        (&all, vec![delete("c")], Some(true)),
        (&all, vec![delete("b")], None),
        (&all, vec![plain("d", "5")], None),
        (&all, vec![plain("ca", "5")], None),
        (&not_all, vec![plain("d", "1"), delete("c")], Some(false)),
        (&not_all, vec![plain("b", "3")], None),
        (&none, vec![plain("a", "1")], Some(false)),
        (&none, vec![plain("y", "1")], None),
    ] {
        assert_eq!(
            still_counts(txn, &commands),
            expected,
            "{txn:?} {commands:?}"
        );
    }
}

#[test]
fn conditions_of_inner_transactions_are_decided_too() {
    let mut store = shelved();
    store.put(put("k", "5")).unwrap();
    let branch = |key, text| Request::RequestPut(put(key, text)).into();
    let inner = TxnRequest {
        compare: vec![value("k", "", CompareResult::Less, "4")],
        success: vec![branch("k", "low")],
        failure: vec![branch("k", "high")],
    };
    let outer = TxnRequest {
        compare: vec![value("k", "", CompareResult::Greater, "1")],
        success: vec![Request::RequestTxn(inner).into()],
        failure: vec![],
    };
    let applied = store.txn(outer).unwrap();
    let response = TxnResponse::decode(applied.response).unwrap();
    let Some(Response::ResponseTxn(inner)) = &response.responses[0].response else {
        panic!("not a transaction's response: {response:?}");
    };
    assert!(response.succeeded && !inner.succeeded);
    let QueryAnswer::Range(found) = store.query(&Query::Range(RangeRequest {
        key: "k".into(),
        ..RangeRequest::default()
    })) else {
        panic!("not the answer to a range");
    };
    assert_eq!(found.kvs[0].value, "high");
}

#[test]
fn what_a_command_does_not_keep_is_dead_at_once() {
    let mut store = shelved();
    let refused = PutRequest {
        lease: 9,
        ..put("k", "value")
    };
    assert_eq!(store.put(refused).map(|_| ()), Err(Refused::LeaseNotFound));
    assert_eq!(store.died, 1);
    let txn = TxnRequest {
        success: vec![Request::RequestPut(put("a", "taken")).into()],
        failure: vec![
            Request::RequestPut(put("b", "not taken")).into(),
            Request::RequestPut(put("c", "neither")).into(),
        ],
        ..TxnRequest::default()
    };
    store.txn(txn).unwrap();
    assert_eq!(store.died, 3);
}

#[test]
fn payloads_that_do_not_fit_the_command_are_refused_and_dead() {
    let payload = Payload::of(Bytes::from_static(b"value"));
    let (apart, _) = command::split_put(put("k", "value"), Some(1));
    let inline = command::encode_put(&put("k", "value"));
    for (body, count) in [(&apart, 0), (&apart, 2), (&inline, 1)] {
        let mut store = Store::new();
        let result = store.apply(At::default(), body, &vec![payload.clone(); count]);
        assert_eq!(decode_result(&result), Err(Refused::Malformed));
        assert_eq!(store.take_dead().len(), count);
        assert_eq!(store.live(None, 9), []);
    }
}

/// Scenario: a put that keeps the value makes a second version of it; each goes with a compaction of
/// its own.
#[test]
fn a_payload_lives_until_its_last_version_is_compacted() {
    let mut store = shelved();
    store.put(put("k", "value")).unwrap();
    let same = PutRequest {
        ignore_value: true,
        ..put("k", "")
    };
    store.put(same).unwrap();
    store.apply(&delete("k")).unwrap();
    assert_eq!(store.store.status().revision, 4);
    store.apply(&compact(3)).unwrap();
    while store.tidy() {}
    assert_eq!(store.died, 0);
    store.apply(&compact(4)).unwrap();
    while store.tidy() {}
    assert_eq!(store.died, 1);
    assert_eq!(store.store.status().bytes, tombstone_bytes());
}

/// Scenario: "value" is replaced in the very revision that is compacted, while the reader of all changes is
/// behind. Freeing comes by the change that wrote it, and must come back to what replaced it.
#[test]
fn a_payload_replaced_in_the_compacted_revision_is_dead_wherever_the_reader_was() {
    for read_after in 0..3 {
        let mut store = shelved();
        let puts = [("k", "value"), ("other", "one"), ("k", "later")];
        let read = |store: &Shelved| {
            let (keys, from) = (Keys::All, 2);
            store
                .store
                .query(&Query::Events(EventsQuery { keys, from }))
        };
        for (place, (key, text)) in puts.into_iter().enumerate() {
            store.put(put(key, text)).unwrap();
            if place == read_after {
                read(&store);
            }
        }
        store.apply(&compact(4)).unwrap();
        while store.tidy() {}
        assert_eq!(store.died, usize::from(read_after > 0), "{read_after}");
        store.store.query(&Query::Unwatch);
        while store.tidy() {}
        assert_eq!(store.died, 1, "{read_after}");
    }
}

/// What is left of a key that was deleted at the compacted revision.
fn tombstone_bytes() -> u64 {
    let mut store = Store::new();
    store.apply(At::default(), &command::encode_put(&put("k", "")), &[]);
    let bytes = |store: &Store| store.status().bytes;
    store.apply(At::default(), &delete("k"), &[]);
    store.apply(At::default(), &compact(3), &[]);
    while store.tidy() {}
    bytes(&store)
}

/// No store gives such a result; a damaged log might.
#[test]
fn the_least_version_there_can_be_does_no_harm() {
    let response = PutResponse {
        prev_kv: Some(KeyValue {
            version: i64::MIN,
            ..KeyValue::default()
        }),
        ..PutResponse::default()
    };
    let applied = Applied {
        revision: 2,
        response: response.encode_to_vec().into(),
        has_pending_values: true,
    };
    let body = command::encode_put(&put("k", ""));
    let unfilled = PendingResponse::of_result(&body, &applied).expect("it is a put's");
    assert_eq!(unfilled.references(), Err(Refused::Malformed));
    let filled = PutResponse::decode(unfilled.encode([Bytes::new()])).expect("a put's");
    assert_eq!(filled.prev_kv.map(|kv| kv.version), Some(i64::MAX));
}

#[test]
fn live_payloads_are_listed_in_the_order_of_their_names() {
    let mut store = Store::new();
    for seq in [3, 1, 2] {
        let mut at = At::default();
        at.payload.entry.seq = seq;
        let request = PutRequest {
            key: Bytes::from(vec![seq as u8]),
            ..put("", "value")
        };
        let (body, payloads) = command::split_put(request, Some(1));
        store.apply(at, &body, &payloads);
    }
    let names = |after, most| -> Vec<u64> {
        let live = store.live(after, most);
        live.iter().map(|(id, _)| id.entry.seq).collect()
    };
    assert_eq!(names(None, 2), [1, 2]);
    let mut second = PayloadId::default();
    second.entry.seq = 2;
    assert_eq!(names(Some(second), 9), [3]);
    assert!(store.is_live(second));
}

#[test]
fn the_digest_of_a_store_counts_values_that_are_apart() {
    let hash = |bytes_min, text| {
        let mut store = Shelved::new(bytes_min, usize::MAX);
        store.put(put("k", text)).unwrap();
        store.store.hash(0).unwrap().hash
    };
    assert_eq!(hash(Some(1), "value"), hash(Some(5), "value"));
    assert_ne!(hash(Some(1), "value"), hash(Some(1), "valuf"));
    assert_ne!(hash(Some(1), "value"), hash(None, "value"));
}
