//! Tests of requests: how they may be cut, what is refused, and what a slow sender costs.

use super::*;

/// All requests in a text, or why one is none.
fn all(limits: Limits, text: &[u8]) -> (Vec<Vec<Bytes>>, Option<String>) {
    let (mut parser, mut input) = (RequestParser::new(limits), BytesMut::from(text));
    let mut requests = Vec::new();
    loop {
        match parser.next(&mut input) {
            Ok(Some(request)) => requests.push(request),
            Ok(None) => return (requests, None),
            Err(why) => return (requests, Some(why.to_string())),
        }
    }
}

fn refused(text: &[u8]) -> String {
    all(Limits::default(), text).1.expect("it is refused")
}

fn words(words: &[&'static str]) -> Vec<Bytes> {
    words.iter().map(|word| Bytes::from(*word)).collect()
}

#[test]
fn requests_come_one_after_the_other_in_both_forms() {
    let text =
        b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nset b \"1 2\"\r\n\r\n*0\r\n*-1\r\nping\n*1\r\n$0\r\n\r\n";
    let (requests, why) = all(Limits::default(), text);
    let expected = [&["GET", "a"][..], &["set", "b", "1 2"], &["ping"], &[""]].map(words);
    assert_eq!((&requests[..], why), (&expected[..], None));
}

/// Scenario: bytes arrive in parts of any length; each request is there with its last byte, and not before.
#[test]
fn it_does_not_matter_how_the_bytes_arrive() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..500 {
        let mut sent = Vec::new();
        let mut text = Vec::new();
        for _ in 0..rng.usize(1..6) {
            let count = rng.usize(1..6);
            let argument = |_| {
                let length = rng.usize(0..40);
                Bytes::from_iter((0..length).map(|_| rng.u8(..)))
            };
            let request: Vec<Bytes> = (0..count).map(argument).collect();
            encode_request(&request, &mut text);
            sent.push(request);
        }
        let (mut parser, mut input) = (RequestParser::new(Limits::default()), BytesMut::new());
        let mut got = Vec::new();
        let mut rest = &text[..];
        while !rest.is_empty() {
            let (part, others) = rest.split_at(rng.usize(1..=rest.len().min(30)));
            rest = others;
            let missing = parser.missing_bytes(input.len());
            input.extend_from_slice(part);
            let before = got.len();
            while let Some(request) = parser.next(&mut input).expect("it is well-formed") {
                got.push(request);
            }
            assert!(got.len() == before || part.len() >= missing);
        }
        assert_eq!(got, sent);
    }
}

#[test]
fn what_breaks_the_protocol_is_told_in_the_words_of_redis() {
    for (text, why) in [
        (&b"*a\r\n"[..], "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"* 1\r\n", "invalid multibulk length"),
        (b"*1\r\n:5\r\n", "expected '$', got ':'"),
        (b"*1\r\nx", "expected '$', got 'x'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
        (b"set a \"b\r\n", "unbalanced quotes in request"),
    ] {
        assert_eq!(refused(text), format!("Protocol error: {why}"));
    }
    let endless = |begin: &str| {
        let mut text = begin.as_bytes().to_vec();
        text.resize(text.len() + LINE_BYTES_MAX + 1, b'1');
        refused(&text)
    };
    for (begin, why) in [
        ("*1", "too big mbulk count string"),
        ("*1\r\n$1", "too big bulk count string"),
        ("set a", "too big inline request"),
    ] {
        assert_eq!(endless(begin), format!("Protocol error: {why}"));
    }
}

#[test]
fn a_request_is_bounded_as_a_whole() {
    let limits = Limits {
        request_bytes_max: 100,
        ..Limits::default()
    };
    let mut text = Vec::new();
    encode_request(&["set", &"a".repeat(60)], &mut text);
    assert_eq!(all(limits, &text).0.len(), 1);
    text.clear();
    encode_request(&["set", &"a".repeat(60), &"b".repeat(60)], &mut text);
    let why = "Protocol error: request is larger than this server takes";
    assert_eq!(all(limits, &text), (vec![], Some(why.to_owned())));
}

#[test]
fn strangers_are_taken_little_of() {
    for (text, why) in [
        (&b"*11\r\n"[..], "unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
    ] {
        let mut parser = RequestParser::new(Limits::default());
        assert_eq!(parser.next(&mut BytesMut::from(text)), Ok(None));
        let mut parser = RequestParser::new(Limits::default());
        parser.set_stranger(true);
        let refused = parser.next(&mut BytesMut::from(text)).unwrap_err();
        assert_eq!(refused.to_string(), format!("Protocol error: {why}"));
    }
}

#[test]
fn arguments_share_the_bytes_that_arrived() {
    let mut text = Vec::new();
    encode_request(&[&b"set"[..], &[7; 1000]], &mut text);
    let mut input = BytesMut::from(&text[..]);
    let place = input.as_ptr() as usize;
    let request = RequestParser::new(Limits::default()).next(&mut input);
    let request = request.expect("it is well-formed").expect("it is complete");
    let value = request[1].as_ptr() as usize;
    assert!((place..place + text.len()).contains(&value));
}
