//! Bodies of commands, mutated.

use super::{Call, Request, Watched};
use crate::users::Asker;
use bytes::Bytes;
use quorate_core::Wire;
use quorate_fuzz::{Fuzz, Limits};
use quorate_resp::Resp;

fn bodies() -> Vec<Request> {
    let call = |words: &[&'static str]| Call {
        args: words
            .iter()
            .map(|word| Bytes::from_static(word.as_bytes()))
            .collect(),
    };
    let watched = Watched {
        db: 3,
        key: Bytes::from_static(b"watched"),
        version: u64::MAX,
    };
    let single = Request {
        calls: vec![call(&["set", "key", "value"])],
        ..Request::default()
    };
    let transaction = Request {
        resp: Resp::Three,
        db: 15,
        watched: vec![watched],
        atomic: true,
        calls: vec![
            call(&["incr", "a"]),
            call(&["hset", "h", "f", ""]),
            call(&["PING"]),
        ],
        asker: None,
    };
    let asker = Asker {
        name: Bytes::from_static(b"alice"),
        since: 7,
    };
    let asked = Request {
        asker: Some(asker),
        ..single.clone()
    };
    vec![Request::default(), single, transaction, asked]
}

#[test]
fn bodies_decode_within_bounds_and_have_one_encoding() {
    let limits = Limits {
        // An argument of one byte becomes a slice of four words.
        bytes_per_byte: 64,
        ..Limits::default()
    };
    let seeds = bodies().into_iter().map(|body| body.to_bytes());
    let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), "body");
    fuzz.seeds(seeds).limits(limits).run_wire::<Request>();
}
