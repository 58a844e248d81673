//! Replicas that are started as etcd is: by its name, its flags, its variables and its files.

use crate::support;
use crate::support::{
    Client, channel, eventually, expect_failure, free_ports, output, program, signal,
};
use quorate_etcd_api::etcdserverpb::{Member, MemberAddRequest, MemberListRequest};
use quorate_face_etcd::client::ClusterClient;
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A folder with a program of the name `etcd` in it, and ports.
struct Home {
    dir: tempfile::TempDir,
    ports: u16,
}

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().unwrap();
        symlink(env!("CARGO_BIN_EXE_quorate"), dir.path().join("etcd")).unwrap();
        Home {
            dir,
            ports: free_ports(10),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program, without etcd's variables of whoever runs the tests.
    fn etcd(&self) -> Command {
        let mut command = program(self.path("etcd"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ETCD_") {
                command.env_remove(name);
            }
        }
        command.current_dir(self.dir.path());
        command
    }

    fn client_url(&self, number: u16) -> String {
        format!("http://127.0.0.1:{}", self.ports + 2 * number)
    }

    fn peer_url(&self, number: u16) -> String {
        format!("http://127.0.0.1:{}", self.ports + 2 * number + 1)
    }

    /// The flags of a member that say where it is, and nothing of the others.
    fn own_flags(&self, number: u16) -> Vec<String> {
        let (client, peer) = (self.client_url(number), self.peer_url(number));
        [
            format!("--name=infra{number}"),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
        ]
        .into()
    }

    /// The list of so many members, the last one first.
    fn cluster(&self, count: u16) -> String {
        let items = (0..count).rev();
        let items = items.map(|number| format!("infra{number}={}", self.peer_url(number)));
        items.collect::<Vec<_>>().join(",")
    }
}

