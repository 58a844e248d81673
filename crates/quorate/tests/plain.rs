//! The plain face, over clusters of real processes.

#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time"
)]

mod support;

use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use support::{Home, Up, eventually, expect_failure, quorate, signal};

/// What a server said.
struct Answer {
    status: u16,
    tag: Option<String>,
    body: String,
}

/// Asks with these further lines of a head.
fn ask(url: &str, what: &str, head: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    let length = body.len();
    let request =
        format!("{what} HTTP/1.0\r\nHost: x\r\n{head}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: "));
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        tag: tag.map(str::to_owned),
        body: body.to_owned(),
    }
}

fn put(url: &str, key: &str, value: &str) -> Answer {
    ask(url, &format!("PUT /kv/{key}"), "", value)
}

fn get(url: &str, key: &str) -> Answer {
    ask(url, &format!("GET /kv/{key}"), "", "")
}

/// Scenario: keys are written, read, changed under conditions and deleted, each through another replica.
#[test]
fn any_replica_serves_any_request() {
    let home = Home::new();
    let up = home.start(&["--face", "plain", "--protocol", "nezha"]);
    let [one, two, three] = [0, 1, 2].map(|at| up.urls[at].as_str());
    let stored = put(one, "a/b", "first");
    assert_eq!((stored.status, stored.tag.is_some()), (204, true));
    let found = get(two, "a/b");
    assert_eq!((found.status, &found.body[..]), (200, "first"));
    assert_eq!(found.tag, stored.tag);
    let given = format!("If-Match: {}\r\n", found.tag.unwrap());
    assert_eq!(ask(three, "PUT /kv/a/b", &given, "second").status, 204);
    let late = ask(one, "DELETE /kv/a/b", &given, "");
    assert_eq!(late.status, 412, "it has changed");
    assert_eq!(get(one, "a/b").tag, late.tag);
    let create = ask(two, "PUT /kv/a/b", "If-None-Match: *\r\n", "third");
    assert_eq!(create.status, 412, "it exists");
    assert_eq!(ask(two, "DELETE /kv/a/b", "", "").status, 204);
    assert_eq!(get(three, "a/b").status, 404);

    let both = r#"{"if": [{"key": "x", "version": null}],
                   "put": [{"key": "x", "value": "1"}, {"key": "y", "base64": "/w=="}]}"#;
    let done = ask(one, "POST /write", "", both);
    assert!(
        done.status == 200 && done.body.contains(r#""done":true"#),
        "{}",
        done.body
    );
    let again = ask(two, "POST /write", "", both);
    assert!(
        again.status == 412 && again.body.contains(r#""done":false"#),
        "{}",
        again.body
    );
    let read = ask(three, "POST /read", "", r#"{"keys": ["x", "y", "z"]}"#).body;
    for part in [r#""value":"1""#, r#""base64":"/w==""#, ",null]"] {
        assert!(read.contains(part), "{read} lacks {part}");
    }
    assert_eq!(ask(one, "POST /write", "", "{").status, 400);
    assert_eq!(ask(one, "GET /health", "", "").status, 200);
    assert!(up.stop().success());
}

/// Scenario: a replica is killed while others write so much that their logs are given up; it comes back
/// by a snapshot, and the whole cluster after that.
#[tokio::test]
async fn what_was_written_outlives_kills_and_snapshots() {
    let home = Home::new();
    let often = [
        "--snapshot-count",
        "20",
        "--face",
        "plain",
        "--protocol",
        "nezha",
    ];
    let mut up = home.start(&often);
    signal(up.pids[&3], Signal::KILL);
    up.wait_for("replica 3 (process");
    for number in 0..200 {
        let url = &up.urls[number % 2];
        let stored = put(url, &format!("key-{}", number % 50), &number.to_string());
        assert_eq!(stored.status, 204);
    }
    let only = Up::start(&home.dir, &["--only", "3", "--snapshot-count", "20"]);
    let third = up.urls[2].clone();
    eventually("replica 3 has caught up", || async {
        (get(&third, "key-49?serializable").body == "199").then_some(())
    })
    .await;
    assert!(only.stop().success());
    assert!(up.stop().success());
    let again = Up::start(&home.dir, &[]);
    for number in 0..50 {
        let url = &again.urls[number % 3];
        let found = get(url, &format!("key-{number}"));
        assert_eq!(
            (found.status, found.body),
            (200, (150 + number).to_string())
        );
    }
    assert!(again.stop().success());
}

/// Scenario: the data of a cluster is served, or looked at, as if it had another face.
#[test]
fn a_cluster_keeps_its_face() {
    let home = Home::new();
    let up = home.start(&["--face", "plain"]);
    assert!(up.stop().success());
    let dir = home.dir.display().to_string();
    let says = "--face etcd contradicts the cluster in";
    expect_failure(
        quorate().args(["up", "--face", "etcd", "--data-dir", &dir]),
        2,
        says,
    );
    let replica = home.dir.join("1").display().to_string();
    let serve = ["serve", "--face", "etcd", "--data-dir", &replica];
    expect_failure(quorate().args(serve), 2, says);
    let export = ["log", "export", "--data-dir", &replica];
    let says = "does not work on clusters with the face plain";
    expect_failure(quorate().args(export), 1, says);
}
