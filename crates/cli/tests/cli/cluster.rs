//! Whole clusters of real processes, hurt and healed.

use crate::support;
use crate::support::{
    Client, Home, PATIENCE, Up, converged, eventually, exists, metric, quorate, signal,
};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Scenario: a replica is killed; the others go on; it comes back and catches up; everything is
/// stopped and started again; nothing is lost.
#[tokio::test]
async fn a_cluster_survives_a_kill_and_keeps_its_data() {
    let home = Home::new();
    let mut up = home.start(&[]);
    assert_eq!((up.urls.len(), up.pids.len()), (3, 3));
    for (i, url) in up.urls.iter().enumerate() {
        let mut client = Client::connect(url).await;
        client.put(&format!("from-{i}"), url).await.unwrap();
    }
    let mut first = Client::connect(&up.urls[0]).await;
    let mut second = Client::connect(&up.urls[1]).await;
    assert_eq!(
        first.get("from-2").await.unwrap().as_deref(),
        Some(up.urls[2].as_str())
    );

    signal(up.pids[&3], Signal::KILL);
    assert!(
        up.wait_for("replica 3 (process")
            .contains("killed by signal 9")
    );
    for i in 0..50 {
        let client = if i % 2 == 0 { &mut first } else { &mut second };
        client.put(&format!("without-3-{i}"), "v").await.unwrap();
    }

    let only = Up::start(&home.dir, &["--only", "3"]);
    assert_eq!(only.urls, up.urls[2..]);
    let state = converged(&up.urls).await;
    let mut third = Client::connect(&up.urls[2]).await;
    assert_eq!(
        third.get("without-3-49").await.unwrap().as_deref(),
        Some("v")
    );

    assert!(only.stop().success());
    let urls = up.urls.clone();
    assert!(up.stop().success());

    let again = Up::start(&home.dir, &[]);
    assert_eq!(again.urls, urls);
    let mut first = Client::connect(&urls[0]).await;
    assert_eq!(
        first.get("without-3-0").await.unwrap().as_deref(),
        Some("v")
    );
    assert_eq!(converged(&urls).await, state);
    assert!(again.stop().success());
}

/// Scenario: a replica is killed; the others take snapshots and free the log it would need; it comes
/// back with a snapshot of theirs, and a restart begins from snapshots, too.
#[tokio::test]
async fn a_replica_that_was_away_for_long_comes_back_through_a_snapshot() {
    let home = Home::new();
    let snapshots = ["--snapshot-count", "500", "--snapshot-bytes", "0"];
    let mut up = home.start(&snapshots);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("before", "v").await.unwrap();
    converged(&up.urls).await;
    signal(up.pids[&3], Signal::KILL);
    up.wait_for("replica 3 (process");

    // Segments of the log are 16 MiB long.
    let value = "v".repeat(64 << 10);
    let mut puts = 0;
    while removed_segments(&home, 1) == 0 || removed_segments(&home, 2) == 0 {
        client
            .put(&format!("k-{}", puts % 20), &value)
            .await
            .unwrap();
        puts += 1;
        assert!(puts < 20_000, "the log is never freed");
    }

    let only = Up::start(&home.dir, &[&["--only", "3"][..], &snapshots].concat());
    let state = converged(&up.urls).await;
    let installed = metric(&up.urls[2], "quorate_snapshots_installed_total").await;
    assert!(installed >= 1.0, "it caught up from the log");
    assert!(metric(&up.urls[2], "quorate_snapshot_received_bytes_total").await > 0.0);
    let mut third = Client::connect(&up.urls[2]).await;
    third.put("after", "v").await.unwrap();
    assert_eq!(third.get("before").await.unwrap().as_deref(), Some("v"));

    let moved = converged(&up.urls).await;
    assert_eq!(moved.0, state.0 + 1);
    assert!(only.stop().success());
    assert!(up.stop().success());
    let again = Up::start(&home.dir, &snapshots);
    assert_eq!(converged(&again.urls).await, moved);
    assert!(again.stop().success());
}

/// How many segments at the beginning of a replica's log are gone.
fn removed_segments(home: &Home, id: u16) -> u64 {
    let dir = home.dir.join(id.to_string()).join("log");
    let names = std::fs::read_dir(dir).unwrap().filter_map(Result::ok);
    let numbers = names.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".seg")?.parse::<u64>().ok()
    });
    numbers.min().map_or(0, |first| first - 1)
}

/// Scenario: all replicas are killed at once in the middle of writing.
#[tokio::test]
async fn acknowledged_writes_survive_the_death_of_all() {
    let home = Home::new();
    let up = home.start(&[]);
    let mut writers = Vec::new();
    for (i, url) in up.urls.iter().enumerate() {
        let mut client = Client::connect(url).await;
        writers.push(tokio::spawn(async move {
            let mut acknowledged = 0;
            while client
                .put(&format!("{i}-{acknowledged}"), "v")
                .await
                .is_ok()
            {
                acknowledged += 1;
            }
            acknowledged
        }));
    }
    eventually("some writes", || async {
        (metric(&up.urls[0], "quorate_commands_applied_total").await > 100.0).then_some(())
    })
    .await;
    up.pids.values().for_each(|pid| signal(*pid, Signal::KILL));
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.push(writer.await.unwrap());
    }
    drop(up);

    let again = Up::start(&home.dir, &[]);
    let mut client = Client::connect(&again.urls[1]).await;
    for (i, count) in acknowledged.iter().enumerate() {
        for n in 0..*count {
            let value = client.get(&format!("{i}-{n}")).await.unwrap();
            assert_eq!(
                value.as_deref(),
                Some("v"),
                "write {n} of {count} through {i} is lost"
            );
        }
        assert_eq!(
            client.get(&format!("{i}-{}", count + 1)).await.unwrap(),
            None
        );
    }
    converged(&again.urls).await;
}

