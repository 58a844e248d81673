//! GB of payload per second on one core: encoding, decoding with one data fragment lost, and
//! copying the same bytes.
//!
//! ```text
//! cargo bench -p quorate-erasure
//! ```

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use bytes::Bytes;
use quorate_erasure::{Codec, ReedSolomon};
use std::hint::black_box;
use std::time::{Duration, Instant};

const LEN: usize = 1 << 20;
const TIME: Duration = Duration::from_millis(300);

/// Repeats for a while; GB of payload per second.
fn rate(mut work: impl FnMut()) -> f64 {
    work();
    let start = Instant::now();
    let mut rounds = 0;
    while start.elapsed() < TIME {
        work();
        rounds += 1;
    }
    (rounds * LEN) as f64 / start.elapsed().as_nanos() as f64
}

fn main() {
    let payload: Bytes = (0..LEN).map(|byte| (byte * 31) as u8).collect();
    println!("1 MiB payloads, GB/s on one core");
    println!(
        "{:>6} {:>8} {:>8} {:>8}",
        "n, k", "encode", "decode", "memcpy"
    );
    for (n, k) in [
        (3, 2),
        (4, 2),
        (4, 3),
        (5, 3),
        (5, 4),
        (7, 3),
        (7, 4),
        (7, 5),
        (9, 5),
        (9, 7),
    ] {
        let codec = ReedSolomon::new(k, n).expect("a code");
        let encode = rate(|| drop(black_box(codec.encode(&payload, n))));
        let fragments = codec.encode(&payload, n).expect("a code");
        let some: Vec<_> = (1..=k)
            .map(|index| (index, fragments[index].clone()))
            .collect();
        let decode = rate(|| drop(black_box(codec.decode(&some, LEN))));
        // Beside each, for the machine may be faster or slower from one row to the next.
        let copy = rate(|| drop(black_box(payload.to_vec())));
        println!("{n:>3}, {k} {encode:>8.1} {decode:>8.1} {copy:>8.1}");
    }
}
