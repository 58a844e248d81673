//! Bytes as etcd's own encoder writes them: field numbers and wire types, message by message.

use bytes::Bytes;
use prost::Message;
use quorate_etcd_api::errors::{self, Code};
use quorate_etcd_api::etcdserverpb::compare::TargetUnion;
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::*;
use quorate_etcd_api::mvccpb::{Event, EventType, KeyValue};
use quorate_etcd_api::v3electionpb::*;
use quorate_etcd_api::v3lockpb::*;
use std::collections::BTreeSet;

/// Checks both directions.
fn wire<M: Message + Default + PartialEq + std::fmt::Debug>(message: M, expected: &[u8]) {
    assert_eq!(message.encode_to_vec(), expected, "{message:?}");
    assert_eq!(M::decode(expected).as_ref(), Ok(&message));
}

#[test]
fn keys_and_events() {
    let kv = KeyValue {
        key: Bytes::from_static(b"k"),
        create_revision: 1,
        mod_revision: 2,
        version: 3,
        value: Bytes::from_static(b"v"),
        lease: 4,
    };
    let encoded = b"\x0a\x01k\x10\x01\x18\x02\x20\x03\x2a\x01v\x30\x04";
    wire(kv.clone(), encoded);
    let event = Event {
        r#type: EventType::Delete as i32,
        kv: Some(kv),
        prev_kv: None,
    };
    wire(event, &[b"\x08\x01\x12\x0e", &encoded[..]].concat());
}

#[test]
fn requests_of_the_kv_service() {
    let (key, range_end) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
    let range = RangeRequest {
        key: key.clone(),
        range_end: range_end.clone(),
        limit: 3,
        revision: 4,
        sort_order: SortOrder::Descend as i32,
        sort_target: SortTarget::Value as i32,
        serializable: true,
        keys_only: true,
        count_only: true,
        min_mod_revision: 10,
        max_mod_revision: 11,
        min_create_revision: 12,
        max_create_revision: 13,
    };
    wire(
        range,
        b"\x0a\x01a\x12\x01b\x18\x03\x20\x04\x28\x02\x30\x04\x38\x01\x40\x01\x48\x01\x50\x0a\x58\x0b\x60\x0c\x68\x0d",
    );
    let put = PutRequest {
        key: key.clone(),
        value: Bytes::from_static(b"v"),
        lease: 3,
        prev_kv: true,
        ignore_value: true,
        ignore_lease: true,
    };
    wire(put, b"\x0a\x01a\x12\x01v\x18\x03\x20\x01\x28\x01\x30\x01");
    let delete = DeleteRangeRequest {
        key: key.clone(),
        range_end: range_end.clone(),
        prev_kv: true,
    };
    wire(delete.clone(), b"\x0a\x01a\x12\x01b\x18\x01");
    let compare = Compare {
        result: compare::CompareResult::NotEqual as i32,
        target: compare::CompareTarget::Lease as i32,
        key,
        range_end,
        target_union: Some(TargetUnion::Lease(5)),
    };
    wire(compare, b"\x08\x03\x10\x04\x1a\x01a\x40\x05\x82\x04\x01b");
    let txn = TxnRequest {
        compare: vec![Compare::default()],
        success: vec![Request::RequestDeleteRange(delete).into()],
        failure: vec![Request::RequestTxn(TxnRequest::default()).into()],
    };
    wire(
        txn,
        b"\x0a\x00\x12\x0a\x1a\x08\x0a\x01a\x12\x01b\x18\x01\x1a\x02\x22\x00",
    );
}

