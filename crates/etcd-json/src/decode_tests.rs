//! What is taken from people and programs, and what is not.

use super::tables::{COMPARE, HASH_RESPONSE, TXN_REQUEST, WATCH_CREATE_REQUEST, WATCH_REQUEST};
use super::tables::{MEMBER_ADD_REQUEST, PUT_REQUEST, RANGE_REQUEST};
use super::types::MessageType;
use super::{decode, encode};

/// What a message means: itself, written anew.
fn read(json: &str, kind: &'static MessageType) -> Result<String, String> {
    let mut message = Vec::new();
    decode(json.as_bytes(), kind, &mut message).map_err(|error| error.to_string())?;
    let mut written = String::new();
    encode(&message, kind, &mut written).expect("what was read can be written");
    Ok(written)
}

#[test]
fn several_ways_to_say_it_mean_the_same() {
    let range = r#"{"key":"Zm9v","range_end":"Zm9w","limit":"5","sort_order":"DESCEND"}"#;
    let cases = [
        range,
        r#" { "rangeEnd" : "Zm9w", "key":"Zm9v", "sortOrder":2, "limit":5 } "#,
        r#"{"key":"Zm9v","range_end":"Zm9w","limit":5.0,"sort_order":"DESCEND"}"#,
        r#"{"key":"Zm9v","range_end":"Zm9w","limit":"0.5e1","sort_order":2.0}"#,
        r#"{"key":"Zm\u0039v","range_end":"Zm9w","limit":5e0,"sort_order":2,"revision":null}"#,
        r#"{"key":"Zm9v","range_end":"Zm9w","limit":"5","sort_order":2,"x":[{"y":[1]}],"keys_only":false}"#,
        r#"{"key":"Zm9v","range_end":"Zm9w","limit":"5","sort_order":2,"sort_target":"UNHEARD"}"#,
        r#"{"key":"Zm\n9v","range_end":"Zm9w","limit":"5","sort_order":2,"revision":"0"}"#,
        r#"{"key":"Zm9v","range_end":"Zm9w","limit":"5","sort_order":2} and what follows"#,
    ];
    for json in cases {
        assert_eq!(read(json, &RANGE_REQUEST).as_deref(), Ok(range), "{json}");
    }
    for nothing in [
        "",
        "  \n",
        "{}",
        r#"{"key":""}"#,
        r#"{"key":null,"limit":0}"#,
    ] {
        assert_eq!(
            read(nothing, &RANGE_REQUEST).as_deref(),
            Ok("{}"),
            "{nothing}"
        );
    }
}

