//! Replicas that are short of file descriptors.

use crate::support::{Client, Home, eventually, exists, try_metrics};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::net::TcpStream;
use std::time::Duration;

/// Sets how many files a process may have open from now on; says how many that were.
fn limit_files(pid: u32, limit: Option<u64>) -> Option<u64> {
    let limit = Rlimit {
        current: limit,
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    let pid = Pid::from_raw(pid.cast_signed());
    prlimit(pid, Resource::Nofile, limit).unwrap().current
}

/// Scenario: a replica may open no more files when its log comes to the next segment. It waits, lives, and goes on where
/// it was once it may.
#[tokio::test]
async fn the_log_waits_for_descriptors() {
    let home = Home::new();
    let up = home.start(&["--replicas", "1"]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("key", "before").await.unwrap();
    let pid = up.pids[&1];
    let former = limit_files(pid, Some(3));
    let value = "v".repeat(1 << 20);
    let mut puts = 0;
    while let Ok(put) =
        tokio::time::timeout(Duration::from_secs(2), client.put("key", &value)).await
    {
        assert!(put.is_ok(), "put {puts}: {put:?}");
        puts += 1;
        assert!(puts < 64, "the log did not come to its next segment");
    }
    assert!(exists(pid), "the replica stopped after {puts} puts");
    limit_files(pid, former);
    let again = async |mut client: Client| client.put("key", "after").await.ok();
    eventually("a put is acknowledged", || again(client.clone())).await;
    up.stop();
}

/// Scenario: three times as many connections as a replica takes, which say nothing.
#[tokio::test]
async fn idle_connections_make_room_for_those_who_work() {
    let home = Home::new();
    let up = home.start(&[
        "--replicas",
        "1",
        "--server-arg=--max-client-connections=20",
    ]);
    let url = &up.urls[0];
    let mut client = Client::connect(url).await;
    let address = url.strip_prefix("http://").unwrap();
    let mut idle = Vec::new();
    for _ in 0..60 {
        idle.push(TcpStream::connect(address).unwrap());
        client.put("key", "value").await.unwrap();
    }
    let newcomer = async || Client::try_connect(url).await?.put("key", "new").await.ok();
    eventually("a new client puts", newcomer).await;
    // Who asks for metrics is one more newcomer.
    let page = eventually("metrics are told", || try_metrics(url)).await;
    let figure = |name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in\n{page}"))
            .trim()
            .parse()
            .unwrap()
    };
    assert_eq!(figure("quorate_client_connections_max "), 20.0);
    assert!(figure("quorate_client_connections ") <= 20.0);
    let closed = figure("quorate_client_connections_closed_total{reason=\"idle\"} ");
    let refused = figure("quorate_client_connections_refused_total ");
    assert!(
        closed + refused >= 40.0,
        "{closed} closed, {refused} refused"
    );
    up.stop();
}
