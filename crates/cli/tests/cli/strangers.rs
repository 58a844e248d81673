//! Strangers at the peer ports, who need no secret and know what `join` tells everybody. Nothing of what they say
//! lasts.

use crate::support::{
    Client, Home, PATIENCE, Up, channel, converged, eventually, free_ports, metrics, quorate,
    signal,
};
use bytes::Bytes;
use quorate_core::{Encoder, Incarnation, ReplicaId, Wire};
use quorate_etcd_api::etcdserverpb::MemberUpdateRequest;
use quorate_face_etcd::client::ClusterClient;
use quorate_host::SupportedVersions;
use quorate_server::{Meta, read_meta};
use rustix::process::Signal;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A replica is back by itself so soon after strangers have gone.
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// The beginning of a connection as `crates/server/src/peer/opening.rs` draws it.
fn opening(body: &[u8]) -> Vec<u8> {
    let SupportedVersions { oldest, newest } = SupportedVersions::SHIPPED;
    let crc = crc_fast::crc32_iscsi(body);
    let words = [newest.0, oldest.0, body.len() as u32, crc].map(u32::to_le_bytes);
    [b"QUORPEER", words.as_flattened(), body].concat()
}

/// "I am this replica, in this incarnation."
fn hello(meta: &Meta, from: ReplicaId, life: Incarnation, to: ReplicaId) -> Bytes {
    let mut out = Encoder::new();
    meta.cluster.encode(&mut out);
    from.encode(&mut out);
    life.encode(&mut out);
    out.u64(7); // boot
    to.encode(&mut out);
    out.string(&meta.epoch.protocol);
    meta.group.encode(&mut out);
    out.varint(meta.epoch.number);
    out.u64(meta.epoch.digest());
    out.into_bytes()
}

/// Says it to a peer port, and waits for the answer, which is not looked at: what counts is what it leaves behind.
fn call(port: u16, words: &[u8]) {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(words).unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    // A refused stranger may see a reset.
    let _ = connection.read_to_end(&mut Vec::new());
}

/// Everybody is told by a stranger that each of the others is in this incarnation.
fn six_short_connections(home: &Home, life: impl Fn(&Meta, ReplicaId) -> Incarnation) {
    let meta = read_meta(&home.dir.join("1")).unwrap();
    let client_port: u16 = home.port.parse().unwrap();
    for to in (1..=3).map(ReplicaId) {
        for from in (1..=3).map(ReplicaId).filter(|from| *from != to) {
            let hello = hello(&meta, from, life(&meta, from), to);
            call(client_port + 2 * to.0 - 1, &opening(&hello));
        }
    }
}

/// The files in which replicas keep who they and others are.
fn identities(home: &Home) -> BTreeMap<String, Vec<u8>> {
    let names = ["meta", "meta.copy", "lives", "lives.copy"];
    let files = (1..=3).flat_map(|id| names.map(|name| format!("{id}/{name}")));
    files
        .filter_map(|name| Some((name.clone(), fs::read(home.dir.join(name)).ok()?)))
        .collect()
}

async fn put_through_all(up: &Up, value: &str) {
    for url in &up.urls {
        let put = async || Client::try_connect(url).await?.put("k", value).await.ok();
        eventually("a put through every replica", put).await;
    }
}

/// Scenario: strangers say that each replica is in the last incarnation there is, in a later one, and in its own;
/// then the whole cluster is restarted.
#[tokio::test]
async fn false_hellos_leave_nothing_behind() {
    for protocol in [
        "rabia",
        "multi-paxos",
        "raft",
        "rs-paxos",
        "racos",
        "chora",
        "nezha",
    ] {
        let home = Home::new();
        let up = home.start(&["--protocol", protocol]);
        put_through_all(&up, "before").await;
        let before = identities(&home);
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
        six_short_connections(&home, |_, _| Incarnation(u128::MAX));
        six_short_connections(&home, |_, _| Incarnation(now << 64 | 5));
        six_short_connections(&home, |meta, from| {
            let mut members = meta.epoch.members.iter();
            members
                .find(|member| member.id == from)
                .unwrap()
                .incarnation
        });
        put_through_all(&up, "after").await;
        assert!(up.stop().success());
        assert_eq!(identities(&home), before, "{protocol}");
        let began = Instant::now();
        let up = Up::start(&home.dir, &[]);
        put_through_all(&up, "again").await;
        assert!(began.elapsed() < BACK_WITHIN, "{protocol}");
        converged(&up.urls).await;
    }
}

/// What a process has in memory.
fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap()
}

/// Connections to a port that say nothing or half of a hello, and more of them all the time. They end with this.
struct Flood {
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    const CONNECTIONS: usize = 400;