#[test]
fn base64_may_have_either_alphabet_and_needs_no_padding() {
    for (sent, kept) in [
        ("+/8=", "+/8="),
        ("-_8=", "+/8="),
        ("-_8", "+/8="),
        ("+/8", "+/8="),
        ("YR==", "YQ=="),
    ] {
        let put = |value| format!(r#"{{"value":"{value}"}}"#);
        assert_eq!(read(&put(sent), &PUT_REQUEST), Ok(put(kept)), "{sent}");
    }
}

#[test]
fn unions_lists_and_empty_messages_are_kept() {
    let cases: [(&str, &MessageType); 6] = [
        (r#"{"target":"VERSION","version":"0"}"#, &COMPARE),
        (r#"{"value":""}"#, &COMPARE),
        (r#"{"progress_request":{}}"#, &WATCH_REQUEST),
        (
            r#"{"filters":["NOPUT","NODELETE",7]}"#,
            &WATCH_CREATE_REQUEST,
        ),
        (r#"{"peerURLs":["a","","\u0001\"\\"]}"#, &MEMBER_ADD_REQUEST),
        (r#"{"success":[{},{"request_txn":{}}]}"#, &TXN_REQUEST),
    ];
    for (json, kind) in cases {
        let expected = json.replace(r#""target":"VERSION","#, "");
        assert_eq!(read(json, kind), Ok(expected));
    }
}

#[test]
fn what_is_not_the_message_is_refused_and_said_where() {
    let cases: [(&str, &MessageType, &str); 26] = [
        ("null", &PUT_REQUEST, "an object, a PutRequest"),
        ("[]", &PUT_REQUEST, "an object, a PutRequest"),
        ("vv", &PUT_REQUEST, "line 1 column 1"),
        ("{\n\"key\":5}", &PUT_REQUEST, "line 2 column"),
        (r#"{"key":5}"#, &PUT_REQUEST, "key is a text in base64"),
        (r#"{"key":"?"}"#, &PUT_REQUEST, "base64"),
        (r#"{"key":"Y"}"#, &PUT_REQUEST, "base64"),
        (r#"{"key":"YQ="}"#, &PUT_REQUEST, "base64"),
        (r#"{"key":"+_8="}"#, &PUT_REQUEST, "base64"),
        (r#"{"key":"YQ==","key":"YQ=="}"#, &PUT_REQUEST, "duplicate"),
        (
            r#"{"prev_kv":true,"prevKv":true}"#,
            &PUT_REQUEST,
            "duplicate",
        ),
        (r#"{"lease":"1x"}"#, &PUT_REQUEST, "lease is an integer"),
        (r#"{"lease":" 1"}"#, &PUT_REQUEST, "lease is an integer"),
        (r#"{"lease":1.5}"#, &PUT_REQUEST, "lease is an integer"),
        (
            r#"{"lease":9223372036854775808}"#,
            &PUT_REQUEST,
            "lease is an",
        ),
        // It would be another number: not every one of this length can be told apart.
        (
            r#"{"lease":9007199254740993.0}"#,
            &PUT_REQUEST,
            "lease is an",
        ),
        (r#"{"hash":4294967296}"#, &HASH_RESPONSE, "of 32 bits"),
        (r#"{"prev_kv":"true"}"#, &PUT_REQUEST, "true or false"),
        (r#"{"version":"1","value":""}"#, &COMPARE, "target_union"),
        (r#"{"filters":1}"#, &WATCH_CREATE_REQUEST, "a list of which"),
        (r#"{"filters":[null]}"#, &WATCH_CREATE_REQUEST, "null"),
        (
            r#"{"filters":[[1]]}"#,
            &WATCH_CREATE_REQUEST,
            "a list, where",
        ),
        (r#"{"success":{}}"#, &TXN_REQUEST, "a list of which"),
        (r#"{"create_request":[]}"#, &WATCH_REQUEST, "a list, where"),
        (r#"{"peerURLs":["\ud800"]}"#, &MEMBER_ADD_REQUEST, "line 1"),
        (r#"{"peerURLs":["a""#, &MEMBER_ADD_REQUEST, "EOF"),
    ];
    for (json, kind, why) in cases {
        let refused = read(json, kind).expect_err(json);
        assert!(refused.contains(why), "{json}: {refused}");
    }
    let no_utf8 = [&b"{\"peerURLs\":[\""[..], &[0xff], b"\"]}"].concat();
    assert!(decode(&no_utf8, &MEMBER_ADD_REQUEST, &mut Vec::new()).is_err());
}

/// Scenario: brackets within brackets, in a message and in what is passed over.
#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| {
        let (open, close) = (r#"{"success":[{"request_txn":"#, "}]}");
        format!("{}{{}}{}", open.repeat(depth), close.repeat(depth))
    };
    assert!(read(&nested(40), &TXN_REQUEST).is_ok());
    for bomb in [nested(50), nested(100_000)] {
        let refused = read(&bomb, &TXN_REQUEST).expect_err("it is too deep");
        assert!(refused.contains("recursion limit"), "{refused}");
    }
    let unknown = format!(r#"{{"x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(read(&unknown, &TXN_REQUEST).as_deref(), Ok("{}"));
}

#[test]
fn bytes_that_are_no_message_are_not_written() {
    let wrong: [&[u8]; 7] = [
        &[0x0a],
        &[0x0a, 5, b'a'],
        &[0x08, 1],
        &[0x0b, 0x0c],
        &[0x0d, 1, 2, 3, 4],
        &[0xff; 11],
        &[0x18],
    ];
    for bytes in wrong {
        assert!(
            encode(bytes, &PUT_REQUEST, &mut String::new()).is_err(),
            "{bytes:?}"
        );
    }
    let mut written = String::new();
    encode(&[0xf8, 0x3f, 1, 0x18, 1], &PUT_REQUEST, &mut written).expect("an unknown field");
    assert_eq!(written, r#"{"lease":"1"}"#);
}
