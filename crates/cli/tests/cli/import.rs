//! Snapshots for clients, and clusters that begin with them.

use crate::support::alarms::{alarm, know_alarms, listed, member};
use crate::support::{
    Client, Home, Up, channel, converged, eventually, expect_failure, free_ports, output, quorate,
    write_on,
};
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{AlarmAction, AlarmType, SnapshotRequest, SnapshotResponse};
use quorate_etcd_snapshot::{FileError, StateReader};
use quorate_face_etcd::client::MaintenanceClient;
use quorate_server::read_meta;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tonic::{Code, Status, Streaming};

/// More than connections hold of an answer that nobody reads.
const LONG: usize = 100_000;

async fn begin_snapshot(url: &str) -> Result<Streaming<SnapshotResponse>, Status> {
    let mut client = MaintenanceClient::new(channel(url).await);
    let answer = client.snapshot(SnapshotRequest::default()).await;
    Ok(answer?.into_inner())
}

/// A whole snapshot, if the messages are as a client expects them.
async fn snapshot(url: &str) -> Result<Bytes, Status> {
    let mut messages = begin_snapshot(url).await?;
    let (mut all, mut remaining) = (Vec::new(), Vec::new());
    while let Some(message) = messages.message().await? {
        all.extend_from_slice(&message.blob);
        remaining.push((message.remaining_bytes, all.len()));
    }
    let bytes = all.len() as u64 - 32;
    for (left, so_far) in remaining {
        assert_eq!(left, bytes.saturating_sub(so_far as u64));
    }
    Ok(all.into())
}

fn import(file: &Path, into: &Path, flags: &[&str]) -> Command {
    let mut command = quorate();
    command.args(["import", "--etcd-snapshot"]).arg(file);
    command.arg("--data-dir").arg(into).args(flags);
    command
}

/// Scenario: keys with history, deleted ones, a lease; half of the history is compacted. What a snapshot of one
/// replica begins is a cluster with the same revision and the same digest of everything.
#[tokio::test]
async fn a_cluster_that_begins_with_a_snapshot_is_equal_to_the_one_it_is_of() {
    let (first, second) = (Home::new(), Home::new());
    let up = first.start(&[]);
    let mut client = Client::connect(&up.urls[0]).await;
    for number in 0..60 {
        if number == 30 {
            client.compact().await.unwrap();
        }
        let key = (number % 20).to_string();
        client.put(&key, &number.to_string()).await.unwrap();
    }
    client.delete("3").await.unwrap();
    client.put_leased("leased", "v").await.unwrap();
    let before = converged(&up.urls).await;
    let bytes = snapshot(&up.urls[1]).await.unwrap();
    assert!(up.stop().success());
    let file = first.dir.join("etcd.db");
    fs::write(&file, &bytes).unwrap();
    output(&mut import(&file, &second.dir, &["--port", &second.port]));
    let up = second.start(&[]);
    assert_eq!(converged(&up.urls).await, before);
    let mut client = Client::connect(&up.urls[2]).await;
    client.put("3", "again").await.unwrap();
    assert_eq!(client.version_of("3").await.unwrap(), 1);
    assert_eq!(client.version_of("5").await.unwrap(), 3);
    let (revision, _) = client.hash().await;
    assert_eq!(revision, before.0 + 1);
}

/// Scenario: two alarms are raised, of a member and of none, when a snapshot is made. The cluster that begins with it
/// has them from the beginning on, until they are disarmed.
#[tokio::test]
async fn alarms_of_a_snapshot_hold_in_the_cluster_that_begins_with_it() {
    let (first, second) = (Home::new(), Home::new());
    let up = first.start(&[]);
    know_alarms(&up).await;
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "1").await.unwrap();
    let raised = [0, 2].map(|id| member(id, AlarmType::Nospace));
    for one in raised {
        alarm(&up.urls[0], AlarmAction::Activate, one).await;
    }
    let bytes = snapshot(&up.urls[1]).await.unwrap();
    assert!(up.stop().success());
    let file = first.dir.join("etcd.db");
    fs::write(&file, &bytes).unwrap();
    let said = output(&mut import(&file, &second.dir, &["--port", &second.port]));
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("alarm NOSPACE is raised"), "{said}");
    let up = second.start(&[]);
    for url in &up.urls {
        assert_eq!(listed(url).await, raised);
        let mut client = Client::connect(url).await;
        let refused = client.put("a", "2").await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    }
    for one in raised {
        alarm(&up.urls[2], AlarmAction::Deactivate, one).await;
    }
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "2").await.unwrap();
    assert_eq!(client.version_of("a").await.unwrap(), 2);
}

