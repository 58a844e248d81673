//! `quorate status` against real clusters.

use crate::support::{
    Client, Home, eventually, expect_failure, free_ports, get, metric, metrics, output, post,
    quorate, signal,
};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::net::TcpSocket;

fn status(flags: &[&str]) -> (i32, String) {
    let output = output(quorate().arg("status").args(flags));
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), text)
}

fn json(url: &str) -> (i32, Value) {
    let (code, text) = status(&["--json", "--endpoints", url]);
    (code, serde_json::from_str(&text).unwrap())
}

/// What a report begins with, of a protocol without a leader.
fn expect_summary(report: &Value) {
    assert_eq!(report["leader"]["by_protocol"], false);
    let is_named = report["leader"]["replica_id"].as_u64();
    assert!((1..=3).contains(&is_named.unwrap()), "{report}");
    let disk = &report["disk"];
    assert!(disk["used_bytes_most"].as_u64().unwrap() > 1 << 20);
    assert!(disk["free_bytes_least"].as_u64().unwrap() > 0);
    assert!(report["limit"]["kind"].is_string(), "{report}");
}

/// Scenario: one endpoint is enough to see all; a replica dies, then another.
#[tokio::test]
async fn any_endpoint_shows_the_whole_cluster_and_the_exit_code_its_health() {
    let home = Home::new();
    let mut up = home.start(&["--param", "window=4", "--server-arg=--clock=declared:2ms"]);
    let mut client = Client::connect(&up.urls[0]).await;
    for i in 0..50 {
        client.put(&format!("k{i}"), "v").await.unwrap();
    }
    let (code, report) = settled(&up.urls[1]).await;
    assert_eq!((code, &report["serves"]), (0, &Value::Bool(true)));
    expect_summary(&report);
    let replicas = report["replicas"].as_array().unwrap();
    assert_eq!(replicas.len(), 3);
    for (replica, id) in replicas.iter().zip(1..) {
        let status = &replica["status"];
        assert_eq!(
            (&replica["replica_id"], &status["role"]),
            (&id.into(), &"voting".into())
        );
        assert_eq!(status["params"]["window"], "4");
        assert!(status["applied_slot"].as_u64().unwrap() > 0);
        assert!(status["memory_rss_bytes"].as_u64().unwrap() > 1 << 20);
        assert_eq!(status["log_segments"], 1);
        assert_eq!(status["clock"]["source"], "declared");
        assert_eq!(status["clock"]["error_ns"], 2_000_000);
        let figures = &replica["figures"];
        assert!(figures["fast_share"].as_f64().unwrap() > 0.0);
        assert!(figures["latency"]["log"]["p99_us"].as_f64().unwrap() > 0.0);
    }

    let page = metrics(&up.urls[0]).await;
    let line = "quorate_clock_error_seconds{source=\"declared\"} 0.002";
    assert!(page.contains(line), "{line} is missing from\n{page}");

    let (code, table) = status(&["--endpoints", &up.urls[2]]);
    assert_eq!(code, 0);
    assert!(table.contains("healthy: 3 of 3 replicas serve"), "{table}");
    assert!(table.contains("protocol rabia window=4"), "{table}");
    assert!(!table.contains("kappa"), "{table}");
    let widest = table.lines().map(str::len).max().unwrap();
    assert!(widest <= 100, "{widest} columns:\n{table}");

    signal(up.pids[&3], Signal::KILL);
    up.wait_for("replica 3 (process");
    let (code, report) = json(&up.urls[0]);
    assert_eq!((code, &report["replicas_serving"]), (0, &2.into()));
    assert_eq!(
        (&report["healthy"], &report["serves"]),
        (&false.into(), &true.into())
    );
    let (_, table) = status(&["--endpoints", &up.urls[0]]);
    let words =
        "NOT HEALTHY: 2 of 3 replicas serve, which is enough to go on\n  replica 3: it is down";
    assert!(table.starts_with(words), "{table}");
    let gone = &report["replicas"][2];
    assert_eq!(gone["reachable"], false);
    assert!(
        gone["reason"].as_str().unwrap().contains("refused"),
        "{gone}"
    );

    signal(up.pids[&2], Signal::KILL);
    up.wait_for("replica 2 (process");
    let (code, table) = status(&["--endpoints", &up.urls.join(",")]);
    assert_eq!(code, 1);
    assert!(
        table.contains("NOT HEALTHY: 0 of 3 replicas serve, which are too few"),
        "{table}"
    );
    assert!(table.contains("no quorum"), "{table}");
}

/// The report once nothing is wrong: connections may still be made when a cluster has just begun.
async fn settled(url: &str) -> (i32, Value) {
    eventually("nothing is wrong", || async {
        let (code, report) = json(url);
        (report["healthy"] == true).then_some((code, report))
    })
    .await
}

