//! Replicas that lost their folders, started again as their operators were told to: by the command that was printed
//! when they were added, by the one that began the cluster, or with the members as they are now; before and after
//! members were removed.

use crate::support;
use crate::support::{
    Client, Home, Up, converged, eventually, expect_failure, free_ports, metric, output, page,
    quorate, signal,
};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Mutex;

const MACHINES: u16 = 5;

/// A machine of an operator, who keeps to one folder on it and to the ports that go with it.
struct Machine {
    home: PathBuf,
    client_url: String,
    peer_url: String,
    /// What starts its replica, word by word.
    command: Vec<String>,
    running: Option<Child>,
}

impl Machine {
    /// Where its replica keeps its data, by default.
    fn folder(&self, id: u16) -> PathBuf {
        self.home.join("quorate-data").join(id.to_string())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }

    /// Starts its replica by the command. Where it serves clients is said in its environment.
    fn start(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.home.join("log"));
        let child = quorate()
            .args(&self.command)
            .current_dir(&self.home)
            .env("QUORATE_LISTEN_CLIENT_URLS", &self.client_url)
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn();
        self.running = Some(child.unwrap());
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.running.take() {
            signal(child.id(), Signal::KILL);
            child.wait().unwrap();
        }
    }

    /// Waits until its replica has said this.
    async fn says(&self, words: &str) {
        eventually(words, || async { self.log().contains(words).then_some(()) }).await;
    }

    /// Waits until its replica ends by itself.
    async fn ended(&mut self) -> ExitStatus {
        let child = Mutex::new(self.running.take().unwrap());
        eventually("the replica ends", || async {
            child.lock().unwrap().try_wait().unwrap()
        })
        .await
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A cluster of three, and room for two more.
struct Fleet {
    machines: BTreeMap<u16, Machine>,
    /// Keys that were acknowledged.
    keys: u32,
    _home: tempfile::TempDir,
}

impl Fleet {
    async fn begin(protocol: &str) -> Fleet {
        let home = tempfile::tempdir().unwrap();
        let ports = free_ports(2 * MACHINES);
        let machine = |id: u16| {
            let home = home.path().join(format!("machine-{id}"));
            fs::create_dir(&home).unwrap();
            let url = |port: u16| format!("http://127.0.0.1:{port}");
            let machine = Machine {
                home,
                client_url: url(ports + 2 * id - 2),
                peer_url: url(ports + 2 * id - 1),
                command: Vec::new(),
                running: None,
            };
            (id, machine)
        };
        let mut fleet = Fleet {
            machines: (1..=MACHINES).map(machine).collect(),
            keys: 0,
            _home: home,
        };
        let list = fleet.list(&[1, 2, 3]);
        for (id, machine) in fleet.machines.iter_mut().take(3) {
            let words = format!(
                "serve --id {id} --listen-peer-urls {} --initial-cluster {list} --initial-cluster-state new \
                 --initial-cluster-token fleet --protocol {protocol}",
                machine.peer_url
            );
            machine.command = words.split(' ').map(str::to_owned).collect();
            machine.start();
        }
        fleet.serves(1).await;
        fleet
    }

    fn list(&self, ids: &[u16]) -> String {
        let entry = |id: &u16| format!("{id}={}", self.machines[id].peer_url);
        ids.iter().map(entry).collect::<Vec<_>>().join(",")
    }

    fn machine(&mut self, id: u16) -> &mut Machine {
        self.machines.get_mut(&id).unwrap()
    }

    async fn serves(&self, id: u16) {
        let url = self.machines[&id].client_url.clone();
        eventually("it serves", || async {
            let mut client = Client::try_connect(&url).await?;
            client.put("it", "serves").await.ok()
        })
        .await;
    }

    /// What `quorate cluster` says, through a replica.
    fn cluster(&self, via: u16, words: &[&str]) -> String {
        let endpoints = ["--endpoints", &self.machines[&via].client_url];
        let output = output(quorate().arg("cluster").args(words).args(endpoints));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Adds a replica and starts it by the command that is printed.
    async fn add(&mut self, id: u16, via: u16) {
        let url = self.machines[&id].peer_url.clone();
        let said = self.cluster(via, &["add", "--peer-url", &url]);
        self.machine(id).command = printed(&said);
        self.machine(id).start();
        self.votes(id).await;
    }

    async fn remove(&mut self, id: u16, via: u16) {
        let url = self.machines[&via].client_url.clone();
        eventually("the change before is done", || async {
            let endpoints = ["--endpoints", &url];
            let remove = ["cluster", "remove", &id.to_string()];
            output(quorate().args(remove).args(endpoints))
                .status
                .success()
                .then_some(())
        })
        .await;
        assert_eq!(self.machine(id).ended().await.code(), Some(1));
        let said = self.machine(id).log();
        assert!(said.contains("was removed from the cluster"), "{said}");
    }

    /// Waits until a replica is a member that votes.
    async fn votes(&self, id: u16) {
        let machine = &self.machines[&id];
        eventually(&format!("replica {id} votes"), || async {
            let mut client = Client::try_connect(&machine.client_url).await?;
            client.put("voting", "soon").await.ok()?;
            let page = page(&machine.client_url, "/status").await;
            page.contains("\"role\":\"voting\"").then_some(())
        })
        .await;
    }

    async fn write(&mut self, via: u16) {
        let mut client = Client::connect(&self.machines[&via].client_url).await;
        for key in self.keys..self.keys + 10 {
            client.put(&format!("k{key}"), "v").await.unwrap();
        }
        self.keys += 10;
    }

    /// A replica loses its folder and is started again by its command: it is back, in another incarnation.
    async fn returns(&mut self, id: u16, via: u16) {
        let epoch = metric(&self.machines[&via].client_url, "quorate_epoch").await;
        let folder = self.machines[&id].folder(id);
        let before = life(&folder);
        self.machine(id).kill();
        self.write(via).await;
        fs::remove_dir_all(&folder).unwrap();
        self.machine(id).start();
        self.votes(id).await;
        assert_ne!(life(&folder), before);
        let now = metric(&self.machines[&id].client_url, "quorate_epoch").await;
        assert!(now > epoch, "{now} is not behind {epoch}");
        self.write(id).await;
    }

    /// Everything that was acknowledged is found through each of these.
    async fn has_all(&self, ids: &[u16]) {
        let urls: Vec<String> = ids
            .iter()
            .map(|id| self.machines[id].client_url.clone())
            .collect();
        converged(&urls).await;
        for url in urls {
            let mut client = Client::connect(&url).await;
            for key in 0..self.keys {
                let value = client.get(&format!("k{key}")).await.unwrap();
                assert_eq!(value.as_deref(), Some("v"), "k{key} through {url}");
            }
        }
    }
}

/// The command in what was printed.
fn printed(text: &str) -> Vec<String> {
    let command = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("quorate "));
    let command = command.unwrap_or_else(|| panic!("no command in {text}"));
    command.split(' ').map(str::to_owned).collect()
}

/// The incarnation that a folder is of.
fn life(folder: &std::path::Path) -> String {
    let meta = fs::read_to_string(folder.join("meta")).unwrap();
    let life = meta.lines().find(|line| line.starts_with("incarnation = "));
    life.unwrap().to_owned()
}

/// Scenario: members that were added and original ones lose their folders in turn, and are started again by the
/// commands that their operators have; members of those lists are removed in between.
async fn all_come_back(protocol: &str) {
    let mut fleet = Fleet::begin(protocol).await;
    fleet.write(1).await;
    fleet.add(4, 1).await;
    fleet.returns(4, 1).await;
    fleet.add(5, 2).await;

    // Of its list only replica 3 is left beside it, of five members that were.
    fleet.remove(1, 3).await;
    fleet.returns(2, 3).await;
    fleet.remove(2, 3).await;
    fleet.returns(4, 3).await;

    // An original one, with the members as they are now; told that the cluster is new, as ever.
    let now = fleet.list(&[3, 4, 5]);
    let then = fleet.list(&[1, 2, 3]);
    for word in &mut fleet.machine(3).command {
        if *word == then {
            word.clone_from(&now);
        }
    }
    fleet.returns(3, 4).await;
    // By the same command it starts with what it has.
    fleet.machine(3).kill();
    fleet.machine(3).start();
    fleet.votes(3).await;
    fleet.has_all(&[3, 4, 5]).await;
}

#[tokio::test]
async fn all_come_back_by_the_commands_that_were_printed() {
    all_come_back("rabia").await;
}

/// The long form: every protocol.
#[tokio::test]
#[ignore = "six times as long as the test above: run with --ignored"]
async fn all_come_back_whatever_the_protocol() {
    for protocol in ["multi-paxos", "raft", "rs-paxos", "racos", "chora", "nezha"] {
        let began = std::time::Instant::now();
        all_come_back(protocol).await;
        println!("{protocol}: {:?}", began.elapsed());
    }
}

/// Scenario: what `etcdctl member add` prints names replicas by their names, and this one's number by nothing else.
#[tokio::test]
async fn the_list_that_etcdctl_prints_is_taken() {
    let mut fleet = Fleet::begin("multi-paxos").await;
    let fourth = &fleet.machines[&4];
    let said = fleet.cluster(1, &["add", "--peer-url", &fourth.peer_url]);
    assert!(said.contains("--id 4"), "{said}");
    let named = |id: &u16| format!("replica-{id}={}", fleet.machines[id].peer_url);
    let list: Vec<String> = [1, 2, 3, 4].iter().map(named).collect();
    let words = format!(
        "serve --name replica-4 --initial-cluster {} --initial-cluster-state existing --listen-peer-urls {}",
        list.join(","),
        fourth.peer_url
    );
    fleet.machine(4).command = words.split(' ').map(str::to_owned).collect();
    fleet.machine(4).start();
    fleet.votes(4).await;
    fleet.returns(4, 2).await;
    fleet.has_all(&[1, 2, 3, 4]).await;
}

/// Scenario: a replica is started under the number of another, which runs, or is down; then under that of one which was
/// removed. It takes no place that is not its own.
#[tokio::test]
async fn a_number_is_not_taken_over() {
    let mut fleet = Fleet::begin("rabia").await;
    let others = fleet.list(&[1, 2]);
    let stranger = fleet.machines[&4].peer_url.clone();
    let words = format!(
        "serve --id 3 --listen-peer-urls {stranger} --initial-cluster {others},3={stranger}"
    );
    fleet.machine(4).command = words.split(' ').map(str::to_owned).collect();
    fleet.machine(4).start();
    assert_eq!(fleet.machine(4).ended().await.code(), Some(1));
    let said = fleet.machines[&4].log();
    assert!(
        said.contains("runs at 127.0.0.1:") && said.contains("check --id"),
        "{said}"
    );
    assert!(!fleet.machines[&4].folder(3).join("meta").exists());

    fleet.machine(3).kill();
    fleet.machine(4).start();
    fleet.machines[&4]
        .says("knows replica 3 at 127.0.0.1:")
        .await;
    fleet.machine(4).kill();
    fleet.machine(3).start();
    fleet.votes(3).await;
    fleet.returns(3, 1).await;

    // By what the message says, replica 3 moves there.
    fleet.machine(3).kill();
    fleet.machine(4).start();
    let advice = "etcdctl member update 3 --peer-urls=";
    fleet.machines[&4].says(advice).await;
    let update = quorate_etcd_api::etcdserverpb::MemberUpdateRequest {
        id: 3,
        peer_urls: vec![stranger],
    };
    let channel = support::channel(&fleet.machines[&1].client_url).await;
    let mut cluster = quorate_face_etcd::client::ClusterClient::new(channel);
    cluster.member_update(update).await.unwrap();
    fleet.votes(4).await;
    fleet.has_all(&[1, 2, 4]).await;
}

/// Scenario: a member is removed; its folder is lost, and it is started once more.
#[tokio::test]
async fn a_removed_one_says_that_it_has_to_be_added() {
    let mut fleet = Fleet::begin("rabia").await;
    fleet.remove(3, 1).await;
    let folder = fleet.machines[&3].folder(3);
    fs::remove_dir_all(folder).unwrap();
    let now = fleet.list(&[1, 2, 3]);
    let peer_url = fleet.machines[&3].peer_url.clone();
    let words = format!("serve --id 3 --listen-peer-urls {peer_url} --initial-cluster {now}");
    fleet.machine(3).command = words.split(' ').map(str::to_owned).collect();
    fleet.machine(3).start();
    let advice = format!("quorate cluster add --peer-url {peer_url}");
    fleet.machines[&3].says(&advice).await;
    fleet.cluster(1, &["add", "--peer-url", &peer_url]);
    fleet.votes(3).await;
    fleet.write(3).await;
    fleet.has_all(&[1, 2, 3]).await;
}

/// Scenario: starts that come to nothing, with a port that is taken and with a protocol that was not meant; the folder
/// is as good as empty afterwards.
#[tokio::test]
async fn a_start_that_fails_leaves_no_identity() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let ports = free_ports(6);
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let start = |flags: &str| {
        let (client_url, peer_url) = (url(ports), url(ports + 1));
        let mut command = quorate();
        command
            .args([
                "serve",
                "--listen-client-urls",
                &client_url,
                "--listen-peer-urls",
                &peer_url,
            ])
            .args(["--initial-cluster-state", "new", "--data-dir"])
            .arg(&dir)
            .args(flags.split_whitespace());
        command
    };
    let taken = std::net::TcpListener::bind(("127.0.0.1", ports)).unwrap();
    for list in [
        "",
        &format!(
            "--initial-cluster 1={},2={}",
            url(ports + 1),
            url(ports + 3)
        ),
    ] {
        expect_failure(&mut start(list), 1, "another program has this port");
        assert!(!dir.join("meta").exists() && !dir.join("meta.copy").exists());
    }
    drop(taken);

    // It waits for another one, and is stopped before that comes.
    let list = format!(
        "--initial-cluster 1={},2={}",
        url(ports + 1),
        url(ports + 3)
    );
    let mut waiting = start(&format!("{list} --protocol chora")).spawn().unwrap();
    eventually("it has drawn a life", || async {
        dir.join("meta").exists().then_some(())
    })
    .await;
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    let mut alone = start("--protocol rabia").spawn().unwrap();
    eventually("it serves", || async {
        Client::try_connect(&url(ports))
            .await?
            .put("k", "v")
            .await
            .ok()
    })
    .await;
    alone.kill().unwrap();
    alone.wait().unwrap();
    expect_failure(
        &mut start("--protocol chora"),
        1,
        "was bootstrapped with protocol rabia, not chora",
    );
}

