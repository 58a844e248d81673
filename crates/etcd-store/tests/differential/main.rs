//! Random commands and queries, against a model that keeps a full copy of the store for every
//! revision.

mod generate;
mod model;
#[path = "../shelf/mod.rs"]
mod shelf;

use bytes::Bytes;
use generate::Generator;
use model::Model;
use prost::Message;
use quorate_core::{Application, At};
use quorate_etcd_api::etcdserverpb::{
    CompactionResponse, DeleteRangeResponse, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseRevokeRequest, PutResponse, ResponseHeader, TxnResponse,
};
use quorate_etcd_api::mvccpb::Event;
use quorate_etcd_store::{
    EventsQuery, Keys, LeaseExpiry, Query, QueryAnswer, Refused, Store, check, command,
};
use shelf::Shelved;

/// Applies a body and decodes the response, with the revision in its header.
fn apply<M: Message + Default>(
    store: &mut Shelved,
    body: &Bytes,
    header: impl Fn(&mut M) -> &mut Option<ResponseHeader>,
) -> Result<M, Refused> {
    let applied = store.apply(body)?;
    assert_eq!(applied.revision, store.store.revision());
    let mut response = M::decode(applied.response).expect("the store encodes its responses");
    assert_eq!(*header(&mut response), None);
    *header(&mut response) = Some(ResponseHeader {
        revision: applied.revision,
        ..ResponseHeader::default()
    });
    Ok(response)
}

fn step(seed: u64, random: &mut Generator, store: &mut Shelved, model: &mut Model) {
    match random.rng.u8(..13) {
        11.. => lease(seed, random, store, model),
        10 => {
            let request = random.compaction(model.revision(), model.compacted);
            let body = command::encode_compact(&request);
            let got = apply(store, &body, |r: &mut CompactionResponse| &mut r.header);
            let expected = model.compact(&request);
            assert_eq!(got.map(|_| ()), expected, "seed {seed}: {request:?}");
        }
        0..=3 => {
            let request = random.put();
            let got = apply(
                store,
                &command::encode_put(&request),
                |r: &mut PutResponse| &mut r.header,
            );
            let expected = match check::put(&request) {
                Ok(()) => model.put(&request),
                Err(refused) => Err(refused),
            };
            assert_eq!(got, expected, "seed {seed}: {request:?}");
        }
        4 => {
            let request = random.delete();
            let body = command::encode_delete_range(&request);
            let got = apply(store, &body, |r: &mut DeleteRangeResponse| &mut r.header);
            assert_eq!(got, Ok(model.delete(&request)), "seed {seed}: {request:?}");
        }
        _ => {
            let request = random.txn(2, model.revision());
            let body = command::encode_txn(&request);
            let got = apply(store, &body, |r: &mut TxnResponse| &mut r.header);
            let expected = match check::txn(&request, usize::MAX) {
                Ok(()) => model.txn(&request),
                Err(refused) => Err(refused),
            };
            assert_eq!(got, expected, "seed {seed}: {request:?}");
        }
    }
    assert_eq!(store.store.revision(), model.revision());
    assert_eq!(store.store.status().keys, model.keys());
}

fn read(seed: u64, random: &mut Generator, store: &mut Shelved, model: &Model) {
    let request = random.range(model.revision());
    let expected = model
        .range(&request)
        .map_or_else(QueryAnswer::Refused, QueryAnswer::Range);
    let got = store.query(&Query::Range(request.clone()));
    assert_eq!(got, expected, "seed {seed}: {request:?}");

    let mut txn = random.txn(1, model.revision());
    generate::keep_reads(&mut txn);
    let expected = model
        .clone()
        .txn(&txn)
        .map_or_else(QueryAnswer::Refused, QueryAnswer::Txn);
    let got = store.query(&Query::Txn(txn.clone()));
    assert_eq!(got, expected, "seed {seed}: {txn:?}");
}

/// Begins, renews or ends a lease, in one way or another.
fn lease(seed: u64, random: &mut Generator, store: &mut Shelved, model: &mut Model) {
    let id = random.lease();
    let result = |store: &mut Shelved, body: Bytes| store.apply(&body).map(|_| ());
    match random.rng.u8(..8) {
        0..=4 => {
            let request = LeaseGrantRequest { id, ttl: 9 };
            let got = result(store, command::encode_lease_grant(&request));
            assert_eq!(got, model.grant(id), "seed {seed}");
        }
        5 => {
            let request = LeaseRevokeRequest { id };
            let got = result(store, command::encode_lease_revoke(&request));
            assert_eq!(got, model.revoke(id), "seed {seed}");
        }
        6 => {
            let request = LeaseKeepAliveRequest { id };
            let got = result(store, command::encode_lease_renew(&request));
            assert_eq!(got, Ok(()));
            if model.leases.contains_key(&id) {
                model.renew(id);
            }
        }
        _ => {
            // Some countdowns began before the last renewal.
            let renewal = model.leases.get(&id).copied().unwrap_or(1) - random.rng.u64(..2);
            let got = result(store, command::encode_expiry(&LeaseExpiry { id, renewal }));
            assert_eq!(got, Ok(()));
            if model.leases.get(&id) == Some(&renewal) {
                assert_eq!(model.revoke(id), Ok(()));
            }
        }
    }
    let QueryAnswer::Lease(found) = store.query(&Query::Lease { id, keys: true }) else {
        panic!("not the answer about a lease");
    };
    let expected = model.leases.contains_key(&id).then_some(9);
    assert_eq!(
        (found.ttl_s, found.keys),
        (expected, model.leased(id)),
        "seed {seed}"
    );
}

