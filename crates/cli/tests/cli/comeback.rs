//! Replicas that lost what they promised: a deleted data folder, a restart without disk.

use crate::support;
use crate::support::{
    Client, Home, Up, converged, eventually, expect_failure, free_ports, metric, metrics, quorate,
    signal,
};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

async fn put_all(url: &str, keys: std::ops::Range<u32>) {
    let mut client = Client::connect(url).await;
    for i in keys {
        client
            .put(&format!("k{i}"), &format!("v{i}"))
            .await
            .unwrap();
    }
}

async fn expect_all(url: &str, keys: std::ops::Range<u32>) {
    let mut client = Client::connect(url).await;
    for i in keys {
        let value = client.get(&format!("k{i}")).await.unwrap();
        assert_eq!(value, Some(format!("v{i}")), "k{i} through {url}");
    }
}

/// Waits until the replica has got back to where it may vote.
async fn rejoined(url: &str) {
    let done = "quorate_branches_total{branch=\"rejoined\"} 1";
    eventually("the replica has rejoined", || async {
        metrics(url).await.contains(done).then_some(())
    })
    .await;
}

/// Waits until the replica takes part as a new member, from this epoch on.
async fn came_back(url: &str, epoch: u32) {
    eventually("the replica is a member in a new life", || async {
        let is_there = metric(url, "quorate_epoch").await >= f64::from(epoch);
        let mut client = Client::try_connect(url).await.filter(|_| is_there)?;
        client.put("came", "back").await.ok()
    })
    .await;
}

/// Scenario: a replica is killed and its folder deleted; started again it comes back by itself,
/// and its vote counts: the cluster goes on with it when another dies. A copy of the deleted folder
/// is not taken back.
#[tokio::test]
async fn a_replica_whose_folder_was_deleted_comes_back_by_itself() {
    let home = Home::new();
    let mut up = home.start(&[]);
    put_all(&up.urls[1], 0..50).await;
    signal(up.pids[&2], Signal::KILL);
    up.wait_for("replica 2 (process");
    let (own, copy) = (home.dir.join("2"), home.dir.join("copy"));
    fs::rename(&own, &copy).unwrap();
    put_all(&up.urls[0], 50..60).await;

    let second = Up::start(&home.dir, &["--only", "2"]);
    came_back(&up.urls[1], 2).await;
    expect_all(&up.urls[1], 0..60).await;
    put_all(&up.urls[1], 60..70).await;
    converged(&up.urls).await;

    signal(up.pids[&1], Signal::KILL);
    up.wait_for("replica 1 (process");
    put_all(&up.urls[2], 70..80).await;
    let first = Up::start(&home.dir, &["--only", "1"]);
    converged(&up.urls).await;
    expect_all(&up.urls[1], 0..80).await;

    // Its former self must not vote again, also with peers that were restarted since.
    assert!(second.stop().success());
    fs::rename(&own, home.dir.join("new")).unwrap();
    fs::rename(&copy, &own).unwrap();
    let stale = Up::start(&home.dir, &["--only", "2"]);
    eventually("the old copy is refused", || async {
        let log = fs::read_to_string(own.join("log.txt")).unwrap_or_default();
        log.contains("its data folder is an old copy").then_some(())
    })
    .await;
    put_all(&up.urls[0], 80..90).await;

    // The message says: delete the folder, and the replica comes back by itself.
    stale.stop();
    fs::remove_dir_all(&own).unwrap();
    let _third_life = Up::start(&home.dir, &["--only", "2"]);
    came_back(&up.urls[1], 3).await;
    expect_all(&up.urls[1], 0..90).await;
    drop(first);
}

