//! Large reads in slices, with commands between them, against the same reads in one go.

#[path = "differential/generate.rs"]
#[allow(dead_code)] // the differential test uses the rest
mod generate;

use bytes::Bytes;
use generate::Generator;
use quorate_core::{Application, At};
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, PutRequest, RangeRequest, RangeResponse, ResponseHeader,
};
use quorate_etcd_store::{Query, QueryAnswer, RangeCursor, Refused, Store, command};

fn random_command(random: &mut Generator, store: &Store) -> Bytes {
    let revision = store.revision();
    match random.rng.u8(..10) {
        0..=5 => command::encode_put(&random.put()),
        6 => command::encode_delete_range(&random.delete()),
        7 => command::encode_compact(&random.compaction(revision, store.status().compacted)),
        _ => command::encode_txn(&random.txn(1, revision)),
    }
}

/// Reads on until the answer is whole; `between` happens between slices. Says how many slices it
/// took.
fn read(
    store: &mut Store,
    query: &Query,
    mut between: impl FnMut(&mut Store),
) -> (QueryAnswer, u32) {
    let mut slices = 1;
    let mut answer = store.query(query);
    loop {
        answer = match answer {
            QueryAnswer::Large(mut read) => {
                while let Some(query) = read.next() {
                    between(store);
                    slices += 1;
                    match store.query(&query) {
                        QueryAnswer::RangePart(part) => read.add(part),
                        other => return (other, slices),
                    }
                }
                read.finish()
            }
            QueryAnswer::HashRest(rest) => {
                between(store);
                slices += 1;
                store.query(&Query::HashRest(rest))
            }
            whole => return (whole, slices),
        };
    }
}

fn random_query(random: &mut Generator, revision: i64) -> Query {
    match random.rng.u8(..4) {
        0 => Query::HashKv {
            revision: random.rng.i64(0..=revision),
        },
        1 => {
            let mut txn = random.txn(2, revision);
            generate::keep_reads(&mut txn);
            Query::Txn(txn)
        }
        _ => Query::Range(random.range(revision)),
    }
}

#[test]
fn in_slices_a_read_gives_what_it_gives_in_one_go() {
    let mut sliced = 0;
    for seed in 0..200 {
        let mut random = Generator::new(seed);
        let keys = random.rng.usize(1..8);
        let mut store = Store::new().with_slices_of(keys);
        let mut whole = Store::new();
        for _ in 0..random.rng.usize(..150) {
            let body = random_command(&mut random, &store);
            assert_eq!(
                store.apply(At::default(), &body, &[]),
                whole.apply(At::default(), &body, &[])
            );
        }
        for _ in 0..20 {
            let query = random_query(&mut random, store.revision());
            let (expected, slices) = read(&mut whole, &query, |_| unreachable!("it is small"));
            assert_eq!(slices, 1);
            let mut commands = Vec::new();
            let (found, slices) = read(&mut store, &query, |store| {
                let body = random_command(&mut random, store);
                store.apply(At::default(), &body, &[]);
                while store.tidy() {}
                commands.push(body);
            });
            assert_eq!(found, expected, "seed {seed}: {query:?}");
            sliced += u32::from(slices > 1);
            for body in commands {
                whole.apply(At::default(), &body, &[]);
            }
        }
        // Nothing stays pinned.
        for store in [&mut store, &mut whole] {
            put(store, b"last");
            compact(store);
        }
        assert_eq!(store.status(), whole.status(), "seed {seed}");
    }
    assert!(sliced > 500, "only {sliced} reads took more than one slice");
}

/// A range as it is asked for in chunks: neither sorted nor filtered.
fn plain_range(random: &mut Generator, revision: i64) -> RangeRequest {
    let drawn = random.range(revision);
    RangeRequest {
        key: drawn.key,
        range_end: drawn.range_end,
        limit: drawn.limit,
        revision: drawn.revision,
        keys_only: drawn.keys_only,
        count_only: drawn.count_only,
        ..RangeRequest::default()
    }
}

