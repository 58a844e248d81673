//! Members come and go: what `etcdctl member` asks for, with real processes.

use crate::support;
use crate::support::watching::{Watch, keep_telling};
use crate::support::{
    Client, converged, eventually, expect_failure, free_ports, metrics, output, quorate, signal,
};
use quorate_etcd_api::etcdserverpb::{
    Member, MemberAddRequest, MemberListRequest, MemberPromoteRequest, MemberRemoveRequest,
    MemberUpdateRequest,
};
use quorate_face_etcd::client::{ClusterClient, in_words};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// A replica that was started by itself.
struct Replica {
    child: Child,
    dir: PathBuf,
    url: String,
}

impl Replica {
    fn log(&self) -> String {
        fs::read_to_string(self.dir.with_extension("log")).unwrap_or_default()
    }

    /// Waits until it ends by itself.
    async fn ended(&mut self) -> ExitStatus {
        let child = Mutex::new(&mut self.child);
        eventually("the replica ends", || async {
            child.lock().unwrap().try_wait().unwrap()
        })
        .await
    }

    fn kill(&mut self) {
        signal(self.child.id(), Signal::KILL);
        self.child.wait().unwrap();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

/// Replicas on one machine, each with two ports.
struct Fleet {
    home: tempfile::TempDir,
    ports: u16,
    protocol: &'static str,
    replicas: BTreeMap<u16, Replica>,
    /// Who is where by now.
    peers: BTreeMap<u16, String>,
}

impl Fleet {
    /// Three replicas that begin a cluster, and ports for so many in all.
    async fn begin(protocol: &'static str, most: u16) -> Fleet {
        let mut fleet = Fleet {
            home: tempfile::tempdir().unwrap(),
            ports: free_ports(2 * most + 2),
            protocol,
            replicas: BTreeMap::new(),
            peers: BTreeMap::new(),
        };
        for id in 1..=3 {
            fleet.peers.insert(id, fleet.peer_url(id));
        }
        for id in 1..=3 {
            let flags = [
                "--initial-cluster-state",
                "new",
                "--protocol",
                fleet.protocol,
            ];
            fleet.start(id, &flags);
        }
        let url = fleet.replicas[&1].url.clone();
        eventually("the cluster serves", || async {
            let mut client = Client::try_connect(&url).await?;
            client.put("begun", "yes").await.ok()
        })
        .await;
        // Before, the group notes no names; and it takes all members to get there.
        support::alarms::level_is_raised(&url).await;
        fleet
    }

    fn peer_url(&self, id: u16) -> String {
        format!("http://127.0.0.1:{}", self.ports + 2 * id)
    }

    fn dir(&self, id: u16) -> PathBuf {
        self.home.path().join(id.to_string())
    }

    /// Starts a replica on what its folder holds.
    fn start(&mut self, id: u16, flags: &[&str]) {
        let url = format!("http://127.0.0.1:{}", self.ports + 2 * id + 1);
        let dir = self.dir(id);
        let list = self.peers.iter().map(|(id, peer)| format!("{id}={peer}"));
        let list: Vec<String> = list.collect();
        let child = quorate()
            .args(["serve", "--id", &id.to_string()])
            .args(["--listen-client-urls", &url])
            .args(["--listen-peer-urls", &self.peers[&id]])
            .args(["--initial-cluster", &list.join(",")])
            .arg("--data-dir")
            .arg(&dir)
            .args(flags)
            .stdout(Stdio::null())
            .stderr(log_file(&dir))
            .spawn()
            .unwrap();
        self.replicas.insert(id, Replica { child, dir, url });
    }

    /// Waits until a replica ends by itself and says that it was removed.
    async fn ends_as_removed(&mut self, id: u16) {
        let replica = self.replicas.get_mut(&id).unwrap();
        assert_eq!(replica.ended().await.code(), Some(1));
        let said = format!("replica {id} was removed from the cluster");
        assert!(replica.log().contains(&said), "{}", replica.log());
    }

    async fn cluster(&self, via: u16) -> Cluster {
        let endpoint = Endpoint::from_shared(self.replicas[&via].url.clone()).unwrap();
        let endpoint = endpoint.timeout(support::PATIENCE);
        Cluster(ClusterClient::new(endpoint.connect().await.unwrap()))
    }

    /// Adds a replica and starts it; says its number.
    async fn add(&mut self, via: u16, flags: &[&str]) -> u16 {
        let mut cluster = self.cluster(via).await;
        let next = 1 + self.peers.keys().max().unwrap();
        let url = self.peer_url(next);
        let id = cluster.add(&url).await.unwrap();
        assert_eq!(id, next, "numbers are given in order");
        self.peers.insert(id, url);
        self.start(id, flags);
        id
    }

    fn urls(&self) -> Vec<String> {
        self.replicas.values().map(|one| one.url.clone()).collect()
    }
}

fn log_file(dir: &Path) -> File {
    let mut options = File::options();
    let log = options.create(true).append(true);
    log.open(dir.with_extension("log")).unwrap()
}

/// The service that `etcdctl member` uses.
#[derive(Clone)]
struct Cluster(ClusterClient<Channel>);

impl Cluster {
    async fn add(&mut self, url: &str) -> Result<u16, tonic::Status> {
        let request = MemberAddRequest {
            peer_urls: vec![url.to_owned()],
            is_learner: false,
        };
        let added = self.0.member_add(in_words(request)).await?.into_inner();
        Ok(added.member.unwrap().id as u16)
    }

    async fn remove(&mut self, id: u16) -> Result<Vec<Member>, tonic::Status> {
        let request = in_words(MemberRemoveRequest { id: id.into() });
        Ok(self.0.member_remove(request).await?.into_inner().members)
    }

    async fn promote(&mut self, id: u16) -> Result<(), tonic::Status> {
        let request = MemberPromoteRequest { id: id.into() };
        self.0.member_promote(in_words(request)).await.map(|_| ())
    }

    async fn update(&mut self, id: u16, url: &str) -> Result<(), tonic::Status> {
        let request = MemberUpdateRequest {
            id: id.into(),
            peer_urls: vec![url.to_owned()],
        };
        self.0.member_update(request).await.map(|_| ())
    }

    /// Where clients reach each, as far as it is known.
    async fn client_urls(&mut self) -> BTreeMap<u16, String> {
        let request = MemberListRequest::default();
        let list = self.0.member_list(request).await.unwrap().into_inner();
        let known = |member: Member| Some((member.id as u16, member.client_urls.first()?.clone()));
        list.members.into_iter().filter_map(known).collect()
    }

    /// Members, and in brackets learners and those that never started.
    async fn list(&mut self) -> String {
        let request = MemberListRequest::default();
        let list = self.0.member_list(request).await.unwrap().into_inner();
        let show = |member: &Member| match member.is_learner || member.name.is_empty() {
            true => format!("({})", member.id),
            false => member.id.to_string(),
        };
        list.members.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    async fn becomes(&mut self, expected: &str) {
        let cluster = self.clone();
        eventually(&format!("the members are {expected}"), || {
            let mut cluster = cluster.clone();
            async move { (cluster.list().await == expected).then_some(()) }
        })
        .await;
    }
}

/// Puts one key after the other until it is told to stop, through whoever answers; says how many were
/// acknowledged.
fn write_on(urls: Arc<Mutex<Vec<String>>>, stop: Arc<AtomicBool>) -> Arc<AtomicU32> {
    let written = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&written);
    tokio::spawn(async move {
        let mut turn = 0;
        while !stop.load(Ordering::Relaxed) {
            let url = {
                let urls = urls.lock().unwrap();
                urls[turn % urls.len()].clone()
            };
            turn += 1;
            let Some(mut client) = Client::try_connect(&url).await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            loop {
                let next = count.load(Ordering::Relaxed);
                if stop.load(Ordering::Relaxed)
                    || client.put(&format!("n{next}"), "v").await.is_err()
                {
                    break;
                }
                count.store(next + 1, Ordering::Relaxed);
            }
        }
    });
    written
}

/// Scenario: one machine after the other dies for good and a new one takes its place, until none of the
/// first is left, while a client writes. What was acknowledged is there, on all.
#[tokio::test]
async fn all_machines_are_replaced_under_load_and_nothing_is_lost() {
    for protocol in ["multi-paxos", "rabia"] {
        let mut fleet = Fleet::begin(protocol, 6).await;
        let urls = Arc::new(Mutex::new(fleet.urls()));
        let stop = Arc::new(AtomicBool::new(false));
        let written = write_on(Arc::clone(&urls), Arc::clone(&stop));
        for old in 1..=3u16 {
            let mut gone = fleet.replicas.remove(&old).unwrap();
            gone.kill();
            fs::remove_dir_all(&gone.dir).unwrap();
            *urls.lock().unwrap() = fleet.urls();
            let via = *fleet.replicas.keys().next().unwrap();
            fleet.peers.remove(&old);
            // Numbers go on behind the highest there ever was here.
            let new = fleet.add(via, &[]).await;
            let mut cluster = fleet.cluster(via).await;
            let now: Vec<String> = (old..=new).map(|id| id.to_string()).collect();
            cluster.becomes(&now.join(" ")).await;
            cluster.remove(old).await.unwrap();
            cluster.becomes(&now[1..].join(" ")).await;
            *urls.lock().unwrap() = fleet.urls();
            let so_far = written.load(Ordering::Relaxed);
            eventually("writes go on", || async {
                (written.load(Ordering::Relaxed) > so_far + 20).then_some(())
            })
            .await;
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(
            fleet.replicas.keys().copied().collect::<Vec<_>>(),
            [4, 5, 6]
        );
        converged(&fleet.urls()).await;
        for url in fleet.urls() {
            let mut client = Client::connect(&url).await;
            for key in 0..written.load(Ordering::Relaxed) {
                let value = client.get(&format!("n{key}")).await.unwrap();
                assert_eq!(
                    value.as_deref(),
                    Some("v"),
                    "n{key} through {url}, {protocol}"
                );
            }
        }
    }
}

/// Scenario: members are added while a client watches that wants no member without a leader.
#[tokio::test]
async fn members_that_are_added_end_no_watch() {
    let mut fleet = Fleet::begin("rabia", 5).await;
    let url = fleet.replicas[&2].url.clone();
    let mut watches = [Watch::open(&url, true).await];
    for (new, members) in [(4, "1 2 3 4"), (5, "1 2 3 4 5")] {
        assert_eq!(fleet.add(2, &[]).await, new);
        fleet.cluster(2).await.becomes(members).await;
        let prefix = format!("added {new}");
        keep_telling(&[&url], &mut watches, &prefix, Duration::from_secs(3)).await;
    }
}

/// Scenario: a replica that is to stay a learner has all data and no vote, across its own restart, until
/// it is promoted. Requests that make no sense are refused as etcd refuses them.
#[tokio::test]
async fn a_learner_follows_until_somebody_promotes_it() {
    let mut fleet = Fleet::begin("rs-paxos", 5).await;
    let learner = fleet.add(1, &["--learner"]).await;
    let mut cluster = fleet.cluster(1).await;
    cluster.becomes("1 2 3 (4)").await;
    let mut client = Client::connect(&fleet.replicas[&1].url).await;
    for i in 0..50 {
        client.put(&format!("k{i}"), "v").await.unwrap();
    }
    let url = fleet.replicas[&learner].url.clone();
    eventually("it serves", || Client::try_connect(&url)).await;
    converged(&fleet.urls()).await;
    fleet.replicas.get_mut(&learner).unwrap().kill();
    let refused = cluster.promote(learner).await.unwrap_err();
    assert!(refused.message().contains("is it running?"), "{refused}");
    fleet.start(learner, &["--learner"]);
    eventually("it serves again", || Client::try_connect(&url)).await;
    converged(&fleet.urls()).await;
    assert_eq!(cluster.list().await, "1 2 3 (4)");
    let own = |(id, one): (&u16, &Replica)| (*id, one.url.clone());
    let expected: BTreeMap<u16, String> = fleet.replicas.iter().map(own).collect();
    eventually("each tells the others where clients reach it", || {
        let (mut cluster, expected) = (cluster.clone(), expected.clone());
        async move { (cluster.client_urls().await == expected).then_some(()) }
    })
    .await;

    let taken = cluster.add(&fleet.peers[&2]).await.unwrap_err();
    assert_eq!(taken.message(), "etcdserver: Peer URLs already exists");
    for wrong in ["here:1", "http://here/there:1"] {
        let wrong = cluster.add(wrong).await.unwrap_err();
        assert_eq!(wrong.message(), "etcdserver: given member URLs are invalid");
    }
    let voter = cluster.promote(2).await.unwrap_err();
    assert_eq!(
        voter.message(),
        "etcdserver: can only promote a learner member"
    );
    for unknown in [
        cluster.promote(9).await,
        cluster.remove(9).await.map(|_| ()),
    ] {
        assert_eq!(
            unknown.unwrap_err().message(),
            "etcdserver: member not found"
        );
    }

    eventually("it can be promoted", || {
        let mut cluster = cluster.clone();
        async move { cluster.promote(learner).await.ok() }
    })
    .await;
    cluster.becomes("1 2 3 4").await;
    let client = Client::connect(&url).await;
    // Others may vote with it before it knows.
    eventually("it takes writes", || {
        let mut client = client.clone();
        async move { client.put("through", "the new one").await.ok() }
    })
    .await;
    converged(&fleet.urls()).await;
}

/// Scenario: a removed replica ends by itself and says why; started again it says so again. With an
/// empty folder, and added anew, it is a replica like any other. One that moves elsewhere is found.
#[tokio::test]
async fn a_removed_replica_ends_and_comes_back_only_as_a_new_one() {
    let mut fleet = Fleet::begin("rabia", 5).await;
    let mut cluster = fleet.cluster(1).await;
    cluster.remove(3).await.unwrap();
    fleet.ends_as_removed(3).await;
    fleet.start(3, &[]);
    fleet.ends_as_removed(3).await;
    assert_eq!(cluster.list().await, "1 2");
    let mut client = Client::connect(&fleet.replicas[&1].url).await;
    client.put("without", "three").await.unwrap();
    fs::remove_dir_all(fleet.dir(3)).unwrap();
    assert_eq!(cluster.add(&fleet.peers[&3]).await.unwrap(), 3);
    fleet.start(3, &[]);
    cluster.becomes("1 2 3").await;
    converged(&fleet.urls()).await;

    // It moves to another port, and is told of at the others.
    fleet.replicas.get_mut(&3).unwrap().kill();
    let elsewhere = fleet.peer_url(5);
    cluster.update(3, &elsewhere).await.unwrap();
    fleet.peers.insert(3, elsewhere);
    client.put("moved", "yes").await.unwrap();
    fleet.start(3, &[]);
    let url = fleet.replicas[&3].url.clone();
    eventually("it serves", || Client::try_connect(&url)).await;
    converged(&fleet.urls()).await;
}

/// Scenario: two replicas die, one of which is then removed. The other is dialled again and again; who
/// is no member is not. It calls when it is started again, hears that it was removed, and ends.
#[tokio::test]
async fn who_was_removed_is_not_dialled_for_ever() {
    let mut fleet = Fleet::begin("rabia", 5).await;
    let fourth = fleet.add(1, &[]).await;
    let fifth = fleet.add(1, &[]).await;
    let mut cluster = fleet.cluster(1).await;
    cluster.becomes("1 2 3 4 5").await;
    fleet.replicas.get_mut(&fourth).unwrap().kill();
    fleet.replicas.get_mut(&fifth).unwrap().kill();
    cluster.remove(fifth).await.unwrap();
    cluster.becomes("1 2 3 4").await;
    let url = fleet.replicas[&1].url.clone();
    let dials = || async {
        let page = metrics(&url).await;
        [fourth, fifth].map(|peer| {
            let name = format!("quorate_peer_failed_dials_total{{peer=\"{peer}\"}} ");
            let line = page.lines().find_map(|line| line.strip_prefix(&name));
            line.map_or(0, |count| count.parse::<u64>().unwrap())
        })
    };
    let after = |start: u64| async move {
        eventually("a member that is down is dialled", || async {
            let [of_member, of_former] = dials().await;
            (of_member >= start + 4).then_some((of_member, of_former))
        })
        .await
    };
    // A dial may have been under way.
    let (start, before) = after(dials().await[0]).await;
    let (_, now) = after(start).await;
    assert_eq!(now, before);
    fleet.start(fifth, &[]);
    fleet.ends_as_removed(fifth).await;
}

/// Scenario: an operator looks at the cluster, puts a new replica in the place of a dead one with one
/// command, and asks for what cannot be.
#[tokio::test]
async fn the_command_line_shows_and_changes_the_cluster() {
    let mut fleet = Fleet::begin("multi-paxos", 4).await;
    let endpoints = fleet.urls()[..2].join(",");
    let ask = |words: &[&str]| {
        let mut command = quorate();
        command
            .arg("cluster")
            .args(words)
            .args(["--endpoints", &endpoints]);
        command
    };
    let said = |words: &[&str]| {
        let output = output(&mut ask(words));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    fleet.replicas.remove(&3).unwrap().kill();
    eventually("the dead one is seen", || async {
        said(&["status"])
            .contains("  3  member    NO")
            .then_some(())
    })
    .await;
    let new = fleet.peer_url(4);
    let replacing = ask(&["replace", "3", "--peer-url", &new, "--wait", "50"]);
    let replacing = std::thread::spawn(move || output(&mut { replacing }));
    let mut cluster = fleet.cluster(1).await;
    cluster.becomes("1 2 3 (4)").await;
    fleet.peers.insert(4, new);
    fleet.start(4, &[]);
    let done = eventually("it is done", || async {
        replacing.is_finished().then_some(())
    });
    done.await;
    let replaced = replacing.join().unwrap();
    assert!(replaced.status.success(), "{replaced:?}");
    let text = String::from_utf8(replaced.stdout).unwrap();
    assert!(
        text.contains("quorate serve --id 4") && !text.contains("  3  member"),
        "{text}"
    );
    let history = said(&["history"]);
    let lines: Vec<&str> = history.lines().collect();
    assert!(
        lines.len() == 4 && lines[2].contains("1 2 3 4"),
        "{history}"
    );
    assert!(lines[3].contains("1 2 4"), "{history}");
    let json = said(&["status", "--json"]);
    assert!(json.contains("\"is_open\":true"), "{json}");

    let wrong = [
        (&["remove", "9"][..], "member not found"),
        (&["promote", "2"], "can only promote a learner member"),
        (
            &["replace", "7", "--peer-url", "http://a:1"],
            "there is no replica 7",
        ),
        (
            &["add", "--peer-url", "nowhere"],
            "given member URLs are invalid",
        ),
    ];
    for (words, message) in wrong {
        expect_failure(&mut ask(words), 1, message);
    }
}
