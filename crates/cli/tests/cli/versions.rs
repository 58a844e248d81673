//! A cluster upgraded and downgraded, one replica after the other, between two wire versions, while
//! clients write; and the feature level, which goes up once all know it and never back.

use crate::support;
use crate::support::{
    Client, converged, eventually, expect_failure, free_ports, metric, output, quorate, signal,
    write_on,
};
use quorate_etcd_api::etcdserverpb::MemberListRequest;
use quorate_face_etcd::client::ClusterClient;
use quorate_server::{RAFT_LEVEL, SupportedVersions};
use rustix::process::Signal;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::task::JoinHandle;

/// How an older program spoke.
const OLD: &[&str] = &["--wire-version", "1"];

/// How the last program spoke that had no Raft.
const WITHOUT_RAFT: &[&str] = &["--wire-version", "6"];

/// Three replicas, each of a version of its own.
struct Trio {
    home: tempfile::TempDir,
    ports: u16,
    running: [Option<Child>; 3],
}

impl Trio {
    fn begin(flags: &[&str]) -> Trio {
        let mut trio = Trio {
            home: tempfile::tempdir().unwrap(),
            ports: free_ports(6),
            running: [None, None, None],
        };
        let new = [&["--initial-cluster-state", "new"], flags].concat();
        (0..3).for_each(|at| trio.start(at, &new));
        trio
    }

    fn url(&self, at: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports + 2 * at as u16)
    }

    fn urls(&self) -> Vec<String> {
        (0..3).map(|at| self.url(at)).collect()
    }

    fn peer_url(&self, at: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports + 2 * at as u16 + 1)
    }

    fn log(&self, at: usize) -> PathBuf {
        self.home.path().join(format!("{at}.log"))
    }

    fn said(&self, at: usize) -> String {
        fs::read_to_string(self.log(at)).unwrap_or_default()
    }

    /// Starts a replica, which tells nobody but itself where it serves clients.
    fn start(&mut self, at: usize, flags: &[&str]) {
        let peers: Vec<String> = (0..3)
            .map(|at| format!("{}={}", at + 1, self.peer_url(at)))
            .collect();
        let log = File::options().create(true).append(true).open(self.log(at));
        let child = quorate()
            .args(["serve", "--id", &(at + 1).to_string()])
            .args(["--listen-client-urls", &self.url(at)])
            .args(["--listen-peer-urls", &self.peer_url(at)])
            .args(["--initial-cluster", &peers.join(",")])
            .arg("--data-dir")
            .arg(self.home.path().join(at.to_string()))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn();
        self.running[at] = Some(child.unwrap());
    }

    fn stop(&mut self, at: usize) {
        if let Some(mut child) = self.running[at].take() {
            signal(child.id(), Signal::TERM);
            child.wait().unwrap();
        }
    }

    /// Another program in the place of the one that runs.
    async fn replace(&mut self, at: usize, flags: &[&str]) {
        self.stop(at);
        self.start(at, flags);
        let url = self.url(at);
        eventually("it serves", || async {
            let mut client = Client::try_connect(&url).await?;
            client.put("probe", "x").await.ok()
        })
        .await;
    }

    /// Replicas of which this one knows where clients reach them.
    async fn known_to(&self, at: usize) -> Vec<u64> {
        let mut cluster = ClusterClient::new(support::channel(&self.url(at)).await);
        let list = cluster.member_list(MemberListRequest::default()).await;
        let members = list.unwrap().into_inner().members.into_iter();
        let known = members.filter(|member| !member.client_urls.is_empty());
        known.map(|member| member.id).collect()
    }

    async fn level(&self, at: usize) -> f64 {
        metric(&self.url(at), "quorate_feature_level").await
    }
}

impl Drop for Trio {
    fn drop(&mut self) {
        (0..3).for_each(|at| self.stop(at));
    }
}

/// A client that writes to all replicas, one after the other.
struct Load {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU32>,
    task: JoinHandle<()>,
}

