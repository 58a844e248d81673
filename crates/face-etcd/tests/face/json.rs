//! The services in JSON over HTTP/1.1, as curl, Patroni and APISIX use them.

use crate::backend;
use crate::plain_http::Http;
use quorate_etcd_json::{CALLS, Streams};
use quorate_etcd_store::Store;
use quorate_face_etcd::{AllowList, Limits, WebAccess, serve};
use quorate_server::{Budget, Door, Handle, Listener};
use std::net::SocketAddr;

/// Serves on a port of its own until the test ends.
fn start(limits: Limits) -> SocketAddr {
    start_within(limits, Budget::new(64 << 20))
}

fn start_within(limits: Limits, budget: Budget) -> SocketAddr {
    start_before(backend::start(), limits, budget)
}

/// Serves what a replica behind this handle answers.
fn start_before(handle: Handle<Store>, limits: Limits, budget: Budget) -> SocketAddr {
    let port = quorate_server::bind("127.0.0.1:0").expect("a free port");
    let listener = Listener::new(port, Door::Client).expect("a listener");
    let listener = listener.budgeted(budget);
    let address = listener.local_addr().expect("it is bound");
    let never = std::future::pending();
    tokio::spawn(serve(listener, handle, limits, None, never));
    address
}

async fn client() -> Http {
    Http::connect(start(Limits::default())).await
}

/// The header of an answer at a revision.
fn header(revision: i64) -> String {
    format!(
        r#""header":{{"cluster_id":"7","member_id":"2","revision":"{revision}","raft_term":"1"}}"#
    )
}

