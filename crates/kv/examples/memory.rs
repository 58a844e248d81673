//! Memory and time of a million keys: `cargo run --release -p quorate-kv --example memory`

#![allow(clippy::disallowed_methods)] // a stopwatch

use bytes::Bytes;
use quorate_core::{Application, At, Principal, Slot};
use quorate_etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use quorate_kv::{Query, Store};
use std::time::Instant;

const KEYS: u32 = 1_000_000;

fn main() {
    let at = At {
        slot: Slot(0),
        index: 0,
        stamp_ns: 0,
        principal: Principal(0),
    };
    let key = |n: u32| Bytes::from(format!("{:0>100}", n.wrapping_mul(0x9e37_79b1)));
    for value_bytes in [0, 16, 100] {
        let mut store = Store::new();
        let before = resident_bytes();
        let begin = Instant::now();
        for n in 0..KEYS {
            let request = PutRequest {
                key: key(n),
                value: Bytes::from(vec![b'v'; value_bytes]),
                ..PutRequest::default()
            };
            store.apply(at, &Store::encode_put(&request));
        }
        let put_ns = begin.elapsed().as_nanos() / u128::from(KEYS);
        let grown = resident_bytes() - before;
        let begin = Instant::now();
        for n in 0..KEYS {
            let query = Query::Range(RangeRequest {
                key: key(n),
                ..RangeRequest::default()
            });
            std::hint::black_box(store.query(&query));
        }
        let get_ns = begin.elapsed().as_nanos() / u128::from(KEYS);
        let begin = Instant::now();
        std::hint::black_box(store.hash(0)).expect("now can be hashed");
        println!(
            "100-byte keys, {value_bytes}-byte values: {} MB resident, {} MB estimated, \
             put {put_ns} ns, get {get_ns} ns, hash {} ms",
            grown / 1_000_000,
            store.status().bytes / 1_000_000,
            begin.elapsed().as_millis(),
        );
    }
}

fn resident_bytes() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|field| field.parse().ok());
    pages.unwrap_or(0) * 4096
}
