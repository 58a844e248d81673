//! Alarms of real clusters, disks that are full, and history that is forgotten by itself.

use crate::support;
use crate::support::alarms::{alarm, know_alarms, listed, member};
use crate::support::{Client, Home, channel, converged, eventually};
use quorate_etcd_api::etcdserverpb::{
    AlarmAction, AlarmMember, AlarmType, HashKvRequest, RangeRequest, StatusRequest, StatusResponse,
};
use quorate_face_etcd::client::{KvClient, MaintenanceClient};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use tonic::Code;

const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";
const CORRUPT: &str = "etcdserver: corrupt cluster";

async fn all_list(urls: &[String], alarms: &[AlarmMember]) {
    for url in urls {
        eventually("the alarms are listed", || async {
            (listed(url).await == alarms).then_some(())
        })
        .await;
    }
}

async fn status(url: &str) -> StatusResponse {
    let mut maintenance = MaintenanceClient::new(channel(url).await);
    let status = maintenance.status(StatusRequest {}).await;
    status.expect("it answers").into_inner()
}

async fn refused(url: &str) -> (Code, String) {
    let put = Client::connect(url).await.put("refused", "x").await;
    let status = put.expect_err("it is refused");
    (status.code(), status.message().to_owned())
}

fn full() -> (Code, String) {
    (Code::ResourceExhausted, NO_SPACE.to_owned())
}

/// Scenario: somebody raises alarms, as etcd's clients can. Every member lists them and refuses what etcd refuses, also
/// after all were stopped, until they are disarmed. On a cluster that has just begun no size is 0.
#[tokio::test]
async fn alarms_that_are_raised_hold_for_all_until_they_are_disarmed() {
    let home = Home::new();
    let up = home.start(&[]);
    for url in &up.urls {
        let fresh = status(url).await;
        let sizes = (fresh.db_size_in_use, fresh.db_size, fresh.db_size_quota);
        assert!(
            0 < sizes.0 && sizes.0 <= sizes.1 && sizes.1 <= sizes.2,
            "{sizes:?}"
        );
        assert!(fresh.raft_index > 0 && fresh.raft_applied_index > 0 && fresh.raft_term > 0);
    }
    know_alarms(&up).await;
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "1").await.unwrap();
    let no_space = member(2, AlarmType::Nospace);
    let raised = alarm(&up.urls[0], AlarmAction::Activate, no_space).await;
    assert_eq!(raised, [no_space]);
    all_list(&up.urls, &[no_space]).await;
    for url in &up.urls {
        assert_eq!(refused(url).await, full());
        assert_eq!(status(url).await.errors, ["memberID:2 alarm:NOSPACE"]);
        let (code, health) = support::get(url, "/health").await;
        let expected = r#"{"health":"false","reason":"ALARM NOSPACE"}"#;
        assert_eq!((code, health.as_str()), (503, expected), "{url}");
        assert_eq!(support::get(url, "/health?exclude=NOSPACE").await.0, 200);
    }
    client.delete("a").await.unwrap();
    assert!(up.stop().success());

    let up = home.start(&[]);
    all_list(&up.urls, &[no_space]).await;
    assert_eq!(refused(&up.urls[2]).await, full());
    let corrupt = member(1, AlarmType::Corrupt);
    alarm(&up.urls[1], AlarmAction::Activate, corrupt).await;
    all_list(&up.urls, &[no_space, corrupt]).await;
    let text = CORRUPT.to_owned();
    for url in &up.urls {
        assert_eq!(refused(url).await, (Code::DataLoss, text.clone()));
        let mut client = Client::connect(url).await;
        let read = client.get("a").await.expect_err("who knows what is right");
        assert_eq!((read.code(), read.message()), (Code::DataLoss, CORRUPT));
        let local = RangeRequest {
            key: "a".into(),
            serializable: true,
            ..RangeRequest::default()
        };
        let mut kv = KvClient::new(channel(url).await);
        kv.range(local).await.expect("its own state can be read");
    }
    for alarm_on in [corrupt, no_space] {
        let ended = alarm(&up.urls[2], AlarmAction::Deactivate, alarm_on).await;
        assert_eq!(ended, [alarm_on]);
    }
    all_list(&up.urls, &[]).await;
    for url in &up.urls {
        Client::connect(url).await.put("a", "2").await.unwrap();
        assert_eq!(support::get(url, "/health").await.0, 200);
    }
}