/// A member that runs.
struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    fn start(mut command: Command, log: PathBuf) -> Running {
        let file = File::options().append(true).create(true).open(&log);
        command.stdout(Stdio::null()).stderr(file.unwrap());
        Running {
            child: command.spawn().unwrap(),
            log,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Stops it as service managers do, and says how it ended.
    async fn stop(mut self) -> ExitStatus {
        signal(self.child.id(), Signal::TERM);
        let child = Mutex::new(&mut self.child);
        eventually("it stops", || async {
            child.lock().unwrap().try_wait().unwrap()
        })
        .await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(self.child.id(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn start(home: &Home, number: u16, more: &[&str]) -> Running {
    let mut command = home.etcd();
    command.args(home.own_flags(number)).args(more);
    Running::start(command, home.path(&format!("{number}.log")))
}

async fn put(url: &str, key: &str) {
    eventually("a put is taken", || async {
        let mut client = Client::try_connect(url).await?;
        client.put(key, "value").await.ok()
    })
    .await;
}

async fn get(url: &str, key: &str) -> Option<String> {
    eventually("a read is answered", || async {
        let mut client = Client::try_connect(url).await?;
        client.get(key).await.ok()
    })
    .await
}

async fn members(url: &str) -> Vec<Member> {
    let mut client = ClusterClient::new(channel(url).await);
    let answer = client.member_list(MemberListRequest { linearizable: true });
    answer.await.unwrap().into_inner().members
}

/// Waits until the members have these names, by what a member says.
async fn named(url: &str, names: &[&str]) -> Vec<Member> {
    eventually("the members have their names", || async {
        let members = members(url).await;
        let found: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        (found == names).then_some(members)
    })
    .await
}

/// Scenario: one member, with the flags of a unit file; it is stopped, and started again with fewer.
#[tokio::test]
async fn one_member_is_started_stopped_and_started_again() {
    let home = Home::new();
    let url = home.client_url(0);
    let cluster = home.cluster(1);
    let first = [
        "--initial-cluster",
        &cluster,
        "--max-wals=9",
        "-initial-cluster-state=new",
    ];
    let running = start(&home, 0, &first);
    put(&url, "k").await;
    let member = &members(&url).await[0];
    assert_eq!(member.name, "infra0");
    assert_eq!(member.client_urls.join(" "), url);
    assert_eq!(member.peer_urls, [home.peer_url(0)]);
    let log = running.log();
    assert!(log.contains("--max-wals has no meaning here"), "{log}");
    assert!(log.contains("ready to serve client requests"), "{log}");
    // The default format is JSON, one object a line.
    let lines = log.lines().map(serde_json::from_str::<serde_json::Value>);
    assert!(lines.collect::<Result<Vec<_>, _>>().is_ok(), "{log}");
    let status = running.stop().await;
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}");
    assert!(home.path("infra0.etcd").is_dir());

    let running = start(&home, 0, &[]);
    assert_eq!(get(&url, "k").await.as_deref(), Some("value"));
    drop(running);
}

/// Scenario: three members by name, listed in another order than that of their names; one is started again without the
/// list, and a fourth is added as `etcdctl member add` says.
#[tokio::test]
async fn three_members_by_name_and_one_that_is_added() {
    let home = Home::new();
    let cluster = home.cluster(3);
    let flags = [
        "--initial-cluster",
        &cluster,
        "--initial-cluster-token",
        "t",
    ];
    let mut running: Vec<Running> = (0..3).map(|number| start(&home, number, &flags)).collect();
    put(&home.client_url(0), "k").await;
    let names = ["infra0", "infra1", "infra2"];
    named(&home.client_url(1), &names).await;

    // What is told of the cluster counts for the first time only.
    assert_eq!(
        running.remove(2).stop().await.signal(),
        Some(Signal::TERM.as_raw())
    );
    running.push(start(&home, 2, &[]));
    assert_eq!(
        get(&home.client_url(2), "k").await.as_deref(),
        Some("value")
    );
    named(&home.client_url(2), &names).await;

    let mut client = ClusterClient::new(channel(&home.client_url(0)).await);
    let added = client.member_add(MemberAddRequest {
        peer_urls: vec![home.peer_url(3)],
        ..MemberAddRequest::default()
    });
    let added = added.await.unwrap().into_inner();
    let id = added.member.unwrap().id;
    let list = added.members.iter().flat_map(|member| {
        let name = if member.id == id {
            "infra3"
        } else {
            &member.name
        };
        let urls = member.peer_urls.iter();
        urls.map(move |url| format!("{name}={url}"))
    });
    let mut command = home.etcd();
    let url = home.client_url(3);
    command
        .env("ETCD_NAME", "infra3")
        .env("ETCD_INITIAL_CLUSTER", list.collect::<Vec<_>>().join(","))
        .env("ETCD_INITIAL_ADVERTISE_PEER_URLS", home.peer_url(3))
        .env("ETCD_INITIAL_CLUSTER_STATE", "existing")
        .args([
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
        ])
        .args(["--listen-peer-urls", &home.peer_url(3)]);
    let fourth = Running::start(command, home.path("3.log"));
    assert_eq!(get(&url, "k").await.as_deref(), Some("value"));
    let names = ["infra0", "infra1", "infra2", "infra3"];
    named(&home.client_url(0), &names).await;
    let votes = eventually("it votes", || async {
        let members = members(&home.client_url(0)).await;
        (!members.iter().any(|member| member.is_learner)).then_some(members.len())
    });
    assert_eq!(votes.await, 4);

    // Its data are gone, and its list is of a time when there were three.
    assert_eq!(fourth.stop().await.signal(), Some(Signal::TERM.as_raw()));
}

/// Scenario: a member that nobody has added asks to join.
#[tokio::test]
async fn who_was_not_added_is_told_so() {
    let home = Home::new();
    let cluster = home.cluster(1);
    let running = start(&home, 0, &["--initial-cluster", &cluster]);
    put(&home.client_url(0), "k").await;
    let mut command = home.etcd();
    let two = home.cluster(2);
    command.args(home.own_flags(1));
    command.args([
        "--initial-cluster",
        &two,
        "--initial-cluster-state=existing",
    ]);
    let why = format!(
        "the cluster that runs has no member at {}",
        home.peer_url(1)
    );
    expect_failure(&mut command, 1, &why);
    drop(running);
}

/// Scenario: a YAML file, with another flag and a variable beside it, which do not count.
#[tokio::test]
async fn a_file_says_everything() {
    let home = Home::new();
    let (url, peer) = (home.client_url(0), home.peer_url(0));
    let second = home.client_url(1);
    let file = format!(
        "name: 'of-file'\ndata-dir: {}\nlisten-client-urls: {url},{second}\nadvertise-client-urls: {url},{second}\n\
         listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\ninitial-cluster: of-file={peer}\n\
         log-outputs: [{}]\nlog-format: console\nno-such-key: 1\nclient-transport-security:\n  cert-file:\n",
        home.path("data").display(),
        home.path("own.log").display(),
    );
    fs::write(home.path("etcd.yaml"), file).unwrap();
    let mut command = home.etcd();
    command.args(["--config-file", "etcd.yaml", "--name", "of-flag"]);
    command.env("ETCD_DATA_DIR", "elsewhere");
    let running = Running::start(command, home.path("0.log"));
    // Both ports are those of the one member.
    put(&second, "k").await;
    assert_eq!(get(&url, "k").await.as_deref(), Some("value"));
    let member = &members(&url).await[0];
    assert_eq!(member.name, "of-file");
    let mut urls = [url, second];
    urls.sort();
    assert_eq!(member.client_urls, urls);
    assert!(home.path("data").is_dir() && !home.path("elsewhere").exists());
    let log = fs::read_to_string(home.path("own.log")).unwrap();
    for said in [
        "other flags and variables of the environment are ignored",
        "no-such-key",
    ] {
        assert!(log.contains(said), "{said}: {log}");
    }
    assert_eq!(running.log(), "");
}

/// Scenario: the ports that charts give monitoring and browsers, and a log on a disk of its own.
#[tokio::test]
async fn ports_beside_the_one_for_clients_and_a_log_elsewhere() {
    let home = Home::new();
    let (url, http, metrics) = (home.client_url(0), home.client_url(1), home.client_url(2));
    let wal = home.path("wal");
    let flags = [
        format!("--initial-cluster={}", home.cluster(1)),
        format!("--listen-client-urls={url},unix://socket"),
        format!("--listen-client-http-urls={http}"),
        format!("--listen-metrics-urls={metrics}"),
        format!("--wal-dir={}", wal.display()),
        "--max-concurrent-streams=100".to_owned(),
        "--grpc-keepalive-interval=10s".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let running = start(&home, 0, &flags);
    put(&url, "k").await;
    for (place, path, code) in [
        (&url, "/health", 404),
        (&http, "/health", 200),
        (&http, "/version", 200),
        (&metrics, "/health", 200),
        (&metrics, "/metrics", 200),
        (&metrics, "/readyz", 200),
        (&metrics, "/version", 404),
        (&metrics, "/status", 404),
    ] {
        assert_eq!(support::get(place, path).await.0, code, "{place}{path}");
    }
    for place in [&http, &metrics] {
        let mut client = Client::connect(place).await;
        assert!(client.put("k", "other").await.is_err());
    }
    assert_eq!(get(&url, "k").await.as_deref(), Some("value"));
    // A socket in the file system is a port for clients as well.
    let mut socket = tokio::net::UnixStream::connect(home.path("socket"))
        .await
        .unwrap();
    let request = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    let segments = || fs::read_dir(&wal).unwrap().count();
    assert!(segments() > 0 && home.path("infra0.etcd/log").is_symlink());
    running.stop().await;

    // The link is kept, and what the flag says must be so.
    let running = start(&home, 0, &flags[1..3]);
    assert_eq!(get(&url, "k").await.as_deref(), Some("value"));
    running.stop().await;
    let mut command = home.etcd();
    command
        .args(home.own_flags(0))
        .args(["--wal-dir", "elsewhere"]);
    expect_failure(&mut command, 1, "(--wal-dir)");
}

#[test]
fn it_ends_with_the_codes_of_etcd() {
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let mut command = home.etcd();
        command.args(arguments);
        command
    };
    let known = "flag provided but not defined: -dta-dir (did you mean --data-dir?)";
    expect_failure(&mut run(&["--dta-dir", "x"]), 2, known);
    expect_failure(&mut run(&["start"]), 1, "\"start\" is not a valid flag");
    let own = "--advertise-client-urls is required when --listen-client-urls is set explicitly";
    let listen = home.client_url(0);
    expect_failure(&mut run(&["--listen-client-urls", &listen]), 1, own);
    let refused = ["--name=a", "--initial-cluster-state=existing"];
    expect_failure(
        &mut run(&refused),
        1,
        "--initial-cluster names no other member",
    );
    let nobody = ["--quorate-protocol=paxos"];
    expect_failure(&mut run(&nobody), 1, "there is no protocol \"paxos\"");
    for (flag, beginning) in [("--version", "etcd Version: 3."), ("--help", "Usage:")] {
        let output = output(&mut run(&[flag]));
        assert!(output.status.success());
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with(beginning), "{said}");
    }
    // A start that fails leaves nothing behind.
    assert_eq!(fs::read_dir(home.dir.path()).unwrap().count(), 1);
}
