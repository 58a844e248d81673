//! Requests and replies from hostile bytes.

use crate::error::ProtocolError;
use crate::reply::Reply;
use crate::request::{Limits, RequestParser, encode_request};
use crate::skip::ReplyError;
use bytes::{Bytes, BytesMut};
use quorate_fuzz::{Fuzz, Limits as FuzzLimits};

/// Short arguments and replies take several times their length while they are held one by one.
fn limits() -> FuzzLimits {
    FuzzLimits {
        bytes_per_byte: 100,
        ..FuzzLimits::default()
    }
}

/// All requests in some bytes that arrive in parts of a length.
fn requests(input: &[u8], part_bytes: usize) -> Result<Vec<Vec<Bytes>>, ProtocolError> {
    let (mut parser, mut buffer) = (RequestParser::new(Limits::default()), BytesMut::new());
    let mut requests = Vec::new();
    for part in input.chunks(part_bytes) {
        buffer.extend_from_slice(part);
        while let Some(request) = parser.next(&mut buffer)? {
            requests.push(request);
        }
    }
    Ok(requests)
}

#[test]
fn any_bytes_are_requests_or_refused_however_they_arrive() {
    let mut seed = Vec::new();
    encode_request(&["set", "a", "1"], &mut seed);
    encode_request(&["mget", "", "key"], &mut seed);
    seed.extend_from_slice(b"set 'a b' \"\\x41\"\r\n");
    let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), "request").seeds([seed]);
    let fuzz = fuzz.limits(limits());
    fuzz.run(
        |input| requests(&input, 100),
        |input, whole| {
            let bytewise = requests(input, 1).expect("as before");
            assert_eq!(&bytewise, whole);
        },
    );
}

#[test]
fn any_bytes_are_replies_or_refused() {
    let replies = |input: Bytes| {
        let mut input = BytesMut::from(&input[..]);
        let mut replies = Vec::new();
        while let Some(reply) = Reply::take(&mut input)? {
            replies.push(reply);
        }
        Ok::<_, ReplyError>(replies)
    };
    let seeds = [
        "*2\r\n$1\r\na\r\n:1\r\n",
        "%1\r\n+a\r\n,1.5\r\n~1\r\n#t\r\n",
        "=7\r\ntxt:abc\r\n_\r\n-ERR no\r\n",
    ];
    let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), "reply").seeds(seeds);
    let fuzz = fuzz.limits(limits());
    fuzz.run(replies, |_, _| {});
}
