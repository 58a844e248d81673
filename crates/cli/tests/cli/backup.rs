//! Backups of clusters that are written to and hurt meanwhile, and the moments that come back.

use crate::support::{
    Client, Home, channel, converged, eventually, expect_failure, output, quorate, signal, write_on,
};
use quorate_backup::Folder;
use quorate_etcd_api::etcdserverpb::HashKvRequest;
use quorate_face_etcd::client::MaintenanceClient;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A backup that goes on, killed when it is dropped.
struct Running(Child);

impl Running {
    fn start(urls: &[String], to: &Path, flags: &[&str]) -> Running {
        let mut command = run(urls, to, flags);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        signal(self.0.id(), Signal::KILL);
        self.0.wait().unwrap();
    }
}

fn run(urls: &[String], to: &Path, flags: &[&str]) -> Command {
    let mut command = quorate();
    command.args(["backup", "run", "--endpoints", &urls.join(",")]);
    command.arg("--to").arg(to).args(flags);
    command
}

fn restore(from: &Path, out: &Path, flags: &[&str]) -> Command {
    let mut command = quorate();
    command
        .args(["backup", "restore"])
        .arg(from)
        .arg("--out")
        .arg(out);
    command.args(flags);
    command
}

fn verify(from: &Path) -> Command {
    let mut command = quorate();
    command.args(["backup", "verify"]).arg(from);
    command
}

/// Waits until a backup has a revision.
async fn has_come(backup: &Path, revision: i64) {
    eventually("the backup has everything", || async {
        let next = Folder::open(backup).ok()?.next().ok()??;
        (next > revision).then_some(())
    })
    .await;
}

/// The hash of everything up to a revision; 0 for all.
async fn hash_at(url: &str, revision: i64) -> (i64, u32) {
    let mut service = MaintenanceClient::new(channel(url).await);
    let answer = service.hash_kv(HashKvRequest { revision }).await.unwrap();
    let answer = answer.into_inner();
    (answer.header.unwrap().revision, answer.hash)
}

/// What a cluster that begins with a snapshot holds.
async fn hash_of(snapshot: &Path) -> (i64, u32) {
    let home = Home::new();
    let mut import = quorate();
    import.args(["import", "--etcd-snapshot"]).arg(snapshot);
    import.arg("--data-dir").arg(&home.dir);
    output(import.args(["--port", &home.port, "--replicas", "1"]));
    let up = home.start(&[]);
    hash_at(&up.urls[0], 0).await
}