/// Scenario: a data folder and all in it are its owner's alone, and one that is not is pointed out.
#[tokio::test]
async fn data_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let mut fleet = Fleet::begin("rs-paxos").await;
    fleet.write(1).await;
    let folder = fleet.machines[&1].folder(1);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut paths = vec![folder.clone()];
    let mut seen = 0;
    while let Some(path) = paths.pop() {
        seen += 1;
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
        if path.is_dir() {
            paths.extend(
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
    }
    assert!(seen > 6, "only {seen} paths");
    assert!(!fleet.machines[&1].log().contains("is open to others"));
    fleet.machine(1).kill();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
    fleet.machine(1).start();
    fleet.machines[&1]
        .says("is open to others (mode 750)")
        .await;
    fleet.votes(1).await;
}

#[test]
fn a_folder_of_etcd_is_refused_and_not_touched() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("member/wal")).unwrap();
    for state in ["new", "existing"] {
        let mut command = quorate();
        command
            .args(["serve", "--initial-cluster-state", state, "--data-dir"])
            .arg(home.path());
        expect_failure(&mut command, 1, "is etcd's");
    }
    let names = fs::read_dir(home.path()).unwrap();
    assert_eq!(names.count(), 1);
}

/// Scenario: a cluster of `quorate up` gets members that it does not start, and loses one; then one of its own loses
/// its folder.
#[tokio::test]
async fn up_brings_back_its_own_in_a_cluster_that_has_changed() {
    let home = Home::new();
    let up = home.start(&[]);
    let mut fleet = Fleet {
        machines: BTreeMap::new(),
        keys: 0,
        _home: tempfile::tempdir().unwrap(),
    };
    let ports = free_ports(4);
    for id in 4..=5 {
        let (home, port) = (
            fleet._home.path().join(id.to_string()),
            ports + 2 * (id - 4),
        );
        fs::create_dir(&home).unwrap();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let machine = Machine {
            home,
            client_url: url(port),
            peer_url: url(port + 1),
            command: Vec::new(),
            running: None,
        };
        let said = output(
            quorate()
                .args(["cluster", "add", "--peer-url", &machine.peer_url])
                .args(["--endpoints", &up.urls[0]]),
        );
        fleet.machines.insert(id, machine);
        fleet.machine(id).command = printed(&String::from_utf8(said.stdout).unwrap());
        fleet.machine(id).start();
        fleet.votes(id).await;
    }
    eventually("replica 1 is removed", || async {
        let remove = ["cluster", "remove", "1", "--endpoints", &up.urls[1]];
        output(quorate().args(remove))
            .status
            .success()
            .then_some(())
    })
    .await;
    fleet.write(4).await;
    signal(up.pids[&2], Signal::KILL);
    eventually("it is gone", || async {
        (!support::exists(up.pids[&2])).then_some(())
    })
    .await;
    fs::remove_dir_all(home.dir.join("2")).unwrap();
    let second = Up::start(&home.dir, &["--only", "2"]);
    eventually("it votes", || async {
        let page = page(&second.urls[0], "/status").await;
        page.contains("\"role\":\"voting\"").then_some(())
    })
    .await;
    let urls = [
        second.urls[0].clone(),
        up.urls[2].clone(),
        fleet.machines[&4].client_url.clone(),
    ];
    converged(&urls).await;
}
