//! Disks that no longer hold what was written to them, and disks without space.

use crate::support;
use crate::support::{Client, Home, Up, converged, eventually, metric, signal};
use rustix::process::Signal;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

async fn put_all(url: &str, keys: Range<u32>) {
    let mut client = Client::connect(url).await;
    for i in keys {
        client.put(&format!("k{i}"), "v").await.unwrap();
    }
}

async fn expect_all(url: &str, keys: Range<u32>) {
    let mut client = Client::connect(url).await;
    for i in keys {
        let value = client.get(&format!("k{i}")).await.unwrap();
        assert_eq!(value.as_deref(), Some("v"), "k{i} through {url}");
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn newest_snapshot(dir: &Path) -> PathBuf {
    let entries = fs::read_dir(dir.join("snap")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let snapshots = paths.filter(|path| path.extension().is_some_and(|kind| kind == "snap"));
    snapshots.max().unwrap()
}

/// Scenario: while a cluster is stopped, the log of each replica is damaged, each at another place,
/// and with it the identity of one and the newest snapshot of another. All come back, notice it,
/// help each other, and serve everything; another start finds nothing wrong.
#[tokio::test]
async fn damage_on_every_disk_is_noticed_and_repaired() {
    let home = Home::new();
    let up = home.start(&["--snapshot-count", "100"]);
    put_all(&up.urls[0], 0..400).await;
    converged(&up.urls).await;
    assert!(up.stop().success());
    let folder = |id: usize| home.dir.join(id.to_string());
    for (id, at) in [(1, 4_200), (2, 8_000), (3, 12_000)] {
        flip(&folder(id).join("log/0000000001.seg"), at);
    }
    flip(&folder(1).join("meta"), 100);
    flip(&newest_snapshot(&folder(3)), 50);

    let up = home.start(&[]);
    for (url, places) in up.urls.iter().zip([2.0, 1.0, 2.0]) {
        assert_eq!(metric(url, "quorate_storage_damage_total").await, places);
        expect_all(url, 0..400).await;
    }
    put_all(&up.urls[1], 400..410).await;
    converged(&up.urls).await;
    assert!(up.stop().success());

    let up = home.start(&[]);
    for url in &up.urls {
        assert_eq!(metric(url, "quorate_storage_missing_slots").await, 0.0);
        expect_all(url, 0..410).await;
    }
}

/// Scenario: the last thing a killed replica wrote is damaged, which may have been a promise. It
/// says so, recovers from its peers by itself, and its vote counts again.
#[tokio::test]
async fn a_replica_that_may_have_lost_promises_recovers_before_it_votes() {
    let home = Home::new();
    let mut up = home.start(&[]);
    put_all(&up.urls[1], 0..50).await;
    assert!(up.stop().success());
    let segment = home.dir.join("2/log/0000000001.seg");
    let bytes = fs::read(&segment).unwrap();
    // The last records are the marks of the last flushes.
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    flip(&segment, end - 200);

    up = home.start(&[]);
    let second = up.urls[1].clone();
    assert_eq!(
        metric(&second, "quorate_storage_lost_promises_total").await,
        1.0
    );
    let done = "quorate_branches_total{branch=\"rejoined\"} 1";
    eventually("the replica has rejoined", || async {
        let text = support::metrics(&second).await;
        text.contains(done).then_some(())
    })
    .await;
    expect_all(&second, 0..50).await;
    converged(&up.urls).await;
    signal(up.pids[&1], Signal::KILL);
    up.wait_for("replica 1 (process");
    put_all(&up.urls[2], 50..60).await;
    expect_all(&second, 0..60).await;
}

/// Scenario: folders are deleted out of a replica's data folder, among them the one of the fragments that it has vouched
/// for. It says which, recovers from its peers before it votes, and its vote counts again.
#[tokio::test]
async fn a_folder_that_is_missing_is_said_and_made_up_for() {
    let home = Home::new();
    let coded = ["--protocol", "rs-paxos", "--param", "payload_min=1"];
    let mut up = home.start(&coded);
    put_all(&up.urls[1], 0..50).await;
    converged(&up.urls).await;
    signal(up.pids[&2], Signal::KILL);
    up.wait_for("replica 2 (process");
    let own = home.dir.join("2");
    for name in ["bulk", "snap"] {
        fs::remove_dir_all(own.join(name)).unwrap();
    }
    fs::remove_file(own.join("meta")).unwrap();

    let second = Up::start(&home.dir, &["--only", "2"]);
    let url = second.urls[0].clone();
    let lost = metric(&url, "quorate_storage_lost_promises_total").await;
    assert_eq!(lost, 1.0);
    let said = fs::read_to_string(own.join("log.txt")).unwrap();
    for words in [
        "2/bulk",
        "2/snap",
        "a folder is missing",
        "this file or its copy is missing",
    ] {
        assert!(said.contains(words), "no {words} in {said}");
    }
    eventually("the replica has rejoined", || async {
        let text = support::metrics(&url).await;
        text.contains("quorate_branches_total{branch=\"rejoined\"} 1")
            .then_some(())
    })
    .await;
    converged(&up.urls).await;
    signal(up.pids[&1], Signal::KILL);
    up.wait_for("replica 1 (process");
    put_all(&up.urls[2], 50..60).await;
    expect_all(&url, 0..60).await;
}