/// A small file system of its own.
struct Disk(PathBuf);

impl Disk {
    /// Has what is in a folder lie on one. `None`, and a word about it, where this process may not mount anything.
    fn below(path: &Path, mib: u32) -> Option<Disk> {
        let before = path.with_extension("before");
        fs::rename(path, &before).unwrap();
        fs::create_dir(path).unwrap();
        let size = format!("size={mib}m");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(path)
            .output();
        let is_mounted = mount.is_ok_and(|output| output.status.success());
        if !is_mounted {
            eprintln!("skipped: this process may not mount a tmpfs, which takes root");
        }
        let disk = is_mounted.then(|| Disk(path.to_owned()))?;
        let copied = Command::new("cp")
            .arg("-a")
            .arg(before.join("."))
            .arg(path)
            .status();
        assert!(copied.unwrap().success());
        fs::remove_dir_all(before).unwrap();
        Some(disk)
    }

    fn grow(&self, mib: u32) {
        let size = format!("remount,size={mib}m");
        let grown = Command::new("mount")
            .args(["-o", &size])
            .arg(&self.0)
            .status();
        assert!(grown.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Room for the first segment of a log and for the second, which is prepared with it, and not for a third.
const SMALL_MIB: u32 = 44;
const LARGE_MIB: u32 = 400;
const VALUE_BYTES: usize = 512 << 10;

/// Writes large values through a replica.
async fn write(url: &str, keys: Range<u32>) {
    let value = "v".repeat(VALUE_BYTES);
    let mut client = Client::connect(url).await;
    for key in keys {
        client.put(&format!("k{key}"), &value).await.unwrap();
    }
}

/// Scenario: the disk of one of three replicas is full. It says so to all, takes no writes and answers reads, linearizable
/// ones, too, also when much more is written through the others than it has room for in memory. Once there is space it
/// takes part again by itself, and has everything.
async fn one_disk_is_full(protocol: &str) {
    let home = Home::new();
    assert!(home.start(&["--protocol", protocol]).stop().success());
    let Some(disk) = Disk::below(&home.dir.join("3"), SMALL_MIB) else {
        return;
    };
    let up = home.start(&[]);
    let urls = up.urls.clone();
    let (first, third) = (&urls[0], &urls[2]);
    know_alarms(&up).await;
    let no_space = member(3, AlarmType::Nospace);
    let mut written = 0;
    // At most what the disk has no room for: the alarm comes then, however fast all this was written.
    while listed(first).await != [no_space] && written < 2 * SMALL_MIB {
        write(first, written..written + 1).await;
        written += 1;
    }
    all_list(&urls, &[no_space]).await;
    assert_eq!(refused(third).await, full());
    let health = support::get(third, "/health").await;
    let expected = r#"{"health":"false","reason":"ALARM NOSPACE"}"#.to_owned();
    assert_eq!(health, (503, expected));
    assert_eq!(support::get(third, "/health?exclude=NOSPACE").await.0, 200);
    assert_eq!(support::get(first, "/health").await.0, 200);
    let mut reader = Client::connect(third).await;

    // Beyond what its log and its memory have room for.
    let next = written + 2 * (16 << 20) / VALUE_BYTES as u32 + 30;
    write(first, written..next).await;
    let said = fs::read_to_string(home.dir.join("3/log.txt")).unwrap();
    assert!(said.contains("takes no part in decisions"), "{said}");
    let mut writer = Client::connect(&urls[1]).await;
    for value in ["1", "2", "3"] {
        writer.put("news", value).await.unwrap();
        let read = reader.get("news").await.expect("reads go on");
        assert_eq!(read.as_deref(), Some(value));
    }

    disk.grow(LARGE_MIB);
    all_list(&urls, &[]).await;
    eventually("it takes writes again", || async {
        let mut client = Client::connect(third).await;
        client.put("through the third", "x").await.ok()
    })
    .await;
    converged(&urls).await;
    assert!(up.stop().success());

    let up = home.start(&[]);
    converged(&up.urls).await;
    let mut reader = Client::connect(&up.urls[2]).await;
    for key in [1, written, next - 1] {
        let value = reader.get(&format!("k{key}")).await.unwrap();
        assert_eq!(value.map(|value| value.len()), Some(VALUE_BYTES), "k{key}");
    }
}

#[tokio::test]
async fn one_disk_is_full_rabia() {
    one_disk_is_full("rabia").await;
}

#[tokio::test]
#[ignore = "the long form: every other protocol"]
async fn one_disk_is_full_others() {
    for protocol in ["multi-paxos", "raft", "rs-paxos", "racos", "chora", "nezha"] {
        eprintln!("{protocol}");
        one_disk_is_full(protocol).await;
    }
}

/// Scenario: the disks of all replicas are full. None takes writes, wherever they come from; reads, deletions and
/// compactions go on; and all is well again once there is space.
#[tokio::test]
async fn all_disks_are_full() {
    let home = Home::new();
    assert!(home.start(&[]).stop().success());
    let mount = |id: u16| Disk::below(&home.dir.join(id.to_string()), SMALL_MIB);
    let Some(disks) = [1, 2, 3].map(mount).into_iter().collect::<Option<Vec<_>>>() else {
        return;
    };
    let up = home.start(&[]);
    know_alarms(&up).await;
    let value = "v".repeat(VALUE_BYTES);
    let mut asked = 0;
    let refusal = loop {
        let mut client = Client::connect(&up.urls[asked % 3]).await;
        let put = client.put(&format!("k{asked}"), &value).await;
        asked += 1;
        match put.map_err(|status| (status.code(), status.message().to_owned())) {
            Ok(()) => {}
            // What was under way when there was no more room stays undecided until there is.
            Err((Code::Unavailable, _)) => {}
            Err(refusal) => break refusal,
        }
        assert!(asked < 200, "so much is written, and no disk is full");
    };
    assert_eq!(refusal, full());
    let all = [1, 2, 3].map(|id| member(id, AlarmType::Nospace));
    all_list(&up.urls, &all).await;
    for url in &up.urls {
        assert_eq!(refused(url).await, full());
        let mut client = Client::connect(url).await;
        client.delete("k0").await.expect("that makes space");
        let read = client.get("k1").await.expect("reads go on");
        assert!(read.is_some());
    }
    let mut client = Client::connect(&up.urls[1]).await;
    client.compact().await.expect("that makes space");
    disks.iter().for_each(|disk| disk.grow(LARGE_MIB));
    all_list(&up.urls, &[]).await;
    for url in &up.urls {
        eventually("it takes writes again", || async {
            Client::connect(url).await.put("again", "x").await.ok()
        })
        .await;
    }
    converged(&up.urls).await;
}

/// Scenario: few keys are written over and over. What is older than a second goes by itself, on every member, and one
/// member alone has it so.
#[tokio::test]
async fn history_goes_by_itself_and_once() {
    let home = Home::new();
    let up = home.start(&["--server-arg=--auto-compaction-retention=1s"]);
    let mut client = Client::connect(&up.urls[1]).await;
    let value = "v".repeat(1024);
    for count in 0..500 {
        client
            .put(&format!("k{}", count % 10), &value)
            .await
            .unwrap();
    }
    for url in &up.urls {
        let maintenance = MaintenanceClient::new(channel(url).await);
        let compacted = eventually("history is compacted to the end", || async {
            let mut maintenance = maintenance.clone();
            let hash = maintenance.hash_kv(HashKvRequest::default()).await.ok()?;
            let hash = hash.into_inner();
            (hash.compact_revision == hash.hash_revision).then_some(hash.compact_revision)
        })
        .await;
        assert!(compacted > 500, "{compacted}");
        eventually("what was compacted is freed", || async {
            (status(url).await.db_size < 50 << 10).then_some(())
        })
        .await;
    }
    let said = |id: u16| fs::read_to_string(home.dir.join(format!("{id}/log.txt"))).unwrap();
    let compactions = [1, 2, 3].map(|id| said(id).matches("is compacted").count());
    assert!(
        compactions[0] > 0 && compactions[1..] == [0, 0],
        "{compactions:?}"
    );
}
