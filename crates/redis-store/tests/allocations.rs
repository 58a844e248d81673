//! What common commands take from the allocator. (Only one test: it counts for its thread.)

use allocation_counter::measure;
use bytes::Bytes;
use quorate_core::{Application, At, Wire};
use quorate_redis_store::{Answer, Call, Query, Request, Store};
use quorate_resp::Resp;

fn call(words: &[&'static str]) -> Call {
    let args = words.iter().map(|word| Bytes::from_static(word.as_bytes()));
    Call {
        args: args.collect(),
    }
}

fn body(words: &[&'static str]) -> Bytes {
    let request = Request {
        calls: vec![call(words)],
        ..Request::default()
    };
    request.to_bytes()
}

#[test]
fn common_commands_allocate_no_more_than_this() {
    let mut store = Store::new();
    for words in [["set", "key", "value"], ["set", "other", "value"]] {
        store.apply(At::default(), &body(&words), &[]);
    }
    let query = Query::Calls {
        resp: Resp::Two,
        db: 0,
        clock_ns: 0,
        calls: vec![call(&["GET", "key"])],
        asker: None,
    };
    let mut answer = None;
    let get = measure(|| answer = Some(store.query(&query)));
    let expected = Answer::Replies(Bytes::from_static(b"$5\r\nvalue\r\n"));
    assert_eq!(answer, Some(expected));
    assert!(get.count_total <= 1, "the reply: {get:?}");

    let (set, incr) = (body(&["SET", "key", "another"]), body(&["INCR", "n"]));
    let mut apply = |body: &Bytes| {
        let used = measure(|| drop(store.apply(At::default(), body, &[])));
        used.count_total
    };
    apply(&incr);
    // The owner of the body's bytes, its calls, their arguments, and the new value; of a number the reply, too.
    assert!(apply(&set) <= 4, "{}", apply(&set));
    assert!(apply(&incr) <= 5, "{}", apply(&incr));
}