#[test]
fn what_comes_back() {
    let header = ResponseHeader {
        cluster_id: 1,
        member_id: 2,
        revision: 3,
        raft_term: 4,
    };
    wire(header, b"\x08\x01\x10\x02\x18\x03\x20\x04");
    let range = RangeResponse {
        header: Some(ResponseHeader::default()),
        kvs: vec![KeyValue::default()],
        more: true,
        count: 9,
    };
    wire(range, b"\x0a\x00\x12\x00\x18\x01\x20\x09");
    let status = StatusResponse {
        header: None,
        version: "3".to_owned(),
        db_size: 3,
        leader: 4,
        raft_index: 5,
        raft_term: 6,
        raft_applied_index: 7,
        errors: vec!["e".to_owned()],
        db_size_in_use: 9,
        is_learner: true,
        storage_version: "s".to_owned(),
        db_size_quota: 12,
        downgrade_info: Some(DowngradeInfo::default()),
    };
    wire(
        status,
        b"\x12\x013\x18\x03\x20\x04\x28\x05\x30\x06\x38\x07\x42\x01e\x48\x09\x50\x01\x5a\x01s\x60\x0c\x6a\x00",
    );
    let watch = WatchResponse {
        watch_id: 2,
        created: true,
        compact_revision: 5,
        cancel_reason: "c".to_owned(),
        fragment: true,
        events: vec![Event::default()],
        ..WatchResponse::default()
    };
    wire(watch, b"\x10\x02\x18\x01\x28\x05\x32\x01c\x38\x01\x5a\x00");
}

/// A decoded value is a slice of what was received.
#[test]
fn values_are_not_copied() {
    let received = Bytes::from_static(b"\x0a\x01a\x12\x03val");
    let put = PutRequest::decode(received.clone()).expect("it is a put");
    assert_eq!(put.value.as_ptr(), received[5..].as_ptr());
}

#[test]
fn every_error_text_is_distinct_and_has_the_prefix() {
    let texts: BTreeSet<&str> = errors::ALL.iter().map(|error| error.text).collect();
    assert_eq!(texts.len(), errors::ALL.len());
    assert!(texts.iter().all(|text| text.starts_with("etcdserver: ")));
    assert_eq!(errors::COMPACTED.code, Code::OutOfRange);
    assert_eq!(
        errors::COMPACTED.text,
        "etcdserver: mvcc: required revision has been compacted"
    );
}

#[test]
fn locks_and_elections() {
    let (name, key) = (Bytes::from_static(b"n"), Bytes::from_static(b"k"));
    let lease = 2;
    let (header, value) = (None, Bytes::from_static(b"v"));
    let lock = LockRequest {
        name: name.clone(),
        lease,
    };
    wire(lock, b"\x0a\x01n\x10\x02");
    let locked = LockResponse {
        header,
        key: key.clone(),
    };
    wire(locked, b"\x12\x01k");
    wire(UnlockRequest { key: key.clone() }, b"\x0a\x01k");
    let campaign = CampaignRequest {
        name: name.clone(),
        lease,
        value: value.clone(),
    };
    wire(campaign, b"\x0a\x01n\x10\x02\x1a\x01v");
    let leader = Some(LeaderKey {
        name: name.clone(),
        key,
        rev: 3,
        lease,
    });
    let won = CampaignResponse {
        header,
        leader: leader.clone(),
    };
    wire(won, b"\x12\x0a\x0a\x01n\x12\x01k\x18\x03\x20\x02");
    let proclaim = ProclaimRequest {
        leader: leader.clone(),
        value,
    };
    wire(
        proclaim,
        b"\x0a\x0a\x0a\x01n\x12\x01k\x18\x03\x20\x02\x12\x01v",
    );
    wire(
        ResignRequest { leader },
        b"\x0a\x0a\x0a\x01n\x12\x01k\x18\x03\x20\x02",
    );
    wire(LeaderRequest { name }, b"\x0a\x01n");
    let leads = LeaderResponse {
        header,
        kv: Some(KeyValue::default()),
    };
    wire(leads, b"\x12\x00");
    let part = RangeStreamResponse {
        range_response: Some(RangeResponse {
            more: true,
            count: 4,
            ..RangeResponse::default()
        }),
    };
    wire(part, b"\x0a\x04\x18\x01\x20\x04");
}
