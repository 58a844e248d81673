//! Memory and time of a million 100-byte keys; the argument is the size of the values:
//! `cargo run --release -p quorate-kv --example memory -- 16`

#![allow(clippy::disallowed_methods)] // a stopwatch

use bytes::Bytes;
use quorate_core::{Application, At, Principal, Slot};
use quorate_etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use quorate_kv::{Query, Store};
use std::time::Instant;

const KEYS: u32 = 1_000_000;

fn main() {
    let argument = std::env::args().nth(1);
    let value_bytes = argument.map_or(16, |size| size.parse().expect("a number of bytes"));
    let before = resident_bytes();
    let mut store = Store::new();
    let put_ns = stopwatch_ns(|n| put(&mut store, n, value_bytes));
    let grown = resident_bytes() - before;
    let get_ns = stopwatch_ns(|n| get(&store, n));
    let begin = Instant::now();
    std::hint::black_box(store.hash(0)).expect("now can be hashed");
    println!(
        "{value_bytes}-byte values: {} MB resident, {} MB estimated, put {put_ns} ns, \
         get {get_ns} ns, digest {} ms",
        grown / 1_000_000,
        store.status().bytes / 1_000_000,
        begin.elapsed().as_millis(),
    );
}

/// Mean time of a step over all keys.
fn stopwatch_ns(step: impl FnMut(u32)) -> u128 {
    let begin = Instant::now();
    (0..KEYS).for_each(step);
    begin.elapsed().as_nanos() / u128::from(KEYS)
}

fn put(store: &mut Store, n: u32, value_bytes: usize) {
    let at = At {
        slot: Slot(u64::from(n)),
        index: 0,
        stamp_ns: 0,
        principal: Principal(0),
    };
    let request = PutRequest {
        key: key(n),
        value: Bytes::from(vec![b'v'; value_bytes]),
        ..PutRequest::default()
    };
    store.apply(at, &Store::encode_put(&request));
}

fn get(store: &Store, n: u32) {
    let request = RangeRequest {
        key: key(n),
        ..RangeRequest::default()
    };
    std::hint::black_box(store.query(&Query::Range(request)));
}

/// Keys in an order that is not theirs.
fn key(n: u32) -> Bytes {
    Bytes::from(format!("{:0<100}", n.wrapping_mul(0x9e37_79b1)))
}

fn resident_bytes() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|field| field.parse().ok());
    pages.unwrap_or(0) * 4096
}