/// Scenario: the folders of two of three are gone, then those of all: there is nothing to come back
/// from, which is said at once, and what is left is not touched.
#[tokio::test]
async fn when_too_many_folders_are_gone_that_is_said_and_undone_by_putting_them_back() {
    let home = Home::new();
    let up = home.start(&[]);
    put_all(&up.urls[0], 0..10).await;
    up.stop();
    let start = |message: &str| {
        expect_failure(
            quorate().arg("up").arg("--data-dir").arg(&home.dir),
            1,
            message,
        );
    };
    let aside = tempfile::tempdir_in(home.dir.parent().unwrap()).unwrap();
    let hide = |id: &str| fs::rename(home.dir.join(id), aside.path().join(id)).unwrap();
    hide("2");
    hide("3");
    start("replicas 2 and 3 of 3 have empty data folders");
    hide("1");
    for id in ["2", "3"] {
        fs::remove_dir_all(home.dir.join(id)).unwrap();
    }
    start("the data of all replicas in");
    for id in ["1", "2", "3"] {
        fs::rename(aside.path().join(id), home.dir.join(id)).unwrap();
    }
    let again = Up::start(&home.dir, &[]);
    expect_all(&again.urls[2], 0..10).await;
}

/// Scenario: with --restart nobody has to do anything but delete the folder.
#[tokio::test]
async fn a_supervised_replica_survives_the_loss_of_its_folder() {
    for (protocol, rejoin) in [
        ("rabia", "new-member"),
        ("multi-paxos", "new-member"),
        ("rabia", "protocol"),
    ] {
        let home = Home::new();
        let rejoins = format!("--server-arg=--rejoin={rejoin}");
        let mut up = home.start(&["--restart", "--protocol", protocol, &rejoins]);
        put_all(&up.urls[0], 0..20).await;
        for round in 0..3 {
            let id = round % 3 + 1;
            signal(up.pids[&id], Signal::KILL);
            fs::remove_dir_all(home.dir.join(id.to_string())).unwrap();
            up.wait_for(&format!("replica {id} serves again"));
            let url = &up.urls[usize::from(id) - 1];
            match rejoin {
                "protocol" => rejoined(url).await,
                _ => came_back(url, u32::from(round) + 2).await,
            }
            put_all(&up.urls[0], 20 + u32::from(round)..21 + u32::from(round)).await;
        }
        converged(&up.urls).await;
        expect_all(&up.urls[2], 0..23).await;
    }
}

/// Scenario: every replica of a cluster in memory is killed in turn; what was acknowledged stays.
#[tokio::test]
async fn rolling_restarts_of_a_cluster_in_memory_lose_nothing() {
    let home = Home::new();
    let mut up = home.start(&["--restart", "--durability", "memory"]);
    let mut keys = 0;
    for round in 0..6 {
        let url = up.urls[round % 3].clone();
        put_all(&url, keys..keys + 20).await;
        keys += 20;
        let id = (round % 3 + 1) as u16;
        signal(up.pids[&id], Signal::KILL);
        up.wait_for(&format!("replica {id} serves again"));
        rejoined(&url).await;
    }
    converged(&up.urls).await;
    for url in &up.urls {
        expect_all(url, 0..keys).await;
    }
}