/// Scenario: a process is frozen, whose connections the kernel goes on to take. It is named within the two seconds that
/// its answer may take, whichever replica is asked first; once it goes on, nothing is wrong.
#[tokio::test]
async fn a_frozen_replica_is_named_as_frozen() {
    let home = Home::new();
    let up = home.start(&[]);
    settled(&up.urls[0]).await;
    signal(up.pids[&2], Signal::STOP);
    for asked in [up.urls[0].clone(), up.urls.join(",")] {
        let began = Instant::now();
        let (code, report) = json(&asked);
        let took = began.elapsed();
        assert!(took < Duration::from_millis(3_500), "{took:?}");
        assert_eq!((code, &report["serves"]), (0, &true.into()));
        let problems = report["problems"].as_array().unwrap();
        let frozen = problems.iter().find(|one| one["kind"] == "frozen");
        let frozen = frozen.unwrap_or_else(|| panic!("nobody is frozen in {report}"));
        assert_eq!(frozen["replica_id"], 2);
        assert!(
            frozen["text"]
                .as_str()
                .unwrap()
                .contains("no answer in 2 s")
        );
        assert_eq!(report["replicas"][1]["reason"], "no answer in 2 s");
    }
    let (_, table) = status(&["--endpoints", &up.urls[2]]);
    assert!(
        table.contains("replica 2: it is frozen, or far too busy"),
        "{table}"
    );
    assert!(!table.contains("os error"), "{table}");
    signal(up.pids[&2], Signal::CONT);
    settled(&up.urls[0]).await;
}

/// Scenario: a fourth replica is added, and never started. It has no vote: three of three serve, and nothing is wrong.
#[tokio::test]
async fn a_learner_that_never_started_is_not_counted() {
    let home = Home::new();
    let up = home.start(&[]);
    settled(&up.urls[0]).await;
    let url = format!("http://127.0.0.1:{}", free_ports(1));
    let answer = post(
        &up.urls[0],
        "/cluster/members",
        &format!("{{\"add\":\"{url}\"}}"),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let report = eventually("the learner is known to all", || async {
        let (_, report) = json(&up.urls[0]);
        let replicas = report["replicas"].as_array()?;
        (replicas.len() == 4).then_some(report)
    })
    .await;
    let counts = (&report["replicas_serving"], &report["replicas_total"]);
    assert_eq!(counts, (&3.into(), &3.into()));
    assert_eq!(report["healthy"], true, "{report}");
    let note = &report["notes"][0];
    assert_eq!(
        (&note["replica_id"], &note["kind"]),
        (&4.into(), &"learner".into())
    );
    let (_, table) = status(&["--endpoints", &up.urls[0]]);
    assert!(
        table.starts_with("healthy: 3 of 3 replicas serve\n  replica 4: it is a learner"),
        "{table}"
    );
}

/// Scenario: the protocol has a leader: the report names it, as the one that clients are told, and no other says that
/// it leads.
#[tokio::test]
async fn exactly_one_replica_leads_where_the_protocol_has_a_leader() {
    let home = Home::new();
    let up = home.start(&["--protocol", "multi-paxos"]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "1").await.unwrap();
    eventually("the leader is named to clients", || async {
        let (_, report) = json(&up.urls[0]);
        let leader = report["leader"]["replica_id"].as_u64()?;
        assert_eq!(report["leader"]["by_protocol"], true);
        let replicas = report["replicas"].as_array()?;
        let leads = replicas.iter().filter(|one| one["status"]["leads"] == true);
        let is_one = leads.count() == 1;
        let mut says = Vec::new();
        for url in &up.urls {
            says.push(metric(url, "etcd_server_is_leader").await as u64);
        }
        let is_named = (1..)
            .zip(&says)
            .all(|(id, said)| (*said == 1) == (id == leader));
        (is_one && is_named).then_some(())
    })
    .await;
    let (_, table) = status(&["--endpoints", &up.urls[0]]);
    let leaders = table.lines().filter(|line| line.contains("  leader  "));
    assert_eq!(leaders.count(), 1, "{table}");
}

/// Scenario: every flush of a replica takes half a second. Its log tells of slow requests with their time by place.
#[tokio::test]
async fn slow_requests_are_logged_with_their_time_by_place() {
    let home = Home::new();
    let source = tempfile::NamedTempFile::new().unwrap();
    let delay_ns = 500_000_000_u64;
    std::fs::write(source.path(), [[0; 8], delay_ns.to_le_bytes()].concat()).unwrap();
    let slow = format!("--server-arg=--test-source={}", source.path().display());
    let up = home.start(&["--replicas", "1", &slow]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "1").await.unwrap();
    let log = home.dir.join("1/log.txt");
    eventually("the request is told", || async {
        let log = std::fs::read_to_string(&log).ok()?;
        let line = log.lines().find(|line| line.contains("a request took "))?;
        let flush = line
            .split_once("the longest flush of the log meanwhile took ")?
            .1;
        let ms: f64 = flush.split_once(" ms")?.0.parse().ok()?;
        (ms >= 500.0).then_some(())
    })
    .await;
}

/// Every name in a report is on the page that explains it, so that others can build on it.
#[tokio::test]
async fn every_name_of_the_json_is_documented() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/status.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let home = Home::new();
    let mut up = home.start(&[]);
    Client::connect(&up.urls[0])
        .await
        .put("a", "1")
        .await
        .unwrap();
    signal(up.pids[&3], Signal::KILL);
    up.wait_for("replica 3 (process");
    let (_, report) = json(&up.urls[0]);
    let mut names = BTreeSet::new();
    collect(&report, &mut names);
    // Names in these tables are not fixed: parameters, places and figures of protocols.
    let missing: Vec<&String> = (names.iter())
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/reference/status.md lacks {missing:?}"
    );
}

