//! How frames travel between replicas and on which threads, with clusters of real processes.

use crate::support::{
    Client, Home, converged, eventually, expect_failure, metric, metrics, quorate, signal,
};
use rustix::process::Signal;
use std::net::UdpSocket;

const OPEN: &str = "quorate_peer_datagrams{peer=\"2\"}";
const SENT: &str = "quorate_peer_sent_datagrams_total{";

/// Scenario: every layout, frames by UDP; values short and long are written at all replicas; one is killed and the
/// others go on.
#[tokio::test]
async fn every_layout_replicates_over_datagrams() {
    for (protocol, layout) in [
        ("chora", "split"),
        ("nezha", "threaded"),
        ("multi-paxos", "fused"),
    ] {
        let home = Home::new();
        let flags = ["--protocol", protocol, "--layout", layout];
        let udp = ["--peer-transport", "udp"];
        let up = home.start(&[flags.as_slice(), &udp].concat());
        let is_open = async || (metric(&up.urls[0], OPEN).await > 0.0).then_some(());
        eventually("datagrams arrive", is_open).await;
        let long = "x".repeat(100_000);
        for (i, url) in up.urls.iter().enumerate() {
            let mut client = Client::connect(url).await;
            client.put(&format!("short-{i}"), "v").await.unwrap();
            client.put(&format!("long-{i}"), &long).await.unwrap();
        }
        converged(&up.urls).await;
        for url in &up.urls {
            let page = metrics(url).await;
            let sent = page.lines().filter(|line| line.starts_with(SENT));
            assert!(
                sent.clone().any(|line| !line.ends_with(" 0")),
                "{protocol}: {url}"
            );
        }
        signal(up.pids[&3], Signal::KILL);
        let mut client = Client::connect(&up.urls[1]).await;
        client.put("without-3", "v").await.unwrap();
        assert_eq!(client.get("long-2").await.unwrap(), Some(long));
    }
}

/// Scenario: the UDP port is taken; more threads are to poll than any machine has cores.
#[test]
fn what_cannot_be_had_is_said_in_one_message() {
    let home = Home::new();
    let port: u16 = home.port.parse().unwrap();
    let _taken = UdpSocket::bind(("127.0.0.1", port + 1)).unwrap();
    let serve = |flags: &[&str]| {
        let mut command = quorate();
        let dir = home.dir.display().to_string();
        let urls = [port, port + 1].map(|port| format!("http://127.0.0.1:{port}"));
        command.args([
            "serve",
            "--initial-cluster-state",
            "new",
            "--data-dir",
            &dir,
        ]);
        command.args([
            "--listen-client-urls",
            &urls[0],
            "--listen-peer-urls",
            &urls[1],
        ]);
        command.args(flags);
        command
    };
    let taken = format!(
        "cannot listen for datagrams of peers on 127.0.0.1:{}",
        port + 1
    );
    expect_failure(&mut serve(&["--peer-transport", "udp"]), 1, &taken);
    let mut up = quorate();
    up.args(["up", "--replicas", "63", "--layout", "split", "--busy-poll"]);
    up.arg("--data-dir").arg(home.dir.with_file_name("other"));
    expect_failure(&mut up, 2, "189 threads that never sleep need a core each");
}
