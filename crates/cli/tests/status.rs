//! `quorate status` against real clusters.

#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time"
)]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use support::{Client, Home, expect_failure, metrics, output, quorate, signal};
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

/// Scenario: one endpoint is enough to see all; a replica dies, then another.
#[tokio::test]
async fn any_endpoint_shows_the_whole_cluster_and_the_exit_code_its_health() {
    let home = Home::new();
    let mut up = home.start(&["--param", "window=4", "--server-arg=--clock=declared:2ms"]);
    let mut client = Client::connect(&up.urls[0]).await;
    for i in 0..50 {
        client.put(&format!("k{i}"), "v").await.unwrap();
    }
    let (code, report) = json(&up.urls[1]);
    assert_eq!((code, &report["healthy"]), (0, &Value::Bool(true)));
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
    assert!(table.contains("NOT HEALTHY: 0 of 3"), "{table}");
    assert!(table.contains("no quorum"), "{table}");
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
