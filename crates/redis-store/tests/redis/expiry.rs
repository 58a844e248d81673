//! Time is that of the log, and keys end by it.

use super::ours::{Ours, call, words};
use bytes::Bytes;
use quorate_core::Application;
use quorate_redis_store::{Answer, DatabaseSize, Query};
use quorate_resp::Resp;

fn get(ours: &Ours, clock_ms: u64) -> Answer {
    ours.store.query(&Query::Calls {
        resp: Resp::Two,
        db: 0,
        clock_ns: clock_ms * 1_000_000,
        calls: vec![call("get a")],
        asker: None,
    })
}

fn replies(text: &'static str) -> Answer {
    Answer::Replies(Bytes::from_static(text.as_bytes()))
}

#[test]
fn a_key_lives_up_to_its_last_millisecond_by_the_log() {
    let mut ours = Ours::new();
    assert_eq!(ours.text("set a 1 px 100"), r"+OK\r\n");
    let end = ours.now_ms + 100;
    ours.now_ms = end;
    assert_eq!(ours.text("incr a"), r":2\r\n");
    assert_eq!(ours.text("pttl a"), r":0\r\n");
    ours.now_ms = end + 1;
    assert_eq!(ours.text("incr a"), r":1\r\n", "it begins anew");
    assert_eq!(ours.text("ttl a"), r":-1\r\n");
}

/// Scenario: nothing is written any more, and the clock of the replica passes the end of a key. A query must not say
/// that the key is there, nor decide by its own clock that it is not.
#[test]
fn what_is_over_by_the_clock_alone_is_asked_through_the_log() {
    let mut ours = Ours::new();
    ours.text("set a 1 px 100");
    let end = ours.now_ms + 100;
    assert_eq!(get(&ours, end), replies("$1\r\n1\r\n"));
    assert_eq!(get(&ours, end + 1), Answer::Due);
    let watched = Query::Versions {
        clock_ns: (end + 1) * 1_000_000,
        keys: vec![(0, Bytes::from_static(b"a"))],
    };
    assert_eq!(ours.store.query(&watched), Answer::Due);
    ours.now_ms = end + 1;
    assert!(ours.ask(&words("dbsize")).is_none());
    assert_eq!(ours.text("get a"), r"$-1\r\n");
    assert_eq!(get(&ours, end + 1), replies("$-1\r\n"));
    assert_eq!(ours.store.query(&watched), Answer::Versions(vec![0]));
}

#[test]
fn keys_that_are_over_are_counted_by_nobody_and_freed() {
    let mut ours = Ours::new();
    for number in 0..100 {
        ours.text(&format!("set k{number} v px {}", number + 1));
    }
    ours.now_ms += 50;
    ours.text("set other v");
    let size = |ours: &Ours| match ours.store.query(&Query::Keyspace) {
        Answer::Keyspace(keyspace) => keyspace.databases[0],
        other => panic!("{other:?}"),
    };
    let expected = DatabaseSize {
        keys: 52,
        expires: 51,
    };
    assert_eq!(size(&ours), expected);
    assert_eq!(ours.text("dbsize"), r":52\r\n");
    let freed = std::iter::repeat_with(|| ours.store.tidy()).take_while(|more| *more);
    assert_eq!(freed.count(), 49);
    assert_eq!(size(&ours), expected);
    let keys = ours.says("keys *");
    assert!(matches!(keys, quorate_resp::Reply::Array(keys) if keys.len() == 52));
}

#[test]
fn a_time_to_live_is_told_by_the_clock_of_the_replica() {
    let mut ours = Ours::new();
    ours.text("set a 1 ex 100");
    ours.now_ms += 30_000;
    let reply = ours.ask(&words("ttl a"));
    assert_eq!(reply, Some(Bytes::from_static(b":70\r\n")));
}

#[test]
fn an_end_that_is_over_already_takes_the_key_out() {
    let mut ours = Ours::new();
    ours.text("set a 1");
    assert_eq!(ours.text("expire a -1"), r":1\r\n");
    assert_eq!(ours.text("exists a"), r":0\r\n");
    ours.text("set a 1");
    assert_eq!(ours.text("expireat a 1"), r":1\r\n");
    assert_eq!(ours.text("get a"), r"$-1\r\n");
    assert_eq!(ours.text("set a 1 pxat 1"), r"+OK\r\n");
    assert_eq!(ours.text("get a"), r"$-1\r\n");
    assert_eq!(ours.text("dbsize"), r":0\r\n");
}

#[test]
fn ends_go_with_keys_and_stay_where_redis_lets_them() {
    let mut ours = Ours::new();
    let ends = |ours: &mut Ours, key: &str| ours.text(&format!("pexpiretime {key}"));
    ours.text("set a 1 pxat 33177117420000");
    ours.text("append a 2");
    ours.text("incr a");
    ours.text("set a 5 keepttl");
    assert_eq!(ends(&mut ours, "a"), r":33177117420000\r\n");
    ours.text("rename a b");
    ours.text("copy b c");
    assert_eq!(ends(&mut ours, "b"), r":33177117420000\r\n");
    assert_eq!(ends(&mut ours, "c"), r":33177117420000\r\n");
    ours.text("set b 1");
    ours.text("persist c");
    assert_eq!(ends(&mut ours, "b"), r":-1\r\n");
    assert_eq!(ends(&mut ours, "c"), r":-1\r\n");
}