    /// Returns once all are there.
    fn start(port: u16, hello: Vec<u8>) -> Flood {
        let stops = Arc::new(AtomicBool::new(false));
        let (tell, all_there) = mpsc::channel();
        let is_over = Arc::clone(&stops);
        let thread = std::thread::spawn(move || {
            let mut strangers = VecDeque::new();
            for count in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
                // It may have had to give way already.
                let _ = stranger.write_all(&hello[..count % hello.len()]);
                strangers.push_back(stranger);
                if count >= Flood::CONNECTIONS {
                    strangers.pop_front();
                    let _ = tell.send(());
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        all_there.recv_timeout(PATIENCE).unwrap();
        Flood {
            stops,
            thread: Some(thread),
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        let thread = self.thread.take().map(JoinHandle::join);
        assert!(thread.is_some_and(|ended| ended.is_ok()));
    }
}

/// Scenario: hundreds of connections to a peer port say nothing, or half of a hello, and more come all the time, while
/// another replica starts again.
#[tokio::test]
async fn a_flood_of_strangers_costs_little_and_keeps_no_replica_out() {
    const GROWTH_KIB_MAX: u64 = 32 << 10;
    // Four of each of three kinds every ten seconds, for as long as it may take.
    const LINES_MAX: usize = 100;
    let home = Home::new();
    let mut up = home.start(&[]);
    put_through_all(&up, "before").await;
    let before = resident_kib(up.pids[&1]);
    signal(up.pids[&2], Signal::KILL);
    up.wait_for("replica 2 (process");
    let port = home.port.parse::<u16>().unwrap() + 1;
    let meta = read_meta(&home.dir.join("1")).unwrap();
    let hello = hello(&meta, ReplicaId(2), Incarnation(5), ReplicaId(1));
    let flood = Flood::start(port, opening(&hello));
    let began = Instant::now();
    let second = Up::start(&home.dir, &["--only", "2"]);
    let linked = async || {
        let page = metrics(&up.urls[1]).await;
        page.contains("quorate_peer_connected{peer=\"1\"} 1")
            .then_some(())
    };
    eventually("frames can be sent to the flooded one", linked).await;
    put_through_all(&up, "meanwhile").await;
    assert!(began.elapsed() < BACK_WITHIN);
    let grown = resident_kib(up.pids[&1]).saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB");
    let log = fs::read_to_string(home.dir.join("1/log.txt")).unwrap();
    let lines = log.matches("connection to the peer port refused").count();
    assert!((1..LINES_MAX).contains(&lines), "{lines} lines");
    drop((flood, second));
}

/// A replica served by hand.
struct Served(Child);

impl Served {
    /// Replica `id` of three, whose ports are six from `first_port` on; its own peer port is `peer_port`, whatever the
    /// others are told.
    fn start(home: &Path, first_port: u16, id: u16, peer_port: u16) -> Served {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let list = (1..=3).map(|id| format!("{id}={}", url(first_port + 2 * id - 1)));
        let log = fs::File::create(log_of(home, id)).unwrap();
        let mut command: Command = quorate();
        command
            .arg("serve")
            .args(["--initial-cluster", &list.collect::<Vec<_>>().join(",")])
            .args(["--initial-cluster-state", "new"])
            .args(["--id", &id.to_string()])
            .args(["--listen-client-urls", &url(first_port + 2 * (id - 1))])
            .args(["--listen-peer-urls", &url(peer_port)])
            .arg("--data-dir")
            .arg(home.join(id.to_string()))
            .stdout(Stdio::null())
            .stderr(log);
        Served(command.spawn().unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn log_of(home: &Path, id: u16) -> std::path::PathBuf {
    home.join(format!("{id}.log"))
}

/// Scenario: a replica listens elsewhere than the others are told. It is said what is wrong, and both ways out that the
/// message names work: it listens there again, or the cluster is told where it is.
#[tokio::test]
async fn a_replica_that_is_not_where_it_is_expected_is_told_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let first = free_ports(7);
    let (right, elsewhere) = (first + 3, first + 6);
    let start = |id, port| Served::start(home, first, id, port);
    let url = |id: u16| format!("http://127.0.0.1:{}", first + 2 * (id - 1));
    let put = async |id: u16| {
        let put = async || {
            Client::try_connect(&url(id))
                .await?
                .put("k", "v")
                .await
                .ok()
        };
        eventually("a put", put).await;
    };
    let _others = [start(1, first + 1), start(3, first + 5)];
    let mut two = start(2, right);
    put(2).await;
    for is_told in [false, true] {
        drop(two);
        two = start(2, elsewhere);
        let why = format!("replica 2 is taken once it can be called back at 127.0.0.1:{right}");
        let said = async || {
            let log = fs::read_to_string(log_of(home, 2)).unwrap_or_default();
            log.contains(&why).then_some(())
        };
        eventually(&why, said).await;
        put(1).await;
        if is_told {
            let request = MemberUpdateRequest {
                id: 2,
                peer_urls: vec![format!("http://127.0.0.1:{elsewhere}")],
            };
            let mut cluster = ClusterClient::new(channel(&url(1)).await);
            cluster.member_update(request).await.unwrap();
        } else {
            drop(two);
            two = start(2, right);
        }
        put(2).await;
    }
    drop(two);
}