/// Scenario: three replicas are written to all the time and killed one after the other, and so is the backup. Each
/// revision that is restored is what the cluster had then, and the last one is all.
#[tokio::test]
async fn each_moment_of_a_cluster_under_load_and_kills_comes_back() {
    let home = Home::new();
    let backup = home.dir.with_extension("backup");
    let up = home.start(&["--restart"]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("first", "1").await.unwrap();
    let flags = ["--full-every", "2s", "--keep", "0"];
    let stop = Arc::new(AtomicBool::new(false));
    let (written, writer) = write_on(up.urls.clone(), Arc::clone(&stop));
    let mut runs = Running::start(&up.urls, &backup, &flags);
    for (id, pid) in up.pids.clone() {
        let so_far = written.load(Ordering::Relaxed);
        eventually("writes go on", || async {
            (written.load(Ordering::Relaxed) > so_far + 50).then_some(())
        })
        .await;
        signal(pid, Signal::KILL);
        if id != 2 {
            drop(runs);
            runs = Running::start(&up.urls, &backup, &flags);
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    for url in &up.urls {
        eventually("all replicas are back", || Client::try_connect(url)).await;
    }
    let client = Client::connect(&up.urls[0]).await;
    eventually("writes go on", || {
        let mut client = client.clone();
        async move { client.put_leased("leased", "v").await.ok() }
    })
    .await;
    client.clone().delete("first").await.unwrap();
    let (last, _) = converged(&up.urls).await;
    has_come(&backup, last).await;
    drop(runs);
    let fulls = Folder::open(&backup).unwrap().fulls().unwrap();
    let first = fulls[0].revision;
    let said = output(&mut verify(&backup));
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        said.contains(&format!("revisions {first} to {last}")),
        "{said}"
    );
    for revision in [first, (first + last) / 2, last - 1, last] {
        let out = home.dir.with_extension(format!("{revision}.db"));
        output(&mut restore(
            &backup,
            &out,
            &["--to-revision", &revision.to_string()],
        ));
        let (_, expected) = hash_at(&up.urls[0], revision).await;
        assert_eq!(hash_of(&out).await, (revision, expected));
    }
}

/// Scenario: the backup stands still while history is compacted that it has not yet. It goes on from a full snapshot,
/// and what it lacks is refused.
#[tokio::test]
async fn what_was_compacted_before_it_came_is_refused() {
    let home = Home::new();
    let backup = home.dir.with_extension("backup");
    let up = home.start(&["--replicas", "1"]);
    let mut client = Client::connect(&up.urls[0]).await;
    let once = |flags: &[&str]| output(&mut run(&up.urls, &backup, flags));
    let said = String::from_utf8(once(&["--once"]).stdout).unwrap();
    assert!(said.contains("full snapshot: revision 1"), "{said}");
    for number in 0..20 {
        client.put("a", &number.to_string()).await.unwrap();
    }
    client.compact().await.unwrap();
    client.put("a", "last").await.unwrap();
    let runs = Running::start(&up.urls, &backup, &[]);
    has_come(&backup, 22).await;
    drop(runs);
    let out = home.dir.with_extension("db");
    expect_failure(
        &mut restore(&backup, &out, &["--to-revision", "15"]),
        1,
        "the changes up to revision 15 are not all there",
    );
    let said = String::from_utf8(output(&mut restore(&backup, &out, &[])).stdout).unwrap();
    assert!(said.contains("restored: revision 22 of 20"), "{said}");
    expect_failure(
        &mut restore(&backup, &out, &[]),
        1,
        "there is a file already",
    );
    assert_eq!(hash_of(&out).await, hash_at(&up.urls[0], 0).await);
}

/// Each thing that can be wrong is said, and what to do.
#[tokio::test]
async fn bad_input_is_named() {
    let home = Home::new();
    let backup: PathBuf = home.dir.with_extension("backup");
    let out = home.dir.with_extension("db");
    expect_failure(&mut verify(&backup), 1, "there is no backup");
    expect_failure(
        &mut restore(&backup, &out, &["--to-time", "yesterday"]),
        2,
        "give a moment such as 2026-11-27T12:00:00Z, or so long ago: 10m",
    );
    let nobody = [format!("127.0.0.1:{}", home.port)];
    expect_failure(&mut run(&nobody, &backup, &["--once"]), 1, "is it running?");
    let up = home.start(&["--replicas", "1"]);
    output(&mut run(&up.urls, &backup, &["--once"]));
    let other = Home::new();
    let other = other.start(&["--replicas", "1"]);
    expect_failure(
        &mut run(&other.urls, &backup, &["--once"]),
        1,
        "name another folder",
    );
    let runs = Running::start(&up.urls, &backup, &[]);
    eventually("it goes on there", || async {
        backup.join("metrics.prom").exists().then_some(())
    })
    .await;
    expect_failure(
        &mut run(&up.urls, &backup, &["--once"]),
        1,
        "another quorate backup writes there",
    );
    drop(runs);
    let full = Folder::open(&backup)
        .unwrap()
        .fulls()
        .unwrap()
        .remove(0)
        .path;
    let mut bytes = fs::read(&full).unwrap();
    bytes[100] ^= 1;
    fs::write(&full, bytes).unwrap();
    expect_failure(&mut verify(&backup), 1, "its digest does not match");
    expect_failure(
        &mut restore(&backup, &out, &[]),
        1,
        "its digest does not match",
    );
    assert!(!out.exists());
}