impl Load {
    async fn begin(trio: &Trio) -> Load {
        for url in trio.urls() {
            eventually("it serves", || Client::try_connect(&url)).await;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (written, task) = write_on(trio.urls(), Arc::clone(&stop));
        Load {
            stop,
            written,
            task,
        }
    }

    /// Waits for more than so many writes.
    async fn more(&self, count: u32) {
        let before = self.written.load(Ordering::Relaxed);
        eventually("writes go on", || async {
            (self.written.load(Ordering::Relaxed) > before + count).then_some(())
        })
        .await;
    }

    /// Ends it, and says how many writes were answered.
    async fn end(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        self.written.load(Ordering::Relaxed)
    }
}

/// Everything that was written is there.
async fn has_all(client: &mut Client, written: u32) {
    for key in 0..written {
        let found = client.get(&format!("n{key}")).await.unwrap();
        assert_eq!(found.as_deref(), Some("v"), "n{key}");
    }
}

/// Scenario: replicas of an older program are replaced by newer ones, one by one, and back, and forth
/// again, while a client writes. As long as one of them is old the cluster means what the old one
/// knows; in the end it means more, and the old program says that it cannot come back.
#[tokio::test]
async fn a_cluster_is_upgraded_and_downgraded_under_load_until_all_know_more() {
    let mut trio = Trio::begin(OLD);
    let load = Load::begin(&trio).await;
    load.more(20).await;
    assert_eq!(trio.known_to(0).await, [1], "an old one hears of nobody");
    trio.replace(0, &[]).await;
    trio.replace(1, &[]).await;
    load.more(20).await;
    let expected = vec![1, 2];
    eventually("new ones tell each other more", || async {
        (trio.known_to(0).await == expected).then_some(())
    })
    .await;
    let newest = format!("wire_version={}", SupportedVersions::SHIPPED.newest);
    assert!(trio.said(0).contains(&newest), "{}", trio.said(0));
    trio.replace(1, OLD).await;
    trio.replace(0, OLD).await;
    load.more(20).await;
    for at in 0..3 {
        assert_eq!(trio.level(at).await, 1.0);
        trio.replace(at, &[]).await;
    }
    for at in 0..3 {
        eventually("the level is raised", || async {
            (trio.level(at).await == f64::from(SupportedVersions::SHIPPED.level())).then_some(())
        })
        .await;
    }
    load.more(20).await;
    let written = load.end().await;

    // Now everybody knows of everybody, whoever is there.
    for at in 0..3 {
        eventually("all is published", || async {
            (trio.known_to(at).await == [1, 2, 3]).then_some(())
        })
        .await;
    }
    trio.stop(2);
    trio.replace(0, &[]).await;
    assert_eq!(trio.known_to(0).await, [1, 2, 3]);
    trio.start(2, OLD);
    let ended = std::sync::Mutex::new(trio.running[2].take().unwrap());
    let status = eventually("the old program ends", || async {
        ended.lock().unwrap().try_wait().unwrap()
    })
    .await;
    assert_eq!(status.code(), Some(1));
    let level = SupportedVersions::SHIPPED.level();
    let why = format!("the cluster is at feature level {level}, and this program knows 1");
    assert!(trio.said(2).contains(&why), "{}", trio.said(2));
    trio.start(2, &[]);
    let url = trio.url(2);
    eventually("the new one serves", || Client::try_connect(&url)).await;
    converged(&trio.urls()).await;
    has_all(&mut Client::connect(&url).await, written).await;
}

/// Scenario: a cluster of the last program without Raft is upgraded under load, one replica after the other. It goes on
/// with Raft once all know it, and not before; and back.
#[tokio::test]
async fn raft_comes_with_the_last_of_the_upgraded() {
    let mut trio = Trio::begin(WITHOUT_RAFT);
    let load = Load::begin(&trio).await;
    let url = trio.url(0);
    let switch = |to| {
        let mut command = quorate();
        command.args(["cluster", "switch", to, "--endpoints", &url]);
        command
    };
    for at in 0..3 {
        load.more(20).await;
        trio.replace(at, &[]).await;
        if at < 2 {
            assert_eq!(trio.level(at).await, 6.0);
            expect_failure(
                &mut switch("raft"),
                1,
                "is unknown to the feature level of this cluster",
            );
        }
    }
    for at in 0..3 {
        eventually("the level is raised", || async {
            (trio.level(at).await >= f64::from(RAFT_LEVEL)).then_some(())
        })
        .await;
    }
    for to in ["raft", "rabia", "raft"] {
        let done = output(&mut switch(to));
        assert!(done.status.success(), "{to}: {done:?}");
        load.more(20).await;
    }
    let written = load.end().await;
    trio.replace(1, &[]).await;
    converged(&trio.urls()).await;
    has_all(&mut Client::connect(&trio.url(1)).await, written).await;
}
