//! Commands, results and queries from hostile bytes.

#[path = "differential/generate.rs"]
#[allow(dead_code)] // the differential test uses the rest
mod generate;

use bytes::Bytes;
use generate::Generator;
use prost::Message;
use quorate_core::{Application, At, Payload};
use quorate_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, RangeRequest, TxnRequest,
};
use quorate_etcd_store::command::{self, Command};
use quorate_etcd_store::{
    Applied, EventsQuery, Keys, PendingResponse, Query, Refused, Store, decode_result,
};
use quorate_fuzz::{Fuzz, Limits};
use std::cell::RefCell;

fn commands(count: usize) -> Vec<Bytes> {
    let mut random = Generator::new(1);
    let mut one = |number: usize| match number % 8 {
        0..3 => command::encode_put(&random.put()),
        3 => command::encode_delete_range(&random.delete()),
        4 => command::encode_txn(&random.txn(2, 9)),
        5 => command::encode_compact(&random.compaction(9, 1)),
        6 => command::encode_lease_grant(&LeaseGrantRequest {
            id: random.lease(),
            ttl: 60,
        }),
        _ if number % 16 == 7 => {
            command::encode_lease_revoke(&LeaseRevokeRequest { id: random.lease() })
        }
        _ => command::encode_lease_renew(&LeaseKeepAliveRequest { id: random.lease() }),
    };
    (0..count).map(&mut one).collect()
}

/// Commands of which values are payloads.
fn commands_apart(count: usize) -> Vec<Bytes> {
    let mut random = Generator::new(3);
    let mut one = |number: usize| match number % 2 {
        0 => command::split_put(random.put(), Some(1)).0,
        _ => command::split_txn(random.txn(2, 9), Some(1)).0,
    };
    (0..count).map(&mut one).collect()
}

/// What every payload is here.
fn payload() -> Payload {
    Payload::of(Bytes::from_static(b"payload"))
}

fn filled() -> Store {
    let mut store = Store::new();
    for body in commands(300) {
        store.apply(At::default(), &body, &[]);
    }
    store
}

fn fuzz(name: &str) -> Fuzz {
    Fuzz::new(env!("CARGO_MANIFEST_DIR"), name)
}

/// What is in the log is applied, whatever it is: to an empty store, and to one that has applied
/// every such command before it.
#[test]
fn commands_bear_any_bytes_and_so_does_the_store_that_applies_them() {
    let limits = Limits {
        // An operation of a transaction takes two bytes at least, and a few hundred in memory.
        bytes_per_byte: 400,
        ..Limits::default()
    };
    let store = RefCell::new(Store::new());
    let seeds = commands(64).into_iter().chain(commands_apart(16));
    let fuzz = fuzz("command").seeds(seeds).limits(limits);
    fuzz.run(
        |input| Command::decode(&input),
        |input, command| {
            let payloads = vec![payload(); command.puts_with_payload().len()];
            let once = Store::new().apply(At::default(), input, &payloads);
            let result = store.borrow_mut().apply(At::default(), input, &payloads);
            for result in [once, result] {
                assert_ne!(decode_result(&result), Err(Refused::Malformed));
            }
            store.borrow_mut().tidy();
        },
    );
}

#[test]
fn results_bear_any_bytes() {
    let mut store = Store::new();
    let bodies: Vec<Bytes> = commands(64).into_iter().chain(commands_apart(32)).collect();
    let apply = |body: &Bytes| {
        let command = Command::decode(body).expect("it was just encoded");
        let payloads = vec![payload(); command.puts_with_payload().len()];
        store.apply(At::default(), body, &payloads)
    };
    let results: Vec<Bytes> = bodies.iter().map(apply).collect();
    let has_pending_values =
        |result| decode_result(result).is_ok_and(|applied| applied.has_pending_values);
    assert!(results.iter().any(has_pending_values));
    let check = |input: &Bytes, applied: &Applied| {
        assert_eq!(input.len(), 9 + applied.response.len());
        let unfilled = bodies
            .iter()
            .map(|body| PendingResponse::of_result(body, applied));
        for unfilled in unfilled.flatten() {
            if let Ok(references) = unfilled.references() {
                let whole = unfilled.encode(vec![Bytes::new(); references.len()]);
                assert!(whole.len() <= input.len());
            }
        }
    };
    fuzz("result")
        .seeds(results)
        .run(|input| decode_result(&input), check);
}

/// The query in some bytes: the first tells its kind.
fn query(input: &Bytes) -> Result<Query, String> {
    let (kind, rest) = input.split_first().ok_or("empty")?;
    let wrong = |error: prost::DecodeError| error.to_string();
    Ok(match kind % 5 {
        0 => Query::Range(RangeRequest::decode(rest).map_err(wrong)?),
        1 => Query::Txn(TxnRequest::decode(rest).map_err(wrong)?),
        kind => {
            let (number, rest) = rest.split_first_chunk().ok_or("short")?;
            let number = i64::from_le_bytes(*number);
            let [key, range_end] = [0, 1].map(|part| {
                let middle = rest.len() / 2;
                let parts = [&rest[..middle], &rest[middle..]];
                Bytes::copy_from_slice(parts[part])
            });
            match kind {
                2 => Query::HashKv { revision: number },
                3 => Query::Lease {
                    id: number,
                    keys: true,
                },
                _ => Query::Events(EventsQuery {
                    keys: Keys::Span { key, range_end },
                    from: number,
                }),
            }
        }
    })
}

#[test]
fn a_store_answers_any_query() {
    let mut random = Generator::new(2);
    let mut seeds = Vec::new();
    for revision in 1..30 {
        seeds.push([&[0][..], &random.range(revision).encode_to_vec()].concat());
        let mut txn = random.txn(2, revision);
        generate::keep_reads(&mut txn);
        seeds.push([&[1][..], &txn.encode_to_vec()].concat());
        let number = (revision - 3).to_le_bytes();
        seeds.extend([2, 3, 4].map(|kind| [&[kind][..], &number, b"ad"].concat()));
    }
    let store = filled();
    let limits = Limits {
        // A range may be the whole store, and a transaction many ranges.
        base_bytes: 64 << 10,
        bytes_per_byte: 64 << 10,
        ..Limits::default()
    };
    let answer = |input: Bytes| query(&input).map(|query| store.query(&query));
    fuzz("query")
        .seeds(seeds)
        .limits(limits)
        .run(answer, |_, _| {});
}
