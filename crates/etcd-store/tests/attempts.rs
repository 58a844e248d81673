//! Commands applied ahead of their decision: what is taken back leaves nothing behind.

use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{Application, At};
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
    request_op::Request,
};
use quorate_etcd_store::{Query, Store};

fn put(rng: &mut Rng) -> PutRequest {
    PutRequest {
        key: Bytes::from(format!("k{}", rng.u8(0..6))),
        value: Bytes::from(vec![rng.u8(..); rng.usize(0..40)]),
        prev_kv: rng.bool(),
        ..PutRequest::default()
    }
}

fn delete(rng: &mut Rng) -> DeleteRangeRequest {
    let range_end = if rng.bool() {
        Bytes::new()
    } else {
        Bytes::from_static(b"k4")
    };
    DeleteRangeRequest {
        key: Bytes::from(format!("k{}", rng.u8(0..6))),
        range_end,
        prev_kv: true,
    }
}

/// Puts, deletions, and transactions that change several keys.
fn command(rng: &mut Rng) -> Bytes {
    match rng.u8(0..4) {
        0 => Store::encode_delete_range(&delete(rng)),
        1 => {
            let op = |request| RequestOp {
                request: Some(request),
            };
            let first = PutRequest {
                key: Bytes::from_static(b"first"),
                ..put(rng)
            };
            let success = vec![
                op(Request::RequestPut(first)),
                op(Request::RequestPut(put(rng))),
            ];
            let txn = TxnRequest {
                success,
                ..TxnRequest::default()
            };
            Store::encode_txn(&txn)
        }
        _ => Store::encode_put(&put(rng)),
    }
}

/// Everything that can be seen of a store.
fn seen(store: &Store) -> String {
    let all = RangeRequest {
        key: Bytes::from_static(b"\0"),
        range_end: Bytes::from_static(b"\0"),
        ..RangeRequest::default()
    };
    let range = store.query(&Query::Range(all));
    let mut status = store.status();
    // Blocks of the journal are not given back to the byte.
    status.bytes = 0;
    format!("{status:?} {:?} {range:?}", store.hash(0))
}

fn bytes(store: &Store) -> u64 {
    store.status().bytes
}

#[test]
fn what_is_taken_back_leaves_nothing_behind() {
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let (mut store, mut plain) = (Store::new(), Store::new());
        for _ in 0..40 {
            // Every command frees a little of what was compacted.
            while store.tidy() || plain.tidy() {}
            let before = (seen(&store), bytes(&store));
            let ahead: Vec<Bytes> = (0..rng.usize(0..5)).map(|_| command(&mut rng)).collect();
            for body in &ahead {
                assert!(store.is_retractable(body));
                store.attempt(At::default(), body);
            }
            ahead.iter().for_each(|_| store.retract());
            assert_eq!((seen(&store), bytes(&store)), before, "seed {seed}");
            // Some of what is attempted is decided.
            let decided = command(&mut rng);
            let result = store.attempt(At::default(), &decided);
            let also = command(&mut rng);
            store.attempt(At::default(), &also);
            store.keep();
            store.retract();
            assert_eq!(result, plain.apply(At::default(), &decided, &[]));
            assert_eq!(seen(&store), seen(&plain), "seed {seed}");
            if rng.u8(0..10) == 0 && plain.revision() > 2 {
                let revision = rng.i64(1..plain.revision());
                let request = CompactionRequest {
                    revision,
                    ..CompactionRequest::default()
                };
                let compact = Store::encode_compact(&request);
                assert!(!store.is_retractable(&compact), "it is never ahead");
                store.apply(At::default(), &compact, &[]);
                plain.apply(At::default(), &compact, &[]);
            }
        }
    }
}