/// Reads a range chunk by chunk; `between` happens between chunks.
fn read_in_chunks(
    store: &mut Store,
    request: &RangeRequest,
    random: &mut Generator,
    mut between: impl FnMut(&mut Generator, &mut Store),
) -> QueryAnswer {
    let mut cursor = RangeCursor::new(request.clone(), random.rng.usize(1..9));
    let mut kvs = Vec::new();
    loop {
        let query = Query::RangeChunk(Box::new(cursor.clone()));
        match store.query(&query) {
            QueryAnswer::RangeChunk(chunk) => kvs.extend(cursor.take(chunk)),
            other => return other,
        }
        if cursor.has_ended() {
            break;
        }
        cursor.set_keys_max(random.rng.usize(1..9));
        between(random, store);
    }
    let (revision, summary) = cursor.summary();
    QueryAnswer::Range(RangeResponse {
        header: Some(ResponseHeader {
            revision,
            ..ResponseHeader::default()
        }),
        kvs,
        ..summary
    })
}

#[test]
fn in_chunks_a_range_gives_what_it_gives_in_one_go() {
    let (mut compared, mut compacted) = (0, 0);
    for seed in 0..200 {
        let mut random = Generator::new(seed);
        let mut store = Store::new().with_slices_of(random.rng.usize(1..8));
        for _ in 0..random.rng.usize(..150) {
            let body = random_command(&mut random, &store);
            store.apply(At::default(), &body, &[]);
        }
        for _ in 0..20 {
            let request = plain_range(&mut random, store.revision());
            let (expected, _) = read(&mut store, &Query::Range(request.clone()), |_| {});
            let found = read_in_chunks(&mut store, &request, &mut random, |random, store| {
                let body = random_command(random, store);
                store.apply(At::default(), &body, &[]);
                while store.tidy() {}
            });
            match (found, expected) {
                // Nothing is kept for who reads on.
                (QueryAnswer::Refused(Refused::Compacted), QueryAnswer::Range(_)) => compacted += 1,
                (found, expected) => {
                    assert_eq!(found, expected, "seed {seed}: {request:?}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 2000 && compacted > 10, "{compared}, {compacted}");
}

fn all_keys() -> Query {
    Query::Range(RangeRequest {
        key: Bytes::from_static(b"\0"),
        range_end: Bytes::from_static(b"\0"),
        ..RangeRequest::default()
    })
}

fn put(store: &mut Store, key: &'static [u8]) {
    let request = PutRequest {
        key: Bytes::from_static(key),
        ..PutRequest::default()
    };
    store.apply(At::default(), &command::encode_put(&request), &[]);
}

fn compact(store: &mut Store) {
    let request = CompactionRequest {
        revision: store.revision(),
        physical: false,
    };
    store.apply(At::default(), &command::encode_compact(&request), &[]);
    while store.tidy() {}
}

#[test]
fn a_read_that_is_given_up_keeps_nothing() {
    let mut store = Store::new().with_slices_of(1);
    for key in [b"a", b"b", b"a"] {
        put(&mut store, key);
    }
    let QueryAnswer::Large(read) = store.query(&all_keys()) else {
        panic!("it took one slice");
    };
    put(&mut store, b"a");
    compact(&mut store);
    assert!(store.tidy() || store.status().tidy);
    let kept = store.status().bytes;
    drop(read);
    while store.tidy() {}
    assert!(store.status().bytes < kept);
}

/// Scenario: a snapshot takes the place of the store while a large read is under way.
#[test]
fn a_read_goes_on_in_a_loaded_store_unless_its_revision_is_compacted_there() {
    for compacted in [false, true] {
        let mut store = Store::new().with_slices_of(1);
        for key in [b"a", b"b", b"c"] {
            put(&mut store, key);
        }
        let (expected, _) = read(&mut store, &all_keys(), |_| {});
        let (found, _) = read(&mut store, &all_keys(), |store| {
            put(store, b"b");
            if compacted {
                compact(store);
            }
            let mut cut = store.cut();
            let mut loaded = store.empty();
            while let Some(piece) = store.piece(&mut cut, 100) {
                loaded.load(piece).expect("it was just cut");
            }
            loaded.loaded().expect("it was just cut");
            *store = loaded;
        });
        if compacted {
            assert_eq!(found, QueryAnswer::Refused(Refused::Compacted));
        } else {
            assert_eq!(found, expected);
        }
    }
}