/// Scenario: without a quorum a write fails within seconds, and works again with one.
#[tokio::test]
async fn without_a_quorum_clients_get_an_error_in_bounded_time() {
    let home = Home::new();
    let mut up = home.start(&[]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("before", "v").await.unwrap();
    for id in [2, 3] {
        signal(up.pids[&id], Signal::KILL);
        up.wait_for(&format!("replica {id} (process"));
    }
    let start = Instant::now();
    let error = client.put("during", "v").await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable, "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "it took {:?}",
        start.elapsed()
    );
    let _second = Up::start(&home.dir, &["--only", "2"]);
    eventually("writes work again", || {
        let mut client = client.clone();
        async move { client.put("after", "v").await.ok() }
    })
    .await;
}

/// Scenario: with --restart a killed replica comes back by itself.
#[tokio::test]
async fn a_dead_replica_is_started_again_when_asked_to() {
    let home = Home::new();
    let mut up = home.start(&["--restart"]);
    let before = up.pids[&2];
    signal(before, Signal::KILL);
    up.wait_for("replica 2 serves again");
    assert_ne!(up.pids[&2], before);
    Client::connect(&up.urls[1])
        .await
        .put("k", "v")
        .await
        .unwrap();
    assert!(up.stop().success());
}

/// Scenario: the supervisor itself is killed; its replicas do not stay behind.
#[tokio::test]
async fn replicas_end_with_the_process_that_started_them() {
    let home = Home::new();
    let up = home.start(&[]);
    let pids: Vec<_> = up.pids.values().copied().collect();
    up.kill();
    eventually("all replicas are gone", || {
        let gone = pids.iter().all(|pid| !exists(*pid));
        async move { gone.then_some(()) }
    })
    .await;
}

/// Scenario: bytes that are no frames, and requests that are too large.
#[tokio::test]
async fn hostile_peers_and_oversized_requests_disturb_nobody() {
    let home = Home::new();
    let up = home.start(&[]);
    let peer_port: u16 = home.port.parse::<u16>().unwrap() + 1;
    for seed in 0..20 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut hostile = tokio::net::TcpStream::connect(("127.0.0.1", peer_port))
            .await
            .unwrap();
        let bytes: Vec<u8> = std::iter::repeat_with(|| dice.u8(..)).take(4096).collect();
        // It may be cut off before it has said everything.
        let _ = hostile.write_all(&bytes).await;
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(PATIENCE, hostile.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "seed {seed}: the connection stayed open");
    }
    let rejected = metric(&up.urls[0], "quorate_peer_rejected_connections_total").await;
    assert_eq!(rejected, 20.0);
    let mut client = Client::connect(&up.urls[0]).await;
    let error = client
        .put("large", &"x".repeat(1_600_000))
        .await
        .unwrap_err();
    assert!(error.message().contains("request is too large"), "{error}");
    // Too large even to be looked at.
    client.put("huge", &"x".repeat(20 << 20)).await.unwrap_err();
    client.put("small", "v").await.unwrap();
    assert_eq!(metric(&up.urls[0], "quorate_has_quorum").await, 1.0);
}

/// Scenario: a cluster that lives in memory serves like any other and writes no log.
#[tokio::test]
async fn a_cluster_in_memory_serves_and_writes_no_log() {
    let home = Home::new();
    let up = home.start(&["--durability", "memory"]);
    let mut client = Client::connect(&up.urls[2]).await;
    client.put("k", "v").await.unwrap();
    assert_eq!(client.get("k").await.unwrap().as_deref(), Some("v"));
    converged(&up.urls).await;
    for id in ["1", "2", "3"] {
        let segments = std::fs::read_dir(home.dir.join(id).join("log"))
            .unwrap()
            .count();
        assert_eq!(segments, 0);
    }
    assert!(up.stop().success());
}

/// Scenario: a member is removed; `quorate up` goes on without it, and so it does when it is started again.
#[tokio::test]
async fn a_removed_member_stops_no_cluster_and_is_not_started_again() {
    let home = Home::new();
    let mut up = home.start(&["--restart"]);
    let remove = ["cluster", "remove", "2", "--endpoints", &up.urls[0]];
    let removed = support::output(quorate().args(remove));
    assert!(removed.status.success(), "{removed:?}");
    let said = "replica 2 is no member of the cluster any more";
    up.wait_for(said);
    let mut client = Client::connect(&up.urls[2]).await;
    client.put("goes", "on").await.unwrap();
    let two = [up.urls[0].clone(), up.urls[2].clone()];
    assert!(up.stop().success());

    let again = Up::start(&home.dir, &[]);
    eventually("the removed one is gone", || async {
        (!exists(again.pids[&2])).then_some(())
    })
    .await;
    converged(&two).await;
    let mut client = Client::connect(&two[1]).await;
    assert_eq!(client.get("goes").await.unwrap().as_deref(), Some("on"));
    assert!(again.stop().success());
}
