//! Bodies of several calls: pipelines, transactions, watched keys, alarms, messages.

use super::ours::{Ours, at, call};
use bytes::Bytes;
use quorate_core::{Admission, Application, At, Wire};
use quorate_redis_store::{Answer, Query, Request, Store, Subscribers, Watched, refused};
use quorate_resp::Resp;
use std::sync::{Arc, Mutex};

fn request(atomic: bool, lines: &[&str]) -> Request {
    Request {
        atomic,
        calls: lines.iter().map(|line| call(line)).collect(),
        ..Request::default()
    }
}

fn version(ours: &Ours, key: &'static str) -> u64 {
    let query = Query::Versions {
        clock_ns: 0,
        keys: vec![(0, Bytes::from_static(key.as_bytes()))],
    };
    match ours.store.query(&query) {
        Answer::Versions(versions) => versions[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pipeline_has_a_reply_for_each_call_and_a_transaction_one_for_all() {
    let mut ours = Ours::new();
    let lines = ["set a 1", "lpush a x", "incr a", "nosuch", "get"];
    let expected = "+OK\r\n\
        -WRONGTYPE Operation against a key holding the wrong kind of value\r\n\
        :2\r\n\
        -ERR unknown command 'nosuch', with args beginning with: \r\n\
        -ERR wrong number of arguments for 'get' command\r\n";
    assert_eq!(ours.apply(&request(false, &lines)), expected);
    ours.text("del a");
    assert_eq!(
        ours.apply(&request(true, &lines)),
        format!("*5\r\n{expected}")
    );
    assert_eq!(ours.apply(&request(true, &[])), "*0\r\n");
}

#[test]
fn a_body_may_move_to_another_database() {
    let mut ours = Ours::new();
    let lines = [
        "set a 1", "select 3", "get a", "set a 2", "select 0", "get a",
    ];
    let reply = "*6\r\n+OK\r\n+OK\r\n$-1\r\n+OK\r\n+OK\r\n$1\r\n1\r\n";
    assert_eq!(ours.apply(&request(true, &lines)), reply);
    let mut third = request(false, &["get a", "move a 0", "swapdb 0 3", "get a"]);
    third.db = 3;
    assert_eq!(ours.apply(&third), "$1\r\n2\r\n:0\r\n+OK\r\n$1\r\n1\r\n");
}

#[test]
fn a_transaction_is_left_out_if_a_watched_key_has_changed() {
    let mut ours = Ours::new();
    ours.text("set a 1");
    let watch = |version| Request {
        watched: vec![Watched {
            db: 0,
            key: Bytes::from_static(b"a"),
            version,
        }],
        ..request(true, &["set b 1"])
    };
    let seen = version(&ours, "a");
    ours.text("get a");
    ours.text("setnx a 7");
    assert_eq!(ours.apply(&watch(seen)), "*1\r\n+OK\r\n");
    for change in ["append a 2", "expire a 100", "del a", "set a 1"] {
        let seen = version(&ours, "a");
        ours.text(change);
        assert_ne!(version(&ours, "a"), seen, "{change}");
        assert_eq!(ours.apply(&watch(seen)), "*-1\r\n", "{change}");
    }
    assert_eq!(version(&ours, "nothing"), 0);
}

#[test]
fn a_watched_key_whose_time_is_over_has_changed() {
    let mut ours = Ours::new();
    ours.text("set a 1 px 10");
    let watched = Watched {
        db: 0,
        key: Bytes::from_static(b"a"),
        version: version(&ours, "a"),
    };
    ours.now_ms += 11;
    let mut body = request(true, &["set b 1"]);
    body.watched = vec![watched];
    body.resp = Resp::Three;
    assert_eq!(ours.apply(&body), "_\r\n");
}

#[test]
fn alarms_refuse_what_grows_or_everything_that_writes() {
    let mut store = Store::new();
    let mut apply = |admission, line: &str| {
        let place = At {
            admission,
            ..at(1, 1)
        };
        let body = request(false, &[line]).to_bytes();
        store.apply(place, &body, &[])
    };
    let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    assert_eq!(apply(Admission::NoGrowth, "set a 1"), full);
    assert_eq!(apply(Admission::NoGrowth, "del a"), ":0\r\n");
    assert!(apply(Admission::Nothing, "del a").starts_with(b"-MISCONF "));
    assert_eq!(apply(Admission::Nothing, "get a"), "$-1\r\n");
    let grows = |line: &str| (Store::COMMAND_PROPERTIES.grows)(&request(false, &[line]).to_bytes());
    assert!(grows("set a 1") && !grows("del a") && !grows("get a"));
}

#[derive(Default)]
struct Heard(Mutex<Vec<(Bytes, Bytes)>>);

impl Subscribers for Heard {
    fn publish(&self, channel: &Bytes, message: &Bytes) {
        self.0
            .lock()
            .unwrap()
            .push((channel.clone(), message.clone()));
    }
}

#[test]
fn messages_are_told_once_and_in_order_and_never_ahead() {
    let heard = Arc::new(Heard::default());
    let mut store = Store::with_subscribers(heard.clone());
    let body = request(
        true,
        &["publish one first", "set a 1", "publish two second"],
    )
    .to_bytes();
    assert!(!store.is_retractable(&body));
    assert_eq!(
        store.apply(at(1, 1), &body, &[]),
        "*3\r\n:0\r\n+OK\r\n:0\r\n"
    );
    let message = |channel: &'static str, text: &'static str| (channel.into(), text.into());
    let expected = [message("one", "first"), message("two", "second")];
    assert_eq!(*heard.0.lock().unwrap(), expected);
    let mut other = store.empty();
    other.apply(at(2, 1), &body, &[]);
    assert_eq!(
        heard.0.lock().unwrap().len(),
        4,
        "a loaded store tells the same ones"
    );
}

#[test]
fn what_cannot_be_taken_back_is_not_attempted() {
    let mut ours = Ours::new();
    ours.text("set ends 1 px 100");
    let is_retractable = |ours: &Ours, line: &str| {
        ours.store
            .is_retractable(&request(false, &[line]).to_bytes())
    };
    for line in [
        "set a 1",
        "incr a",
        "lpush l x",
        "spop t",
        "mset a 1 b 2",
        "del a",
    ] {
        assert!(is_retractable(&ours, line), "{line}");
    }
    for line in [
        "incr ends",
        "set a 1 ex 5",
        "expire a 5",
        "flushall",
        "publish a b",
        "keys *",
    ] {
        assert!(!is_retractable(&ours, line), "{line}");
    }
}

#[test]
fn memory_of_a_key_grows_with_what_it_holds() {
    let mut ours = Ours::new();
    let mut usage = |line: &str, key: &str| {
        ours.text(line);
        match ours.says(&format!("memory usage {key}")) {
            quorate_resp::Reply::Integer(bytes) => bytes,
            other => panic!("{line}: {other:?}"),
        }
    };
    for (few, more, key) in [
        ("set s a", "append s 0123456789", "s"),
        ("rpush l a", "rpush l b c d e", "l"),
        ("sadd t 1", "sadd t a b c", "t"),
        ("hset h a 1", "hset h b 2 c 3", "h"),
        ("zadd z 1 a", "zadd z 2 b 3 c", "z"),
    ] {
        let (before, after) = (usage(few, key), usage(more, key));
        assert!(before < after, "{key}: {before} and {after}");
    }
    assert_eq!(ours.text("memory usage nothing"), r"$-1\r\n");
    assert_eq!(
        ours.text("memory usage s samples 0 1"),
        r"-ERR syntax error\r\n"
    );
}

#[test]
fn replies_are_bounded() {
    let mut ours = Ours::new();
    ours.text("setrange a 1000000 x");
    let get = call("get a");
    let query = Query::Calls {
        resp: Resp::Two,
        db: 0,
        clock_ns: 0,
        calls: vec![get.clone(); 5],
        asker: None,
    };
    let Answer::Replies(replies) = ours.store.query(&query) else {
        panic!("calls have replies");
    };
    assert_eq!(
        replies.len(),
        2 * (10 + 1_000_001 + 2),
        "the second reaches the bound"
    );
    let body = Request {
        calls: [vec![get; 40], vec![call("incr n")]].concat(),
        ..Request::default()
    };
    let replies = ours.apply(&body);
    assert!(replies.len() < 40_000_000);
    let end = "-ERR the replies to this transaction are longer than 33554432 bytes\r\n:1\r\n";
    assert!(replies.ends_with(end.as_bytes()));
}

#[test]
fn refusals_say_what_is_wrong_with_a_call() {
    let why = |line: &str| refused(&call(line).args);
    assert_eq!(why("get a"), None);
    let arity = "ERR wrong number of arguments for 'get' command";
    assert_eq!(why("GET"), Some(arity.to_owned()));
    let unknown = "ERR unknown command 'Foo', with args beginning with: 'a' 'b' ";
    assert_eq!(why("Foo a b"), Some(unknown.to_owned()));
    let elsewhere = why("XADD s * a b").expect("the store has no streams");
    assert!(
        elsewhere.contains("'xadd'") && elsewhere.contains("--redis-server"),
        "{elsewhere}"
    );
}

/// Scenario: a collection of many members is scanned while others come and go. Members that stay are told once.
#[test]
fn a_scan_tells_what_stays_exactly_once() {
    for (add, remove, scan, pairs) in [
        ("sadd c m{}", "srem c m{}", "sscan c", 1),
        ("hset c m{} v", "hdel c m{}", "hscan c", 2),
        ("zadd c 1 m{}", "zrem c m{}", "zscan c", 2),
        ("set m{} v", "del m{}", "scan", 1),
    ] {
        let mut ours = Ours::new();
        let name = |line: &str, number: u32| line.replace("{}", &number.to_string());
        (0..1000).for_each(|number| drop(ours.text(&name(add, number))));
        let (mut cursor, mut seen, mut changed) = ("0".to_owned(), Vec::new(), 1000);
        loop {
            let reply = ours.says(&format!("{scan} {cursor} count 7"));
            let quorate_resp::Reply::Array(parts) = reply else {
                panic!("{reply:?}");
            };
            let [next, quorate_resp::Reply::Array(found)] = &parts[..] else {
                panic!("{parts:?}");
            };
            seen.extend(
                found
                    .iter()
                    .step_by(pairs)
                    .filter_map(quorate_resp::Reply::text),
            );
            ours.text(&name(add, changed));
            ours.text(&name(remove, changed - 500));
            changed += 1;
            cursor = next.text().expect("a cursor");
            assert!(cursor.parse::<u64>().expect("a number") < 1 << 53);
            if cursor == "0" {
                break;
            }
        }
        let stays = |number: u32| number < 500 || changed - 500 <= number && number < 1000;
        for number in (0..1000).filter(|number| stays(*number)) {
            let times = seen
                .iter()
                .filter(|seen| **seen == format!("m{number}"))
                .count();
            assert_eq!(times, 1, "{scan}: m{number}");
        }
    }
}
