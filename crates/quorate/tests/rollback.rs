//! An older copy of a data folder in its place.

#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time"
)]

mod support;

use rustix::process::Signal;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Client, Home, Up, converged, eventually, metric, signal, write_on};

/// Copies a folder that is in use, file by file.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let copied = match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => fs::copy(entry.path(), &target).map(|_| ()),
        };
        match copied {
            // A segment was given up meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    Ok(())
}

/// Scenario: the folder of a replica that runs under load is copied; after many more writes the replica is killed and
/// the copy put in the place of its folder. It notices, comes back by itself without what it had promised, nothing
/// that was acknowledged is lost, and its vote counts again.
async fn an_old_copy_is_noticed(protocol: &str) {
    let home = Home::new();
    let mut up = home.start(&["--protocol", protocol]);
    for url in &up.urls {
        eventually("replicas claim how far their promises go", || async {
            (metric(url, "quorate_feature_level").await >= 3.0).then_some(())
        })
        .await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (written, task) = write_on(up.urls[1..].to_vec(), Arc::clone(&stop));
    let more = async |count: u32| {
        let before = written.load(Ordering::Relaxed);
        eventually("writes go on", || async {
            (written.load(Ordering::Relaxed) > before + count).then_some(())
        })
        .await;
    };
    more(100).await;
    let (own, copy) = (home.dir.join("1"), home.dir.join("copy"));
    copy_folder(&own, &copy).unwrap();
    more(200).await;
    signal(up.pids[&1], Signal::KILL);
    up.wait_for("replica 1 (process");
    fs::rename(&own, home.dir.join("newer")).unwrap();
    fs::rename(&copy, &own).unwrap();
    let _first = Up::start(&home.dir, &["--only", "1"]);
    eventually("the old copy is noticed", || async {
        let log = fs::read_to_string(own.join("log.txt")).unwrap_or_default();
        log.contains("this data folder is an older copy")
            .then_some(())
    })
    .await;
    more(100).await;
    stop.store(true, Ordering::Relaxed);
    task.await.unwrap();
    converged(&up.urls).await;

    signal(up.pids[&2], Signal::KILL);
    up.wait_for("replica 2 (process");
    eventually("its vote counts", || async {
        let mut client = Client::try_connect(&up.urls[0]).await?;
        client.put("vote", "counts").await.ok()
    })
    .await;
    let mut client = Client::connect(&up.urls[0]).await;
    for key in 0..written.load(Ordering::Relaxed) {
        let found = client.get(&format!("n{key}")).await.unwrap();
        assert_eq!(found.as_deref(), Some("v"), "n{key}");
    }
}

#[tokio::test]
async fn an_old_copy_is_noticed_under_rabia() {
    an_old_copy_is_noticed("rabia").await;
}

#[tokio::test]
async fn an_old_copy_is_noticed_under_multi_paxos() {
    an_old_copy_is_noticed("multi-paxos").await;
}

#[tokio::test]
#[ignore = "minutes on a loaded machine"]
async fn an_old_copy_is_noticed_under_the_other_protocols() {
    for protocol in ["rs-paxos", "racos", "chora", "nezha"] {
        an_old_copy_is_noticed(protocol).await;
    }
}