/// Scenario: all replicas of a cluster in memory are stopped. Nothing is left, and that is shown.
#[tokio::test]
async fn a_cluster_in_memory_that_was_stopped_is_gone_and_says_so() {
    let home = Home::new();
    home.start(&["--durability", "memory"]).stop();
    let again = Up::start(&home.dir, &[]);
    let output = support::output(quorate().args(["status", "--endpoints", &again.urls[0]]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("0 of 3 replicas serve"), "{text}");
    assert!(text.contains("begin a new cluster"), "{text}");
}

/// A cluster begun by hand, one `quorate serve` per replica.
struct Served {
    home: tempfile::TempDir,
    first_port: u16,
    running: Vec<Option<Child>>,
}

impl Served {
    fn new() -> Served {
        Served {
            home: tempfile::tempdir().unwrap(),
            first_port: free_ports(6),
            running: vec![None, None, None],
        }
    }

    fn dir(&self, id: u16) -> std::path::PathBuf {
        self.home.path().join(id.to_string())
    }

    fn url(&self, id: u16) -> String {
        format!("http://127.0.0.1:{}", self.first_port + 2 * (id - 1))
    }

    fn command(&self, id: u16, flags: &[&str]) -> Command {
        let peers: Vec<_> = (1..=3)
            .map(|id| format!("{id}=http://127.0.0.1:{}", self.first_port + 2 * id - 1))
            .collect();
        let mut command = quorate();
        command
            .args(["serve", "--initial-cluster", &peers.join(",")])
            .args(["--id", &id.to_string()])
            .args(["--listen-client-urls", &self.url(id)])
            .args(["--listen-peer-urls", &peers[usize::from(id) - 1][2..]])
            .arg("--data-dir")
            .arg(self.dir(id))
            .args(flags);
        command
    }

    fn start(&mut self, id: u16, flags: &[&str]) {
        let mut command = self.command(id, flags);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.running[usize::from(id) - 1] = Some(command.spawn().unwrap());
    }

    /// Starts a replica that belongs to an existing cluster; what it says on standard error goes to
    /// the file.
    fn start_heard(&mut self, id: u16) -> tempfile::NamedTempFile {
        let said = tempfile::NamedTempFile::new().unwrap();
        let mut command = self.command(id, &[]);
        command.stdout(Stdio::null()).stderr(said.reopen().unwrap());
        self.running[usize::from(id) - 1] = Some(command.spawn().unwrap());
        said
    }

    fn has_ended(&mut self, id: u16) -> bool {
        let child = self.running[usize::from(id) - 1].as_mut();
        child.is_some_and(|child| child.try_wait().unwrap().is_some())
    }

    fn wipe(&mut self, id: u16) {
        if let Some(mut child) = self.running[usize::from(id) - 1].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        fs::remove_dir_all(self.dir(id)).unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        for mut child in self.running.iter_mut().filter_map(Option::take) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

async fn serves(url: &str) {
    eventually("it serves", || async {
        let endpoint = tonic::transport::Endpoint::from_shared(url.to_owned()).unwrap();
        endpoint.connect().await.ok()
    })
    .await;
}

const NEW: &[&str] = &["--initial-cluster-state", "new"];

/// Scenario: three replicas are begun separately; one is wiped and started with the very same
/// flags, `new` among them; then two are wiped at once, which nobody can make good.
#[tokio::test]
async fn replicas_begun_separately_agree_on_a_beginning_and_return_with_the_same_flags() {
    let mut cluster = Served::new();
    cluster.start(1, NEW);
    cluster.start(2, NEW);
    // Two of three do not begin: the third might be the rest of an older cluster.
    eventually("both wait", || async {
        let metas = [1, 2].map(|id| fs::read_to_string(cluster.dir(id).join("meta")));
        let waiting = metas
            .iter()
            .flatten()
            .filter(|meta| meta.contains("\"joining\""));
        (waiting.count() == 2).then_some(())
    })
    .await;
    cluster.start(3, NEW);
    serves(&cluster.url(3)).await;
    put_all(&cluster.url(3), 0..20).await;

    cluster.wipe(1);
    cluster.start(1, NEW);
    serves(&cluster.url(1)).await;
    came_back(&cluster.url(1), 2).await;
    expect_all(&cluster.url(1), 0..20).await;
    assert!(!is_first_life(&cluster.dir(1)));

    cluster.wipe(2);
    cluster.wipe(3);
    // The first to hear of the other ends; the other may then wait for it.
    let started = [2, 3].map(|id| cluster.start_heard(id));
    let said = eventually("one of them gives up", || {
        let ended = (2..=3).zip(&started).find(|(id, _)| cluster.has_ended(*id));
        let said = ended.map(|(_, said)| fs::read_to_string(said.path()).unwrap());
        async { said }
    })
    .await;
    let message = "replicas 2 and 3 of 3 have empty data folders";
    assert!(said.contains(message), "{said}");
}

/// Whether the epoch still names the incarnation this replica is in.
fn is_first_life(dir: &Path) -> bool {
    let meta = fs::read_to_string(dir.join("meta")).unwrap();
    let mut lives = meta
        .lines()
        .filter_map(|line| line.strip_prefix("incarnation = "));
    let own = lives.next().unwrap();
    lives.any(|member| member == own)
}
