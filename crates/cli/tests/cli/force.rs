//! Disaster recovery: a new cluster by hand, from what is left of one that cannot go on.

use crate::support;
use crate::support::{
    Client, Up, converged, eventually, expect_failure, free_ports, output, quorate, signal,
};
use quorate_etcd_api::etcdserverpb::{Member, MemberAddRequest, MemberListRequest};
use quorate_face_etcd::client::ClusterClient;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Longer than a value that every protocol orders whole.
const LONG: usize = 20_000;

fn value(number: u32) -> String {
    match number % 3 {
        0 => number.to_string(),
        _ => number.to_string().repeat(LONG),
    }
}

/// Writes values of both kinds, each twice.
async fn write(url: &str, count: u32) {
    let mut client = Client::connect(url).await;
    for number in (0..count).chain(0..count) {
        let put = client.put(&number.to_string(), &value(number)).await;
        put.unwrap();
    }
}

async fn expect_all(url: &str, numbers: impl Iterator<Item = u32>) {
    let mut client = Client::connect(url).await;
    eventually("it answers reads", || {
        let mut client = client.clone();
        async move { client.get("0").await.ok() }
    })
    .await;
    for number in numbers {
        let found = client.get(&number.to_string()).await.unwrap();
        assert!(found == Some(value(number)), "{number} through {url}");
    }
}

fn force(into: &Path, folders: &[PathBuf], flags: &[&str]) -> Command {
    let mut command = quorate();
    command.args(["cluster", "force-new", "--into"]).arg(into);
    for folder in folders {
        command.arg("--data-dir").arg(folder);
    }
    command.args(flags);
    command
}

/// A replica of the new cluster.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    async fn start(dir: &Path, id: u16, ports: u16, flags: &[&str]) -> Served {
        let url = format!("http://127.0.0.1:{}", ports + 2 * id);
        let child = quorate()
            .args(["serve", "--id", &id.to_string(), "--data-dir"])
            .arg(dir)
            .args(["--listen-client-urls", &url])
            .args(["--listen-peer-urls", &peer_url(id, ports)])
            .args(flags)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let served = Served { child, url };
        eventually("it serves", || Client::try_connect(&served.url)).await;
        served
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        signal(self.child.id(), Signal::KILL);
        let _ = self.child.wait();
    }
}

fn peer_url(id: u16, ports: u16) -> String {
    format!("http://127.0.0.1:{}", ports + 2 * id + 1)
}

fn history(url: &str) -> Vec<Value> {
    let page = output(quorate().args(["cluster", "history", "--json", "--endpoints", url]));
    let page: Value = serde_json::from_slice(&page.stdout).unwrap();
    page["epochs"].as_array().unwrap().clone()
}

/// Scenario: of five machines with a third of each long value each two are gone for good. One folder is
/// too little, which is said; of three a cluster comes that has everything, and takes new members.
#[tokio::test]
async fn three_of_five_folders_make_a_cluster_with_everything() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("cluster");
    let ports = free_ports(26);
    let flags = ["--protocol", "rs-paxos", "--code", "5,3", "--port"];
    let up = Up::start(&dir, &[&flags[..], &[&ports.to_string()]].concat());
    write(&up.urls[0], 9).await;
    converged(&up.urls).await;
    let urls = up.urls.join(",");
    let folders = [1, 3, 5].map(|id| dir.join(id.to_string()));
    let into = home.path().join("new");
    let running = force(&into, &folders, &["--endpoints", &urls]);
    expect_failure(&mut { running }, 1, "is in use");
    assert!(up.stop().success());

    let one = &folders[..1];
    expect_failure(
        &mut force(&into, one, &[]),
        2,
        "it is not known whether the cluster still has a quorum",
    );
    let gone = "  1 (present value, of revision 12)\n";
    expect_failure(&mut force(&into, one, &["--force"]), 1, gone);
    let made = output(&mut force(&into, &folders, &["--endpoints", &urls]));
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(made.status.success(), "{said}");
    assert!(said.contains("WARNING: this is a new cluster"), "{said}");
    expect_failure(
        &mut force(&into, &folders, &["--force"]),
        1,
        "never bootstrapped again",
    );

    let ports = ports + 10;
    let id = said.split_once("only member: replica ").unwrap().1;
    let id: u16 = id[..1].parse().unwrap();
    assert!([1, 3, 5].contains(&id), "{said}");
    let first = Served::start(&into, id, ports, &[]).await;
    expect_all(&first.url, 0..9).await;
    let epochs = history(&first.url);
    assert_eq!(epochs.len(), 2);
    assert_eq!(
        (&epochs[1]["forced"], &epochs[1]["members"][0]),
        (&true.into(), &id.into())
    );

    let new = id + 1;
    let mut cluster = ClusterClient::new(support::channel(&first.url).await);
    let request = MemberAddRequest {
        peer_urls: vec![peer_url(new, ports)],
        is_learner: false,
    };
    let added = cluster.member_add(request).await.unwrap().into_inner();
    assert_eq!(added.member.unwrap().id, u64::from(new));
    let (one, other) = (peer_url(id, ports), peer_url(new, ports));
    let list = format!("{id}={one},{new}={other}");
    let dir = home.path().join("second");
    let second = Served::start(&dir, new, ports, &["--initial-cluster", &list]).await;
    eventually("both are members", || {
        let mut cluster = cluster.clone();
        async move {
            let list = cluster.member_list(MemberListRequest::default()).await;
            let members = list.ok()?.into_inner().members;
            let is_done = members.len() == 2 && members.iter().all(votes);
            is_done.then_some(())
        }
    })
    .await;
    write(&second.url, 12).await;
    converged(&[first.url.clone(), second.url.clone()]).await;
    expect_all(&second.url, 0..12).await;
}