/// Every metric is on the page that explains it, in the words that the program has for it, and no other is.
#[tokio::test]
async fn every_metric_is_documented() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/metrics.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let (always, sometimes) = page.split_once("## Only somewhere").unwrap();
    let home = Home::new();
    let up = home.start(&["--replicas=1"]);
    assert_eq!(get(&up.urls[0], "/readyz").await.0, 200);
    // A replica that is busy leaves figures out.
    let told = eventually("every figure of the store", async || {
        let told = metrics(&up.urls[0]).await;
        told.contains("etcd_mvcc_txn_total").then_some(told)
    });
    let told = told.await;
    let mut names = BTreeSet::new();
    for line in told.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = line.split_once(' ').unwrap();
        names.insert(name);
        let is_row = |row: &str| {
            row.starts_with(&format!("| `{name}` |")) && row.ends_with(&format!("{help} |"))
        };
        let known = always.lines().chain(sometimes.lines()).any(is_row);
        assert!(known, "docs/reference/metrics.md lacks {name}: {help}");
    }
    let documented = always.lines().filter_map(|row| row.strip_prefix("| `"));
    for row in documented {
        let (name, _) = row.split_once('`').unwrap();
        // Nobody is there to have a link to.
        let of_peers = ["quorate_peer_", "etcd_network_"];
        let is_of_peers = of_peers.iter().any(|beginning| name.starts_with(beginning));
        assert!(is_of_peers || names.contains(name), "no {name} in\n{told}");
    }
}

/// The keys of all objects, but for those of objects whose keys are no fixed names.
fn collect(value: &Value, names: &mut BTreeSet<String>) {
    const OPEN: [&str; 5] = [
        "params",
        "protocol",
        "latency",
        "latency_recent",
        "queue_lengths",
    ];
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                names.insert(name.clone());
                if !OPEN.contains(&name.as_str()) {
                    collect(value, names);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, names)),
        _ => {}
    }
}

/// Scenario: what Chora measures of its network model is shown, and only where it runs.
#[tokio::test]
async fn replicas_that_run_chora_show_their_rounds() {
    let home = Home::new();
    let params = ["round_us=500", "mode=pulsing"];
    let up = home.start(&[
        "--protocol",
        "chora",
        "--param",
        params[0],
        "--param",
        params[1],
    ]);
    let mut client = Client::connect(&up.urls[0]).await;
    for i in 0..200 {
        client.put(&format!("k{i}"), "v").await.unwrap();
    }
    let (_, report) = json(&up.urls[1]);
    let protocol = &report["replicas"][0]["figures"]["protocol"];
    assert!(
        protocol["rounds_total"].as_f64().unwrap() > 10.0,
        "{protocol}"
    );
    let synchrony = protocol["synchrony_90"].as_f64().unwrap();
    assert!(0.0 < synchrony && synchrony < 1.0, "{protocol}");
    assert!(protocol["multicasts_per_commit"].as_f64().unwrap() >= 1.0);
    let (_, table) = status(&["--endpoints", &up.urls[2]]);
    assert!(
        table.contains("kappa") && table.contains("500us"),
        "{table}"
    );
    let widest = table.lines().map(str::len).max().unwrap();
    assert!(widest <= 100, "{widest} columns:\n{table}");
}

#[test]
fn an_endpoint_that_is_none_is_exit_code_2_and_a_silent_one_1() {
    let wrong = ["status", "--endpoints", "localhost"];
    expect_failure(quorate().args(wrong), 2, "is not of the form host:port");
    let beyond = ["status", "--endpoints", "localhost:70000"];
    expect_failure(
        quorate().args(beyond),
        2,
        "port 70000 is too large: ports go up to 65535",
    );
    expect_failure(
        quorate().args(["status", "--watch", "0"]),
        2,
        "at least 0.1",
    );
    // Bound, so that nobody else takes it, and not listening.
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (code, text) = status(&["--endpoints", &silent.local_addr().unwrap().to_string()]);
    assert_eq!(code, 1);
    assert!(text.contains("no replica answers"), "{text}");
    assert!(text.contains("refused"), "{text}");
}

/// Scenario: watched through a pipe, the view comes as plain lines, again and again.
#[tokio::test]
async fn a_watched_cluster_is_shown_again_and_again() {
    let home = Home::new();
    let up = home.start(&[]);
    let mut watch = quorate()
        .args(["status", "--watch", "0.1", "--endpoints", &up.urls[0]])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(watch.stdout.take().unwrap());
    let lines = out.lines().map_while(Result::ok);
    let looks = lines.filter(|line| line.contains("3 of 3 replicas serve"));
    assert_eq!(looks.take(3).count(), 3);
    signal(watch.id(), Signal::TERM);
    assert!(watch.wait().unwrap().success());
}
