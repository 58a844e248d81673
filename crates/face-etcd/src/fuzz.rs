//! What clients send, from hostile bytes: the beginning of a connection, a call's body, requests.

use crate::authority::Opening;
use crate::codec::decode_txn;
use crate::response_body::message_length;
use bytes::Bytes;
use prost::Message;
use quorate_etcd_api::TXN_PARTS_MAX;
use quorate_etcd_api::etcdserverpb::{self as api, request_op::Request};
use quorate_etcd_api::v3electionpb::{CampaignRequest, ProclaimRequest};
use quorate_etcd_api::v3lockpb::LockRequest;
use quorate_etcd_store::check;
use quorate_fuzz::{Fuzz, Limits};
use std::fmt;
use std::hint::black_box;
use std::iter;

fn fuzz(name: &str) -> Fuzz {
    Fuzz::new(env!("CARGO_MANIFEST_DIR"), name)
}

/// The beginning of a connection, in pieces, as it is passed on.
#[derive(Debug)]
struct Passed {
    is_over: bool,
    out: Vec<u8>,
}

fn pass(input: Bytes) -> Result<Passed, String> {
    let mut opening = Opening::default();
    let mut passed = Passed {
        is_over: false,
        out: Vec::new(),
    };
    for piece in input.chunks(37) {
        if passed.is_over {
            passed.out.extend(piece);
        } else {
            passed.is_over = opening.pass(piece, &mut passed.out);
        }
    }
    passed.out.append(&mut opening.held());
    Ok(passed)
}

#[test]
fn the_beginning_of_a_connection_bears_any_bytes_and_loses_none() {
    let frame = |kind: u8, flags: u8, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    };
    let block = |value: &[u8], huffman: u8| {
        let head = [0x83, 0x40, 2, b'x', b'y', 1, b'z', 0x41];
        [&head[..], &[value.len() as u8 | huffman], value, &[0x86]].concat()
    };
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let connection = |headers: &[u8], flags| {
        let parts = [
            &preface[..],
            &frame(4, 0, &[0; 12]),
            &frame(1, flags, headers),
            &frame(0, 1, b"data"),
        ];
        parts.concat()
    };
    // "http://" in Huffman's code.
    let coded = [0x9d, 0x29, 0xae, 0xe3, 0x0c, 0x7f];
    let seeds = [
        connection(&block(b"http://127.0.0.1:2379", 0), 4),
        connection(&block(b"localhost", 0), 4),
        connection(&block(&coded, 0x80), 4),
        connection(
            &[&[3, 0, 0, 0, 0, 9][..], &block(b"https://a", 0), &[0; 3]].concat(),
            0x2c,
        ),
        b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
    ];
    fuzz("authority").seeds(seeds).run(pass, |input, passed| {
        assert_eq!(passed.out.len(), input.len());
        let changed = input
            .iter()
            .zip(&passed.out)
            .filter(|(before, after)| before != after);
        assert!(
            changed.count() <= "https://".len(),
            "more than a scheme was changed"
        );
    });
}

/// A client's request of any kind.
#[derive(Debug)]
enum Call {
    Range(api::RangeRequest),
    Put(api::PutRequest),
    Delete(api::DeleteRangeRequest),
    Txn(api::TxnRequest),
    Other(Box<dyn fmt::Debug>),
}

fn other<M: Message + Default + fmt::Debug + 'static>(
    bytes: Bytes,
) -> Result<Call, prost::DecodeError> {
    M::decode(bytes).map(|message| Call::Other(Box::new(message)))
}

/// Decodes what comes after a byte for the kind of request.
fn call(input: Bytes) -> Result<Call, String> {
    let kind = *input.first().ok_or("empty")?;
    let bytes = input.slice(1..);
    let call = match kind {
        0 => api::RangeRequest::decode(bytes).map(Call::Range),
        1 => api::PutRequest::decode(bytes).map(Call::Put),
        2 => api::DeleteRangeRequest::decode(bytes).map(Call::Delete),
        3 => {
            return decode_txn(bytes)
                .map(Call::Txn)
                .map_err(|status| status.to_string());
        }
        4 => other::<api::CompactionRequest>(bytes),
        5 => other::<api::WatchRequest>(bytes),
        6 => other::<api::LeaseGrantRequest>(bytes),
        7 => other::<api::LeaseRevokeRequest>(bytes),
        8 => other::<api::LeaseKeepAliveRequest>(bytes),
        9 => other::<api::LeaseTimeToLiveRequest>(bytes),
        10 => other::<api::MemberAddRequest>(bytes),
        11 => other::<api::MemberUpdateRequest>(bytes),
        12 => other::<api::AlarmRequest>(bytes),
        13 => other::<api::HashKvRequest>(bytes),
        14 => other::<LockRequest>(bytes),
        15 => other::<CampaignRequest>(bytes),
        16 => other::<ProclaimRequest>(bytes),
        _ => return Err("no such kind".into()),
    };
    call.map_err(|error| error.to_string())
}