/// Scenario: one folder of three is left, by itself; revisions go far ahead. While the others reach a
/// quorum, no cluster is made without saying so.
#[tokio::test]
async fn one_survivor_of_a_leaderless_cluster_goes_on_alone() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("cluster");
    let ports = free_ports(14);
    let mut up = Up::start(&dir, &["--port", &ports.to_string()]);
    write(&up.urls[0], 6).await;
    converged(&up.urls).await;
    signal(up.pids[&1], Signal::TERM);
    up.wait_for("replica 1 (process");
    let (into, folder) = (home.path().join("new"), [dir.join("1")]);
    let others = up.urls[1..].join(",");
    let asked = ["--endpoints", &others];
    expect_failure(
        &mut force(&into, &folder, &asked),
        1,
        "reaches a quorum: the cluster goes on",
    );
    for id in [2, 3] {
        signal(up.pids[&id], Signal::KILL);
        up.wait_for(&format!("replica {id} (process"));
    }
    for id in ["2", "3"] {
        fs::remove_dir_all(dir.join(id)).unwrap();
    }
    let flags = [&asked[..], &["--bump-revision"]].concat();
    let made = output(&mut force(&into, &folder, &flags));
    assert!(made.status.success(), "{made:?}");

    for _ in 0..2 {
        let alone = Served::start(&into, 1, ports + 6, &[]).await;
        expect_all(&alone.url, 0..6).await;
        let mut client = Client::connect(&alone.url).await;
        client.put("goes", "on").await.unwrap();
        let (revision, _) = client.hash().await;
        assert!(revision > 1_000_000_000, "{revision}");
        assert_eq!(client.get("goes").await.unwrap().as_deref(), Some("on"));
    }
}

/// Scenario: of a coded cluster one folder is left. What cannot be rebuilt is given up when that is said,
/// and the rest goes on.
#[tokio::test]
async fn values_of_which_too_little_is_left_are_given_up_on_demand() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("cluster");
    let ports = free_ports(20);
    let flags = ["--protocol", "rs-paxos", "--code", "5,3", "--port"];
    let up = Up::start(&dir, &[&flags[..], &[&ports.to_string()]].concat());
    write(&up.urls[0], 6).await;
    converged(&up.urls).await;
    assert!(up.stop().success());
    let into = home.path().join("new");
    let made = output(&mut force(
        &into,
        &[dir.join("2")],
        &["--force", "--drop-unreadable"],
    ));
    let said = String::from_utf8(made.stderr).unwrap();
    assert!(made.status.success(), "{said}");
    for number in [1, 2, 4, 5] {
        assert!(
            said.contains(&format!("  {number} (present value")),
            "{said}"
        );
    }
    let alone = Served::start(&into, 2, ports + 10, &[]).await;
    expect_all(&alone.url, [0, 3].into_iter()).await;
    let mut client = Client::connect(&alone.url).await;
    assert_eq!(client.get("1").await.unwrap(), None);
    write(&alone.url, 6).await;
    expect_all(&alone.url, 0..6).await;
}

/// One that never started is listed as what it is to become, without a name.
fn votes(one: &Member) -> bool {
    !one.is_learner && !one.name.is_empty()
}
