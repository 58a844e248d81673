//! The plain face, over clusters of real processes.

use crate::support::{Home, Up, eventually, expect_failure, metrics, quorate, signal};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

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

/// A key is written at the first, read and changed under a condition at the others, and the first finds that it has
/// changed: what that answers.
fn change_twice([one, two, three]: [&str; 3]) -> Answer {
    let stored = put(one, "a/b", "first");
    assert_eq!((stored.status, stored.tag.is_some()), (204, true));
    let found = get(two, "a/b");
    assert_eq!((found.status, &found.body[..]), (200, "first"));
    assert_eq!(found.tag, stored.tag);
    let given = format!("If-Match: {}\r\n", found.tag.unwrap());
    assert_eq!(ask(three, "PUT /kv/a/b", &given, "second").status, 204);
    let late = ask(one, "DELETE /kv/a/b", &given, "");
    assert_eq!(late.status, 412, "it has changed");
    late
}

/// Scenario: keys are written, read, changed under conditions and deleted, each through another replica.
#[test]
fn any_replica_serves_any_request() {
    let home = Home::new();
    let up = home.start(&["--face", "plain", "--protocol", "nezha"]);
    let [one, two, three] = [0, 1, 2].map(|at| up.urls[at].as_str());
    let late = change_twice([one, two, three]);
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

/// What a process counts that orders writes, or nothing.
async fn answered(url: &str) -> f64 {
    let page = metrics(url).await;
    let counts = page.lines().filter_map(|line| {
        let (figure, value) = line.rsplit_once(' ')?;
        let is_one =
            figure.contains("answered_fast_total") || figure.contains("answered_slowly_total");
        is_one.then(|| value.parse::<f64>().unwrap())
    });
    counts.filter(|count| !count.is_nan()).sum()
}

/// Scenario: what is written through one gateway is read through the other, and changed there under conditions;
/// the gateways, not the replicas, ordered it.
#[tokio::test]
async fn a_gateway_orders_writes_and_passes_reads_on() {
    let home = Home::new();
    let up = home.start(&["--face", "plain", "--protocol", "nezha", "--gateways", "2"]);
    let [one, two] = [0, 1].map(|at| up.gateways[at].as_str());
    let late = change_twice([one, two, two]);
    for url in &up.urls {
        let found = get(url, "a/b");
        assert_eq!((found.tag, &found.body[..]), (late.tag.clone(), "second"));
    }
    let both = r#"{"if": [{"key": "x", "version": null}],
                   "put": [{"key": "x", "value": "1"}, {"key": "y", "value": "2"}],
                   "delete": ["a/b"]}"#;
    for (url, status) in [(one, 200), (two, 412)] {
        assert_eq!(ask(url, "POST /write", "", both).status, status);
    }
    let read = ask(two, "POST /read", "", r#"{"keys": ["x", "y", "a/b"]}"#);
    for part in [r#""value":"1""#, r#""value":"2""#, ",null]"] {
        assert!(read.body.contains(part), "{} lacks {part}", read.body);
    }
    assert_eq!(get(one, "a/b?serializable=perhaps").status, 400);
    assert_eq!(ask(one, "POST /write", "", "{").status, 400);
    assert_eq!(ask(one, "GET /health", "", "").status, 200);
    assert_eq!((answered(one).await, answered(two).await), (3.0, 2.0));
    for url in &up.urls {
        assert_eq!(answered(url).await, 0.0, "{url} ordered something");
    }
    assert!(up.stop().success());
}

/// Scenario: clients of two gateways write keys of their own and one that all of them write. Every write takes
/// the version after that of the one before, in whichever order they were decided, and all replicas have
/// what was answered.
#[test]
fn writes_through_gateways_pass_each_other_and_are_done_once() {
    const WRITERS: usize = 4;
    const WRITES: usize = 25;
    let home = Home::new();
    let up = home.start(&["--face", "plain", "--protocol", "nezha", "--gateways", "2"]);
    let version = |answer: Answer| -> u64 {
        assert_eq!(answer.status, 204);
        answer.tag.unwrap().trim_matches('"').parse().unwrap()
    };
    let shared: Vec<u64> = thread::scope(|scope| {
        let writers = (0..WRITERS).map(|writer| {
            let url = &up.gateways[writer % 2];
            scope.spawn(move || {
                let own = format!("own-{writer}");
                let mut versions = Vec::new();
                let mut last = version(put(url, &own, "0"));
                for number in 1..WRITES {
                    versions.push(version(put(url, "shared", &format!("{writer}/{number}"))));
                    let next = version(put(url, &own, &number.to_string()));
                    assert_eq!(next, last + 1, "{own} was written once");
                    last = next;
                }
                versions
            })
        });
        let writers: Vec<_> = writers.collect();
        let versions = writers.into_iter().map(|writer| writer.join().unwrap());
        versions.flatten().collect()
    });
    let first = *shared.iter().min().unwrap();
    let mut sorted = shared.clone();
    sorted.sort_unstable();
    let expected: Vec<u64> = (first..).take(WRITERS * (WRITES - 1)).collect();
    assert_eq!(sorted, expected);
    for url in up.urls.iter().chain(&up.gateways) {
        let found = get(url, "shared").tag.unwrap();
        assert_eq!(found, format!("\"{}\"", sorted.last().unwrap()));
        for writer in 0..WRITERS {
            assert_eq!(
                get(url, &format!("own-{writer}")).body,
                (WRITES - 1).to_string()
            );
        }
    }
    assert!(up.stop().success());
}

/// Scenario: a replica dies, the first leader or another; a gateway's client goes on, and reads from whoever
/// is left what it wrote.
#[test]
fn a_gateway_outlives_any_replica() {
    for victim in [1, 3] {
        let home = Home::new();
        let up = home.start(&["--face", "plain", "--protocol", "nezha", "--gateways", "1"]);
        let gateway = up.gateways[0].as_str();
        assert_eq!(put(gateway, "k", "0").status, 204);
        signal(up.pids[&victim], Signal::KILL);
        for value in 1..20 {
            assert_eq!(put(gateway, "k", &value.to_string()).status, 204);
            let found = get(gateway, "k");
            assert_eq!((found.status, found.body), (200, value.to_string()));
        }
        assert!(up.stop().success());
    }
}

/// Scenario: under another protocol a gateway passes everything on; once the cluster has gone over to nezha,
/// the same gateway orders writes itself.
#[tokio::test]
async fn a_gateway_follows_the_protocol() {
    let home = Home::new();
    let up = home.start(&["--face", "plain", "--protocol", "rabia", "--gateways", "1"]);
    let gateway = up.gateways[0].as_str();
    assert_eq!(put(gateway, "k", "passed on").status, 204);
    assert_eq!(get(gateway, "k").body, "passed on");
    assert_eq!(
        answered(gateway).await,
        0.0,
        "it ordered a write under rabia"
    );
    let switched = quorate()
        .args(["cluster", "switch", "--endpoints", &up.urls[0], "nezha"])
        .status()
        .unwrap();
    assert!(switched.success());
    eventually("the gateway orders writes itself", || async {
        // A write is refused for a moment where one protocol goes over to the other.
        put(gateway, "k", "ordered");
        (answered(gateway).await > 0.0).then_some(())
    })
    .await;
    assert_eq!(get(&up.urls[2], "k").body, "ordered");
    assert!(up.stop().success());
}