fn seeds_of_queues() -> [(u8, Vec<u8>); 2] {
    let lock = LockRequest {
        name: Bytes::from_static(b"lock"),
        lease: 7,
    };
    let campaign = CampaignRequest {
        name: Bytes::from_static(b"election"),
        value: Bytes::from_static(b"value"),
        lease: 7,
    };
    [(14, lock.encode_to_vec()), (15, campaign.encode_to_vec())]
}

fn seeds() -> Vec<Vec<u8>> {
    let key = Bytes::from_static(b"key");
    let range = api::RangeRequest {
        key: key.clone(),
        range_end: Bytes::from_static(b"kez"),
        limit: 9,
        revision: 1,
        sort_order: 2,
        sort_target: 4,
        max_mod_revision: i64::MAX,
        ..Default::default()
    };
    let put = api::PutRequest {
        key: key.clone(),
        value: Bytes::from_static(b"value"),
        lease: -1,
        prev_kv: true,
        ..Default::default()
    };
    let delete = api::DeleteRangeRequest {
        key: key.clone(),
        range_end: Bytes::from_static(b"\0"),
        prev_kv: true,
    };
    let inner = api::TxnRequest {
        success: vec![Request::RequestPut(put.clone()).into()],
        ..Default::default()
    };
    let txn = api::TxnRequest {
        compare: vec![api::Compare {
            result: 3,
            target: 2,
            key: key.clone(),
            range_end: key.clone(),
            target_union: Some(api::compare::TargetUnion::Value(key.clone())),
        }],
        success: vec![
            Request::RequestTxn(inner).into(),
            Request::RequestRange(range.clone()).into(),
        ],
        failure: vec![Request::RequestDeleteRange(delete.clone()).into()],
    };
    let create = api::WatchCreateRequest {
        key,
        start_revision: 5,
        filters: vec![0, 1],
        fragment: true,
        ..Default::default()
    };
    let watch = api::WatchRequest {
        request_union: Some(api::watch_request::RequestUnion::CreateRequest(create)),
    };
    let grant = api::LeaseGrantRequest { id: 7, ttl: 60 };
    let kinds: [(u8, Vec<u8>); 6] = [
        (0, range.encode_to_vec()),
        (1, put.encode_to_vec()),
        (2, delete.encode_to_vec()),
        (3, txn.encode_to_vec()),
        (5, watch.encode_to_vec()),
        (6, grant.encode_to_vec()),
    ];
    let mut seeds: Vec<Vec<u8>> = (4..14).map(|kind| vec![kind, 8, 1, 16, 2]).collect();
    let kinds = kinds.into_iter().chain(seeds_of_queues());
    seeds.extend(kinds.map(|(kind, bytes)| [&[kind][..], &bytes].concat()));
    seeds
}

#[test]
fn requests_bear_any_bytes_and_are_judged() {
    let limits = Limits {
        // An operation of a transaction takes two bytes at least, and a few hundred in memory.
        bytes_per_byte: 400,
        ..Limits::default()
    };
    fuzz("request")
        .seeds(seeds())
        .limits(limits)
        .run(call, |_, call| {
            // Whatever they come to, without a panic.
            black_box(match call {
                Call::Range(request) => check::range(request).is_ok(),
                Call::Put(request) => check::put(request).is_ok(),
                Call::Delete(request) => check::delete_range(request).is_ok(),
                Call::Txn(request) => {
                    let may_be_stale = check::is_serializable(request);
                    assert!(
                        check::is_read_only(request) || !may_be_stale,
                        "a stale write"
                    );
                    check::txn(request, 128).is_ok()
                }
                Call::Other(request) => format!("{request:?}").is_empty(),
            });
        });
}

#[test]
fn the_front_of_a_message_bears_any_bytes() {
    let seeds: [&[u8]; 3] = [&[0, 0, 0, 0, 10], &[1, 0, 0, 0, 0], &[0, 0xff, 0, 0, 0, 1]];
    let most = 1 << 20;
    let length = |input: Bytes| message_length(&input, most);
    fuzz("front")
        .seeds(seeds)
        .run(length, |input, length| match length {
            Some(length) => assert!(*length <= most && input[0] == 0),
            None => assert!(input.len() < 5),
        });
}

/// Scenario: a transaction as large as a request may be, of the smallest operations there are, and
/// one with just as many as are decoded. Neither takes more than its declared part of memory.
#[test]
fn a_large_transaction_takes_bounded_memory() {
    /// What [`TXN_PARTS_MAX`] parts take while a vector of them doubles.
    const TXN_BYTES_MAX: u64 = 64 << 20;
    for parts in [TXN_PARTS_MAX, 8 << 20] {
        let bytes: Vec<u8> = iter::repeat_n([0x12, 0], parts).flatten().collect();
        let bytes = Bytes::from(bytes);
        let mut decoded = None;
        let info = allocation_counter::measure(|| decoded = Some(decode_txn(bytes)));
        assert!(
            info.bytes_max <= TXN_BYTES_MAX,
            "{} B for {parts} parts",
            info.bytes_max
        );
        let is_decoded = decoded.is_some_and(|decoded| decoded.is_ok());
        assert_eq!(is_decoded, parts <= TXN_PARTS_MAX);
    }
}