#[tokio::test]
async fn keys_are_written_read_compared_and_deleted() {
    let mut http = client().await;
    // foo = bar, as in etcd's documentation.
    let put = http
        .post("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#)
        .await;
    assert_eq!(put, (200, format!("{{{}}}", header(2))));
    let kv =
        r#"{"key":"Zm9v","create_revision":"2","mod_revision":"2","version":"1","value":"YmFy"}"#;
    let found = format!(r#"{{{},"kvs":[{kv}],"count":"1"}}"#, header(2));
    for path in ["/v3/kv/range", "/v3beta/kv/range"] {
        let range = http
            .post(path, r#"{"key": "Zm9v", "rangeEnd": null, "limit": 0}"#)
            .await;
        assert_eq!(range, (200, found.clone()), "{path}");
    }
    let none = http.post("/v3/kv/range", r#"{"key":"YQ=="}"#).await;
    assert_eq!(none, (200, format!("{{{}}}", header(2))));
    let txn = r#"{"compare":[{"result":"EQUAL","target":"VALUE","key":"Zm9v","value":"YmFy"}],
        "success":[{"requestPut":{"key":"Zm9v","value":"YQ==","prevKv":true}},
            {"request_txn":{"success":[{"request_delete_range":{"key":"Yg=="}}]}}]}"#;
    let (status, answer) = http.post("/v3/kv/txn", txn).await;
    assert_eq!(status, 200);
    let (head, responses) = answer.split_once(r#","responses":["#).expect("responses");
    assert_eq!(head, format!(r#"{{{},"succeeded":true"#, header(3)));
    let expected = [
        format!(r#"{{"response_put":{{"header":{{"revision":"3"}},"prev_kv":{kv}}}}},"#),
        r#"{"response_txn":{"header":{},"succeeded":true,"responses":["#.to_owned(),
        r#"{"response_delete_range":{"header":{"revision":"3"}}}]}}]}"#.to_owned(),
    ];
    assert_eq!(responses, expected.concat());
    let compacted = http.post("/v3/kv/compaction", r#"{"revision":"9"}"#).await;
    let future =
        r#"{"code":11,"message":"etcdserver: mvcc: required revision is a future revision"}"#;
    assert_eq!(compacted, (400, future.to_owned()));
}

/// Every call is there: it is answered by its service, or says that the service is not there.
#[tokio::test]
async fn every_call_has_its_path() {
    let address = start(Limits::default());
    for call in CALLS.iter().filter(|call| call.streams == Streams::Neither) {
        let mut http = Http::connect(address).await;
        let path = format!("/v3/{}", call.path);
        // Locks and elections have a name each, so that none waits for another.
        let letters = call.path.replace(|c: char| !c.is_ascii_alphabetic(), "");
        let named = format!(r#"{{"name":"{letters:A<32}"}}"#);
        let (status, answer) = http.post(&path, &named).await;
        let value: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        match status {
            200 => assert!(value.is_object(), "{path}: {answer}"),
            // Among them the services that this server does not have.
            _ => {
                let code = value["code"].as_i64().expect("a code");
                assert!(code > 0 && value["message"].is_string(), "{path}: {answer}");
                assert!(status != 404 || code == 5, "{path}: {answer}");
            }
        }
        assert!(!answer.contains("unknown method"), "{path}: {answer}");
        // Kept open for the next request.
        http.send(&format!("GET {path}"), &[], Some("")).await;
        let (head, answer) = http.answer().await;
        let refused = r#"{"code":12,"message":"Method Not Allowed"}"#;
        assert_eq!((head.status, answer.as_str()), (501, refused), "{path}");
    }
    let unknown = Http::connect(address)
        .await
        .post("/v3/kv/rangestream", "{}")
        .await;
    assert_eq!(
        unknown,
        (404, r#"{"code":5,"message":"Not Found"}"#.to_owned())
    );
}

#[tokio::test]
async fn what_is_wrong_is_said_and_the_connection_goes_on() {
    let mut http = client().await;
    for wrong in [
        "v",
        "[]",
        "null",
        r#"{"key":5}"#,
        r#"{"key":"?"}"#,
        r#"{"key":"Zm9v""#,
    ] {
        let (status, answer) = http.post("/v3/kv/put", wrong).await;
        assert_eq!(status, 400, "{wrong}: {answer}");
        assert!(
            answer.starts_with(r#"{"code":3,"message":"the request is not"#),
            "{answer}"
        );
    }
    let empty = r#"{"code":3,"message":"etcdserver: key is not provided"}"#;
    for body in ["", "{}", r#"{"kye":"Zm9v"}"#, "{} and more"] {
        let put = http.post("/v3/kv/put", body).await;
        assert_eq!(put, (400, empty.to_owned()), "{body}");
    }
    let missing = http.post("/v3/lease/revoke", r#"{"ID":"5"}"#).await;
    let expected = r#"{"code":5,"message":"etcdserver: requested lease not found"}"#;
    assert_eq!(missing, (404, expected.to_owned()));
}

/// Scenario: Patroni's way to hold a lock: a lease, a transaction on its absence, renewals, and the end.
#[tokio::test]
async fn a_leader_lock_is_taken_once_and_goes_with_its_lease() {
    let mut http = client().await;
    let grant = r#"{"TTL":30,"ID":77}"#;
    let granted = http.post("/v3/lease/grant", grant).await;
    assert_eq!(granted.0, 200);
    assert!(
        granted.1.ends_with(r#","ID":"77","TTL":"30"}"#),
        "{}",
        granted.1
    );
    let lock = r#"{"compare":[{"target":"CREATE","create_revision":"0","key":"bA=="}],
        "success":[{"request_put":{"key":"bA==","value":"bWU=","lease":"77"}}],"failure":[]}"#;
    let (_, taken) = http.post("/v3/kv/txn", lock).await;
    assert!(taken.contains(r#""succeeded":true"#), "{taken}");
    let (_, again) = http.post("/v3/kv/txn", lock).await;
    assert!(!again.contains("succeeded"), "{again}");
    let (status, renewed) = http.post("/v3/lease/keepalive", r#"{"ID":"77"}"#).await;
    let line = renewed.strip_suffix("}}\n").expect("one line");
    assert_eq!(status, 200);
    assert!(
        line.starts_with(r#"{"result":{"header":"#) && line.ends_with(r#""ID":"77","TTL":"30""#)
    );
    let asked = http
        .post("/v3/kv/lease/timetolive", r#"{"ID":77,"keys":true}"#)
        .await;
    assert!(
        asked.1.ends_with(r#""grantedTTL":"30","keys":["bA=="]}"#),
        "{}",
        asked.1
    );
    let (_, leases) = http.post("/v3/lease/leases", "").await;
    assert!(leases.ends_with(r#""leases":[{"ID":"77"}]}"#), "{leases}");
    assert_eq!(
        http.post("/v3/kv/lease/revoke", r#"{"ID":77}"#).await.0,
        200
    );
    let (_, gone) = http.post("/v3/kv/range", r#"{"key":"bA=="}"#).await;
    assert!(!gone.contains("kvs"), "{gone}");
    let (_, over) = http.post("/v3/lease/keepalive", r#"{"ID":"77"}"#).await;
    assert!(
        over.ends_with("\"ID\":\"77\"}}\n"),
        "a lease that is gone has no TTL: {over}"
    );
}

/// Scenario: APISIX's way to follow its configuration: one POST whose answer does not end.
#[tokio::test]
async fn a_watch_is_a_line_for_each_response() {
    let address = start(Limits::default());
    let mut http = Http::connect(address).await;
    let mut watch = Http::connect(address).await;
    let create = r#"{"create_request":{"key":"YQ==","range_end":"Yg==","prev_kv":true}}"#;
    watch.send("POST /v3/watch", &[], Some(create)).await;
    let head = watch.head().await;
    assert_eq!(
        (head.status, head.headers["content-type"].as_str()),
        (200, "application/json")
    );
    let created = watch.part().await.expect("a line");
    assert_eq!(
        created,
        format!("{{\"result\":{{{},\"created\":true}}}}\n", header(1))
    );
    for value in ["MQ==", "Mg=="] {
        http.post(
            "/v3/kv/put",
            &format!(r#"{{"key":"YWE=","value":"{value}"}}"#),
        )
        .await;
    }
    let first = watch.part().await.expect("a line");
    let kv =
        r#"{"key":"YWE=","create_revision":"2","mod_revision":"2","version":"1","value":"MQ=="}"#;
    // The first event is a put, whose type is left out like every zero.
    assert!(
        first.ends_with(&format!("\"events\":[{{\"kv\":{kv}}}]}}}}\n")),
        "{first}"
    );
    let second = watch.part().await.expect("a line");
    assert!(
        second.ends_with(&format!("\"prev_kv\":{kv}}}]}}}}\n")),
        "{second}"
    );
    http.post("/v3/kv/deleterange", r#"{"key":"YWE="}"#).await;
    let third = watch.part().await.expect("a line");
    assert!(third.contains(r#""events":[{"type":"DELETE","kv":{"key":"YWE=","mod_revision":"4"}"#));
}

/// Scenario (etcd's #19521): a watch, then what is no JSON, on a stream of requests. The watch goes on, and so does
/// everything else.
#[tokio::test]
async fn a_bad_request_on_a_watch_ends_nothing() {
    let address = start(Limits::default());
    let mut watch = Http::connect(address).await;
    watch.send("POST /v3/watch", &[], None).await;
    watch.chunk(r#" {"create_request":{"#).await;
    watch.chunk(r#""key":"YQ=="}}"#).await;
    assert_eq!(watch.head().await.status, 200);
    watch.part().await.expect("it is created");
    watch
        .chunk(r#"{"create_request":{"key":"Yg==","watch_id":"9"}}"#)
        .await;
    let second = watch.part().await.expect("it is created");
    assert!(
        second.contains(r#""watch_id":"9","created":true"#),
        "{second}"
    );
    watch.chunk("value {\"create_request\":5} [[[").await;
    let mut http = Http::connect(address).await;
    for key in ["YQ==", "Yg=="] {
        http.post("/v3/kv/put", &format!(r#"{{"key":"{key}"}}"#))
            .await;
        let event = watch.part().await.expect("the watch goes on");
        assert!(
            event.contains(&format!(r#"[{{"kv":{{"key":"{key}""#)),
            "{event}"
        );
    }
    // Where there is no watch yet, it is said at once.
    let (status, answer) = http.post("/v3/watch", "value").await;
    assert_eq!(status, 400);
    assert!(
        answer.starts_with(r#"{"code":3,"message":"the request is not"#),
        "{answer}"
    );
}

#[tokio::test]
async fn a_stream_that_fails_at_once_has_the_status_of_its_error() {
    let (handle, core) = Handle::new(1);
    drop(core);
    let address = start_before(handle, backend::userless(), Budget::new(64 << 20));
    let mut http = Http::connect(address).await;
    let (status, answer) = http
        .post("/v3/election/observe", r#"{"name":"YQ=="}"#)
        .await;
    assert!(
        status >= 400 && answer.starts_with(r#"{"error":{"code":"#),
        "{status} {answer}"
    );
    assert!(answer.ends_with("\"}}\n"), "{answer}");
}

/// Scenario: bodies of all sizes around what is let in, and one that is full of brackets.
#[tokio::test]
async fn bodies_are_bounded_in_length_depth_and_memory() {
    let budget = Budget::new(8 << 20);
    let limits = Limits {
        request_bytes_max: 1 << 20,
        ..Limits::default()
    };
    let address = start_within(limits, budget.clone());
    let mut http = Http::connect(address).await;
    let put = |bytes: usize| format!(r#"{{"key":"YQ==","value":"{}"}}"#, "QUFB".repeat(bytes / 3));
    assert_eq!(http.post("/v3/kv/put", &put(1_000_000)).await.0, 200);
    let large = http.post("/v3/kv/put", &put(1_100_000)).await;
    let too_large = r#"{"code":3,"message":"etcdserver: request is too large"}"#;
    assert_eq!(large, (400, too_large.to_owned()));
    let nested = format!(
        "{}{{}}{}",
        r#"{"success":[{"request_txn":"#.repeat(5000),
        "}]}".repeat(5000)
    );
    let (status, answer) = http.post("/v3/kv/txn", &nested).await;
    assert!(
        status == 400 && answer.contains("recursion limit"),
        "{answer}"
    );
    let parts = format!(r#"{{"success":[{}]}}"#, vec!["{}"; 70_000].join(","));
    let (status, answer) = http.post("/v3/kv/txn", &parts).await;
    assert!(
        status == 400 && answer.contains("too many operations"),
        "{answer}"
    );
    let (_, range) = http.post("/v3/kv/range", r#"{"key":"YQ=="}"#).await;
    assert!(range.len() > 1_300_000);
    let mut given_up = Http::connect(address).await;
    let begun = "POST /v3/kv/put HTTP/1.1\r\nhost: a\r\ncontent-length: 900000\r\n\r\n{\"key\":";
    given_up.write(begun.as_bytes()).await;
    // More than is looked at, and less than is read.
    let longer = http.post("/v3/kv/put", &put(3_000_000)).await;
    assert_eq!(longer, (400, too_large.to_owned()));
    drop((http, given_up));
    for _ in 0..1000 {
        if budget.used() == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{} bytes are never given back", budget.used());
}

#[tokio::test]
async fn pages_and_names_are_held_against_the_lists() {
    let address = start(Limits {
        web: WebAccess {
            origins: AllowList::new(["http://good".to_owned()]),
            hosts: AllowList::new(["quorate".to_owned()]),
            ..WebAccess::default()
        },
        ..Limits::default()
    });
    let mut http = Http::connect(address).await;
    let allowed = "access-control-allow-origin";
    for (origin, shared) in [("http://good", Some("http://good")), ("http://bad", None)] {
        for (line, status) in [("OPTIONS /v3/kv/range", 200), ("POST /v3/kv/range", 400)] {
            http.send(line, &[("origin", origin)], Some("")).await;
            let (head, _) = http.answer().await;
            assert_eq!(head.status, status, "{line}");
            assert_eq!(head.headers.get(allowed).map(String::as_str), shared);
        }
    }
    for path in ["/version", "/v3/kv/range"] {
        http.send(&format!("GET {path}"), &[("host", "evil:2379")], Some(""))
            .await;
        let (head, answer) = http.answer().await;
        assert_eq!(head.status, 421);
        assert!(
            answer.contains("\"evil\"") && answer.contains("--host-whitelist"),
            "{answer}"
        );
    }
    http.send("GET /version", &[("host", "quorate:1")], Some(""))
        .await;
    assert_eq!(http.answer().await.0.status, 200);
    let anybody = Http::connect(start(Limits::default())).await;
    let mut anybody = anybody;
    anybody.send("GET /version", &[], Some("")).await;
    assert_eq!(anybody.answer().await.0.headers[allowed], "*");
    // What only operators ask for is not for pages.
    anybody.send("GET /status", &[], Some("")).await;
    assert!(!anybody.answer().await.0.headers.contains_key(allowed));
}

#[tokio::test]
async fn without_the_gateway_there_are_no_such_paths() {
    let mut http = Http::connect(start(Limits {
        web: WebAccess {
            json: false,
            ..WebAccess::default()
        },
        ..Limits::default()
    }))
    .await;
    let missing = http.post("/v3/kv/range", "{}").await;
    assert_eq!(missing, (404, "404 page not found\n".to_owned()));
}