/// Scenario: clients write all the time, values are kept apart. A snapshot is one moment of that: revisions are whole
/// and in order. A second one at the same replica is refused until the first has ended, also by losing its client.
#[tokio::test]
async fn snapshots_are_of_one_moment_and_made_one_at_a_time() {
    let home = Home::new();
    let up = home.start(&["--protocol", "rs-paxos"]);
    let mut client = Client::connect(&up.urls[0]).await;
    for number in 0..100 {
        let value = number.to_string().repeat(LONG);
        client.put(&format!("long {number}"), &value).await.unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (acknowledged, writer) = write_on(up.urls.clone(), Arc::clone(&stop));
    let unread = begin_snapshot(&up.urls[0]).await.unwrap();
    let why = snapshot(&up.urls[0]).await.unwrap_err();
    assert_eq!(why.code(), Code::ResourceExhausted, "{why}");
    assert!(why.message().contains("another snapshot"), "{why}");
    let written = acknowledged.load(Ordering::SeqCst);
    let bytes = snapshot(&up.urls[1])
        .await
        .expect("another replica makes another");
    drop(unread);
    let again = || async { snapshot(&up.urls[0]).await.ok() };
    let second = eventually("the first one is over", again).await;
    stop.store(true, Ordering::SeqCst);
    writer.await.unwrap();
    for bytes in [bytes, second] {
        let reader = StateReader::open_snapshot(bytes).unwrap();
        let (mut last, mut long) = (1, 0);
        let each = reader.each_key(|record| {
            let main = record.revision.main;
            assert!(main == last + 1, "revision {main} behind {last}");
            last = main;
            let is_long = record.kv.value.len() >= LONG;
            long += u32::from(is_long);
            Ok::<_, FileError>(())
        });
        each.unwrap();
        assert_eq!(long, 100);
        assert!(last > 100 + i64::from(written));
    }
    for replica in ["1", "2"] {
        let left = fs::read_dir(home.dir.join(replica)).unwrap().flatten();
        let mut left =
            left.filter(|entry| entry.file_name().to_string_lossy().contains("snapshot"));
        assert!(left.next().is_none(), "a file is left in folder {replica}");
    }
}

#[tokio::test]
async fn what_is_damaged_or_no_snapshot_is_refused_and_nothing_is_begun() {
    let home = Home::new();
    let up = home.start(&[]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "1").await.unwrap();
    let bytes = snapshot(&up.urls[0]).await.unwrap();
    assert!(up.stop().success());
    let (file, into) = (home.dir.join("etcd.db"), home.dir.join("new"));
    let mut wrong = bytes.to_vec();
    wrong[13_000] ^= 1;
    let text = b"no database".repeat(2000);
    for (content, flags, message) in [
        (&wrong[..], &[][..], "its digest does not match"),
        (&bytes[..bytes.len() - 32], &[], "--skip-hash-check"),
        (&bytes[..5000], &["--skip-hash-check"], "it was cut short"),
        (
            &text,
            &["--skip-hash-check"],
            "it does not begin with a page",
        ),
        (
            &bytes,
            &["--durability", "memory"],
            "no folder that could hold",
        ),
    ] {
        fs::write(&file, content).unwrap();
        expect_failure(&mut import(&file, &into, flags), 1, message);
        let is_empty = fs::read_dir(&into).map_or(true, |mut found| found.next().is_none());
        assert!(is_empty, "{message}");
    }
    expect_failure(&mut import(&file, &home.dir, &[]), 2, "is not empty");
    let alone = ["--bump-revision", "9"];
    expect_failure(&mut import(&file, &into, &alone), 2, "--mark-compacted");
}

/// Scenario: a folder as an etcd leaves it. It is no replica's, and says how to become one; revisions go ahead.
#[tokio::test]
async fn an_etcds_folder_is_imported_and_not_served() {
    let home = Home::new();
    let up = home.start(&[]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "1").await.unwrap();
    let bytes = snapshot(&up.urls[0]).await.unwrap();
    assert!(up.stop().success());
    let etcd = home.dir.join("default.etcd");
    fs::create_dir_all(etcd.join("member/snap")).unwrap();
    fs::create_dir_all(etcd.join("member/wal")).unwrap();
    fs::write(etcd.join("member/snap/db"), &bytes[..bytes.len() - 32]).unwrap();
    let mut serve = quorate();
    serve.arg("serve").arg("--data-dir").arg(&etcd);
    expect_failure(&mut serve, 1, "quorate import --etcd-data-dir");
    let into = home.dir.join("new");
    let mut import = quorate();
    import.arg("import").arg("--etcd-data-dir").arg(&etcd);
    import.arg("--data-dir").arg(&into);
    import.args(["--replicas=1", "--bump-revision=1000", "--mark-compacted"]);
    output(&mut import);
    let up = Up::start(&into, &["--port", &home.port]);
    let mut client = Client::connect(&up.urls[0]).await;
    assert_eq!(client.get("a").await.unwrap().as_deref(), Some("1"));
    assert_eq!(client.hash().await.0, 1002);
}

/// The flags that name a member, of three that have these ports for their peers.
fn member_flags(number: u16, ports: u16) -> Vec<String> {
    let peer = |number: u16| format!("m{number}=http://127.0.0.1:{}", ports + number);
    let list: Vec<String> = (1..=3).map(peer).collect();
    vec![
        format!("--name=m{number}"),
        format!("--initial-cluster={}", list.join(",")),
        "--initial-cluster-token=restored".to_owned(),
    ]
}

/// The files of a folder's snapshots.
fn snapshot_files(dir: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(dir.join("snap"))
        .unwrap()
        .map(|found| found.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Scenario: three members are begun apart, each by its name, as `etcdutl snapshot restore` would; they are one
/// cluster. A fourth begin, with another state, is of another one.
#[tokio::test]
async fn members_that_are_begun_apart_are_one_cluster() {
    let home = Home::new();
    let up = home.start(&[]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "1").await.unwrap();
    client.put_leased("leased", "v").await.unwrap();
    let file = home.dir.join("etcd.db");
    fs::write(&file, snapshot(&up.urls[0]).await.unwrap()).unwrap();
    let later = home.dir.join("later.db");
    client.put("a", "2").await.unwrap();
    fs::write(&later, snapshot(&up.urls[0]).await.unwrap()).unwrap();
    let end = client.hash().await;
    assert!(up.stop().success());

    let ports = free_ports(8);
    let into = |number: u16| home.dir.join(format!("m{number}"));
    let begin = |file: &Path, number: u16, into: &Path| {
        let flags = member_flags(number, ports);
        let mut command = import(file, into, &[]);
        command.args(flags);
        String::from_utf8(output(&mut command).stdout).unwrap()
    };
    for number in 1..=3 {
        let said = begin(&later, number, &into(number));
        assert!(said.contains(&format!("member m{number} of 3")), "{said}");
    }
    let files = snapshot_files(&into(1));
    assert!(!files.is_empty());
    assert!((2..=3).all(|number| snapshot_files(&into(number)) == files));
    let cluster = |number: u16| read_meta(&into(number)).unwrap().cluster;
    assert_eq!(cluster(1), cluster(3));
    begin(&file, 3, &into(4));
    assert_ne!(cluster(4), cluster(3));

    let url = |number: u16| format!("http://127.0.0.1:{}", ports + 4 + number);
    let start = |number: u16| {
        let mut command = tokio::process::Command::from(quorate());
        command.arg("etcd").args(member_flags(number, ports));
        command.arg(format!("--data-dir={}", into(number).display()));
        command.arg(format!("--listen-client-urls={}", url(number)));
        command.arg(format!("--advertise-client-urls={}", url(number)));
        let peer = format!("http://127.0.0.1:{}", ports + number);
        command.arg(format!("--listen-peer-urls={peer}"));
        command.arg(format!("--initial-advertise-peer-urls={peer}"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.kill_on_drop(true).spawn().unwrap()
    };
    let _running: Vec<_> = (1..=3).map(start).collect();
    let urls: Vec<String> = (1..=3).map(url).collect();
    for url in &urls {
        eventually("a member serves", || Client::try_connect(url)).await;
    }
    assert_eq!(converged(&urls).await, end);
    let mut client = Client::connect(&urls[1]).await;
    client.put("a", "3").await.unwrap();
    assert_eq!(client.version_of("a").await.unwrap(), 3);
}

#[test]
fn a_member_that_makes_no_sense_is_not_begun() {
    let home = Home::new();
    fs::create_dir_all(&home.dir).unwrap();
    let (file, into) = (home.dir.join("etcd.db"), home.dir.join("m1"));
    let list = "--initial-cluster=m1=http://127.0.0.1:1,m2=http://127.0.0.1:2";
    for (flags, message) in [
        (&["--name=m1"][..], "--initial-cluster"),
        (&["--name=m3", list], "--name m3 is not in"),
        (
            &["--name=m1", list, "--replicas=3"],
            "--replicas is about a whole cluster",
        ),
        (
            &[
                "--name=m1",
                list,
                "--initial-advertise-peer-urls=http://127.0.0.1:2",
            ],
            "what --initial-cluster has for m1: http://127.0.0.1:1",
        ),
    ] {
        expect_failure(&mut import(&file, &into, flags), 2, message);
        assert!(!into.exists(), "{message}");
    }
}
