//! Memory and time of a million keys, and of a snapshot of them; the arguments are the sizes of keys
//! and values in bytes:
//! `cargo run --release -p quorate-etcd-store --example memory -- 100 16`

#![allow(clippy::disallowed_methods)] // a stopwatch

use bytes::Bytes;
use quorate_core::{Application, At};
use quorate_etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use quorate_etcd_store::{Query, Store};
use std::time::{Duration, Instant};

const KEYS: u32 = 1_000_000;
const PIECE_BYTES: usize = 64 << 10;

fn main() {
    let size = |n, otherwise| {
        let argument = std::env::args().nth(n);
        argument.map_or(otherwise, |size| size.parse().expect("a number of bytes"))
    };
    let (key_bytes, value_bytes) = (size(1, 100), size(2, 16));
    let before = resident_bytes();
    let mut store = Store::new();
    let put_ns = stopwatch_ns(|n| put(&mut store, key(n, key_bytes), value_bytes));
    let grown = resident_bytes() - before;
    let get_ns = stopwatch_ns(|n| get(&store, key(n, key_bytes)));
    let grown_by_reads = resident_bytes() - before - grown;
    let begin = Instant::now();
    std::hint::black_box(store.hash(0)).expect("now can be hashed");
    println!(
        "{key_bytes}-byte keys, {value_bytes}-byte values: {} MB resident, {} MB estimated, {} MB \
         more once read; put {put_ns} ns, get {get_ns} ns, digest {} ms",
        grown / 1_000_000,
        store.status().bytes / 1_000_000,
        grown_by_reads / 1_000_000,
        begin.elapsed().as_millis(),
    );
    snapshot(store);
}

/// Cuts the store, and loads what was cut in its place.
fn snapshot(mut store: Store) {
    let (mut pieces, mut longest) = (Vec::new(), Duration::ZERO);
    let begin = Instant::now();
    let mut cut = store.cut();
    loop {
        let begin = Instant::now();
        let piece = store.piece(&mut cut, PIECE_BYTES);
        longest = longest.max(begin.elapsed());
        match piece {
            Some(piece) => pieces.push(piece),
            None => break,
        }
    }
    let bytes: usize = pieces.iter().map(Bytes::len).sum();
    println!(
        "cut: {} ms, {} pieces, longest {} us, {} MB",
        begin.elapsed().as_millis(),
        pieces.len(),
        longest.as_micros(),
        bytes / 1_000_000,
    );
    let mut loaded = store.empty();
    let expected = store.hash(0);
    drop(store);
    let before = resident_bytes();
    let begin = Instant::now();
    for piece in pieces {
        loaded.load(piece).expect("it was just cut");
    }
    loaded.loaded().expect("it was just cut");
    println!(
        "load: {} ms, {} MB less resident than the pieces were",
        begin.elapsed().as_millis(),
        (before - resident_bytes()) / 1_000_000,
    );
    assert_eq!(loaded.hash(0), expected);
}

/// Mean time of a step over all keys.
fn stopwatch_ns(step: impl FnMut(u32)) -> u128 {
    let begin = Instant::now();
    (0..KEYS).for_each(step);
    begin.elapsed().as_nanos() / u128::from(KEYS)
}

fn put(store: &mut Store, key: Bytes, value_bytes: usize) {
    let request = PutRequest {
        key,
        value: Bytes::from(vec![b'v'; value_bytes]),
        ..PutRequest::default()
    };
    store.apply(At::default(), &Store::encode_put(&request), &[]);
}

fn get(store: &Store, key: Bytes) {
    let request = RangeRequest {
        key,
        ..RangeRequest::default()
    };
    std::hint::black_box(store.query(&Query::Range(request)));
}

/// Keys in an order that is not theirs.
fn key(n: u32, bytes: usize) -> Bytes {
    Bytes::from(format!("{:0<bytes$}", n.wrapping_mul(0x9e37_79b1)))
}

fn resident_bytes() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|field| field.parse().ok());
    pages.unwrap_or(0) * 4096
}