/// What a watcher of a range sees from a random revision on.
fn watch(seed: u64, random: &mut Generator, store: &mut Shelved, model: &Model) {
    let request = random.range(model.revision());
    let (key, range_end) = (request.key, request.range_end);
    let from = random.rng.i64(0..=model.revision() + 2);
    let expected = model.events(&key, &range_end, from);
    let keys = Keys::Span { key, range_end };
    let query = Query::Events(EventsQuery { keys, from });
    let got = match store.query(&query) {
        QueryAnswer::Events(mut found) => {
            assert_eq!(found.next, from.max(model.revision() + 1));
            without_net_nothing(&mut found.events);
            Ok(found.events)
        }
        QueryAnswer::Refused(refused) => Err(refused),
        other => panic!("not the answer to a watch: {other:?}"),
    };
    assert_eq!(got, expected, "seed {seed}: {query:?}");
}

/// The model knows states, not changes: keys in order, and of a key that a transaction wrote and
/// then deleted only what it came to.
fn without_net_nothing(events: &mut Vec<Event>) {
    let name = |event: &Event| {
        let kv = event.kv.as_ref().expect("every event has one");
        (kv.mod_revision, kv.key.clone())
    };
    events.sort_by_key(name);
    let mut left: Vec<Event> = Vec::new();
    for event in std::mem::take(events) {
        if left.last().map(name) != Some(name(&event)) {
            left.push(event);
            continue;
        }
        let put = left.pop().expect("there is a last");
        if put.prev_kv.is_some() {
            let prev_kv = put.prev_kv;
            left.push(Event { prev_kv, ..event });
        }
    }
    *events = left;
}

/// Random commands, with values of at least so many bytes kept as payloads; says how many payloads died,
/// and how many conditions had to be decided by those who asked.
fn compare(seeds: u64, bytes_min: Option<usize>, slices_of: usize) -> (usize, u64) {
    let (mut died, mut decided) = (0, 0);
    for seed in 0..seeds {
        let mut random = Generator::new(seed);
        let (mut store, mut model) = (Shelved::new(bytes_min, slices_of), Model::new());
        let mut twin = Shelved::new(bytes_min, slices_of);
        for _ in 0..150 {
            step(seed, &mut random, &mut store, &mut model);
            for _ in 0..3 {
                read(seed, &mut random, &mut store, &model);
                watch(seed, &mut random, &mut store, &model);
            }
        }
        assert!(model.revision() > 30, "most commands were refused");
        // The twin gets the keys' history by another road: only what changed something, and it
        // frees everything that was compacted at once.
        model.replay(|body| {
            let _ = twin.apply(&body);
            while twin.tidy() {}
        });
        assert!(twin.store.status().tidy);
        for revision in 0..=model.revision() {
            assert_eq!(
                store.store.hash(revision),
                twin.store.hash(revision),
                "seed {seed}"
            );
        }
        died += store.died;
        decided += store.decided;
    }
    (died, decided)
}

#[test]
fn the_store_answers_as_the_model_does() {
    assert_eq!(compare(150, None, usize::MAX), (0, 0));
}

#[test]
fn so_it_does_with_its_values_kept_apart() {
    for (bytes_min, slices_of) in [(1, usize::MAX), (1, 2), (2, 3)] {
        let (died, decided) = compare(75, Some(bytes_min), slices_of);
        assert!(
            died > 1000 && decided > 20,
            "{died} died, {decided} decided"
        );
    }
}

#[test]
fn any_bytes_give_a_result() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut random = Generator::new(7);
    let mut store = Store::new();
    for _ in 0..200_000 {
        let mut body = match rng.u8(..3) {
            0 => command::encode_put(&random.put()).to_vec(),
            1 => command::encode_txn(&random.txn(2, 1)).to_vec(),
            _ => (0..rng.usize(..20)).map(|_| rng.u8(..)).collect(),
        };
        for _ in 0..rng.usize(..3) {
            if let Some(byte) = rng.choice(&mut body) {
                *byte = rng.u8(..);
            }
        }
        body.truncate(rng.usize(..=body.len()));
        let result = store.apply(At::default(), &Bytes::from(body), &[]);
        assert!(matches!(result[0], 0x10 | 0x1f));
    }
}
