//! What clients of plain HTTP send, from hostile bytes: requests in JSON, and frames of WebSockets.

use bytes::Bytes;
use quorate_etcd_json::{CALLS, Call, ValueEnds, decode, encode};
use quorate_face_common::websocket::{Incoming, Reader};
use quorate_fuzz::{Fuzz, Limits};
use quorate_server::Budget;

fn fuzz(name: &str) -> Fuzz {
    Fuzz::new(env!("CARGO_MANIFEST_DIR"), name)
}

/// A request, and its message.
#[derive(Debug)]
struct Read {
    call: &'static Call,
    message: Vec<u8>,
}

/// Decodes what comes after a byte for the call.
fn read(input: Bytes) -> Result<Read, String> {
    let (kind, json) = input.split_first().ok_or("empty")?;
    let call = CALLS.get(usize::from(*kind)).ok_or("no such call")?;
    let mut message = Vec::new();
    decode(json, call.request, &mut message).map_err(|why| why.to_string())?;
    Ok(Read { call, message })
}

fn seeds() -> Vec<Vec<u8>> {
    let range = r#"{"key":"Zm9v","rangeEnd":"_-8","limit":"5","sort_order":2,"keysOnly":true}"#;
    let txn = r#"{"compare":[{"result":"LESS","target":"MOD","key":"YQ==","mod_revision":"9"}],
        "success":[{"request_put":{"key":"YQ==","value":"\u0059Q==","lease":-1}},{}],
        "failure":[{"requestTxn":{"success":[{"request_range":{"key":""}}]}}]}"#;
    let watch = r#"{"create_request":{"key":"YQ==","filters":["NOPUT",1],"watch_id":7.0}}"#;
    let members =
        r#"{"peerURLs":["http://a:1","\ud83d\ude00\\\n"],"isLearner":true,"x":{"y":[1e9]}}"#;
    let bomb = r#"{"success":[{"request_txn":"#.repeat(60);
    let unknown = format!(r#"{{"x":{}"#, "[{\"y\":".repeat(60));
    let texts = [
        ("kv/range", range),
        ("kv/txn", txn),
        ("watch", watch),
        ("cluster/member/add", members),
        ("kv/txn", &bomb),
        ("kv/put", &unknown),
    ];
    let index = |path: &str| CALLS.iter().position(|call| call.path == path);
    let seed = |(path, text): (&str, &str)| {
        let kind = u8::try_from(index(path).expect("a call")).expect("there are few");
        [&[kind], text.as_bytes()].concat()
    };
    texts.into_iter().map(seed).collect()
}

#[test]
fn requests_in_json_bear_any_bytes_and_mean_the_same_when_written() {
    let fuzz = fuzz("json").seeds(seeds());
    fuzz.run(read, |_, read| {
        let mut json = String::new();
        let kind = read.call.request;
        encode(&read.message, kind, &mut json).expect("it was made by the table");
        let mut again = Vec::new();
        decode(json.as_bytes(), kind, &mut again).expect("it was written by the table");
        let mut twice = String::new();
        encode(&again, kind, &mut twice).expect("it was made by the table");
        assert_eq!(json, twice);
    });
}

#[test]
fn values_end_where_they_end_however_they_are_cut() {
    let ends = |input: &[u8], piece_bytes: usize| {
        let mut ends = ValueEnds::default();
        let mut all = Vec::new();
        let mut at = 0;
        for mut piece in input.chunks(piece_bytes) {
            while let Some(end) = ends.next(piece) {
                at += end;
                all.push(at);
                piece = &piece[end..];
            }
            at += piece.len();
        }
        (all, ends)
    };
    fuzz("values").seeds(seeds()).run(
        |input: Bytes| Ok::<_, String>(ends(&input, usize::MAX)),
        |input, whole| assert_eq!(&ends(input, 3), whole),
    );
}

/// What was read over a WebSocket.
#[derive(Debug, PartialEq, Eq)]
struct Frames {
    messages: usize,
    bytes: usize,
}

#[test]
fn frames_bear_any_bytes_and_give_back_what_they_took() {
    const MESSAGE_BYTES_MAX: usize = 1 << 16;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let mask = [1, 2, 3, 4];
    let frame =
        |flags: u8, length: &[u8], content: &[u8]| [&[flags], length, &mask, content].concat();
    let seeds = [
        frame(0x81, &[0x82], b"{}"),
        [
            frame(0x01, &[0x81], b"{"),
            frame(0x89, &[0x80], b""),
            frame(0x80, &[0x81], b"}"),
        ]
        .concat(),
        frame(0x82, &[0xfe, 0, 130], &[7; 130]),
        frame(0x82, &[0xff, 0, 0, 0, 0, 0, 0, 0, 9], &[7; 9]),
        frame(0x88, &[0x82], &[3, 0xe8]),
    ];
    let read = |input: Bytes| {
        let budget = Budget::new(1 << 20);
        let mut reader = Reader::new(&input[..], MESSAGE_BYTES_MAX, budget.account().charge());
        let mut frames = Frames {
            messages: 0,
            bytes: 0,
        };
        let end = runtime.block_on(async {
            loop {
                match reader.next().await {
                    Incoming::Message(content) | Incoming::Ping(content) => {
                        frames.messages += 1;
                        frames.bytes += content.len();
                    }
                    Incoming::End(reason) => return format!("{reason:?}"),
                    Incoming::Failed(error) => return error.to_string(),
                }
            }
        });
        drop(reader);
        assert_eq!(budget.used(), 0);
        match frames.messages {
            0 => Err(end),
            _ => Ok(frames),
        }
    };
    let limits = Limits {
        // A frame may announce more than comes, and gets room for a piece of it.
        base_bytes: 256 << 10,
        ..Limits::default()
    };
    fuzz("websocket")
        .seeds(seeds)
        .limits(limits)
        .run(read, |input, frames| {
            assert!(frames.bytes <= input.len());
        });
}
