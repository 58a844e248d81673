//! Runs the real program: a folder that goes away, ports nobody else has, and no process left
//! behind.

#![allow(missing_docs, unreachable_pub, reason = "a module of the tests alone")]

pub mod alarms;
pub mod loss;
pub mod program;
pub mod raw;
pub mod real_server;
pub mod refusals;
pub mod replicas;
pub mod resp;
pub mod secured;
pub mod watching;

pub use program::{PATIENCE, output, program, signal};
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, HashKvRequest, LeaseGrantRequest, PutRequest,
    RangeRequest, ResponseHeader,
};
use quorate_face_etcd::client::{KvClient, LeaseClient, MaintenanceClient};
use rustix::process::{Pid, Signal, test_kill_process};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

/// The program, without options from the environment of whoever runs the tests.
pub fn quorate() -> Command {
    program(env!("CARGO_BIN_EXE_quorate"))
}

/// The program must end with this exit code and say this on standard error.
pub fn expect_failure(command: &mut Command, code: i32, message: &str) {
    let output = output(command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains(message),
        "{command:?}\nlacks: {message}\nsaid: {said}"
    );
    assert_eq!(
        output.status.code(),
        Some(code),
        "{command:?}\nsaid: {said}"
    );
}

/// The first of `count` ports in a row that nobody has. They are below the range the kernel gives
/// to connections.
///
/// The tests of one process run side by side, and a port may not be taken until long after it was
/// given: no port is given twice.
pub fn free_ports(count: u16) -> u16 {
    static NEXT: LazyLock<AtomicU16> =
        LazyLock::new(|| AtomicU16::new(fastrand::u16(10_000..30_000)));
    loop {
        let first = NEXT.fetch_add(count, Ordering::Relaxed);
        if (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}

/// Whether a process exists.
pub fn exists(id: u32) -> bool {
    test_kill_process(Pid::from_raw(id.cast_signed()).unwrap()).is_ok()
}

/// Tries until it holds; a condition, not a nap.
pub async fn eventually<F: Future<Output = Option<T>>, T>(
    what: &str,
    mut check: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A running `quorate up`.
pub struct Up {
    child: Child,
    dir: PathBuf,
    lines: Receiver<String>,
    pub pids: BTreeMap<u16, u32>,
    pub urls: Vec<String>,
    /// Where gateways serve, if there are any.
    pub gateways: Vec<String>,
    /// Where operators are served, if that is somewhere else.
    pub admin: Vec<String>,
}

impl Up {
    /// Starts it and waits until every replica serves.
    pub fn start(dir: &Path, flags: &[&str]) -> Up {
        let mut child = quorate()
            .arg("up")
            .arg("--data-dir")
            .arg(dir)
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        let mut up = Up {
            child,
            dir: dir.to_owned(),
            lines,
            pids: BTreeMap::new(),
            urls: Vec::new(),
            gateways: Vec::new(),
            admin: Vec::new(),
        };
        let endpoints = up.wait_for("endpoints: ");
        up.urls = list(&endpoints["endpoints: ".len()..]);
        up
    }

    /// The folder of the cluster.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Waits for a line that begins like this.
    pub fn wait_for(&mut self, beginning: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no line begins with {beginning:?}"));
            self.note_pid(&line);
            if let Some(urls) = line.strip_prefix("gateway endpoints: ") {
                self.gateways = list(urls);
            }
            if let Some(urls) = line.strip_prefix("admin endpoints: ") {
                self.admin = list(urls);
            }
            if line.starts_with(beginning) {
                return line;
            }
        }
    }

    /// `replica 2: process 4711, ...`
    fn note_pid(&mut self, line: &str) {
        let parsed: Option<(u16, u32)> = line.strip_prefix("replica ").and_then(|rest| {
            let (id, rest) = rest.split_once(": process ")?;
            let (pid, _) = rest.split_once(',')?;
            Some((id.parse().ok()?, pid.parse().ok()?))
        });
        self.pids.extend(parsed);
    }

    /// Stops it as an operator does. All its replicas must be gone afterwards.
    pub fn stop(mut self) -> ExitStatus {
        signal(self.child.id(), Signal::TERM);
        let status = self.wait();
        for (id, pid) in &self.pids {
            assert!(
                !exists(*pid),
                "replica {id} outlived the process that started it"
            );
        }
        status
    }

    /// Kills the supervisor, which gets no chance to stop anything.
    pub fn kill(mut self) {
        signal(self.child.id(), Signal::KILL);
        self.wait();
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        // Its output ends when it does.
        while self
            .lines
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .is_ok()
        {}
        assert!(Instant::now() < deadline, "it did not stop");
        self.child.wait().unwrap()
    }
}

fn list(urls: &str) -> Vec<String> {
    urls.split(',').map(str::to_owned).collect()
}

impl Drop for Up {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(self.child.id(), Signal::TERM);
            self.wait();
        }
    }
}

/// A connection for a service that [`Client`] has not.
pub async fn channel(url: &str) -> Channel {
    let endpoint = Endpoint::from_shared(url.to_owned()).unwrap();
    endpoint.timeout(PATIENCE).connect().await.unwrap()
}

/// A client of one endpoint.
#[derive(Clone)]
pub struct Client {
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    maintenance: MaintenanceClient<Channel>,
}

impl Client {
    pub async fn connect(url: &str) -> Client {
        let client = Client::try_connect(url).await;
        client.unwrap_or_else(|| panic!("nobody listens at {url}"))
    }

    /// `None` if nobody listens.
    pub async fn try_connect(url: &str) -> Option<Client> {
        let endpoint = Endpoint::from_shared(url.to_owned())
            .unwrap()
            .timeout(PATIENCE);
        let channel = endpoint.connect().await.ok()?;
        Some(Client {
            kv: KvClient::new(channel.clone()),
            lease: LeaseClient::new(channel.clone()),
            maintenance: MaintenanceClient::new(channel),
        })
    }

    pub async fn put(&mut self, key: &str, value: &str) -> Result<(), tonic::Status> {
        let request = PutRequest {
            key: key.to_owned().into_bytes().into(),
            value: value.to_owned().into_bytes().into(),
            ..PutRequest::default()
        };
        self.kv.put(request).await.map(|_| ())
    }

    pub async fn get(&mut self, key: &str) -> Result<Option<String>, tonic::Status> {
        let request = RangeRequest {
            key: key.to_owned().into_bytes().into(),
            ..RangeRequest::default()
        };
        let answer = self.kv.range(request).await?.into_inner();
        Ok(answer
            .kvs
            .first()
            .map(|kv| String::from_utf8_lossy(&kv.value).into_owned()))
    }

    /// How often a key was put since it was created; 0 if there is no such key.
    pub async fn version_of(&mut self, key: &str) -> Result<i64, tonic::Status> {
        let request = RangeRequest {
            key: key.to_owned().into_bytes().into(),
            ..RangeRequest::default()
        };
        let answer = self.kv.range(request).await?.into_inner();
        Ok(answer.kvs.first().map_or(0, |kv| kv.version))
    }

    pub async fn delete(&mut self, key: &str) -> Result<(), tonic::Status> {
        let request = DeleteRangeRequest {
            key: key.to_owned().into_bytes().into(),
            ..DeleteRangeRequest::default()
        };
        self.kv.delete_range(request).await.map(|_| ())
    }

    /// Puts a key that a lease of ten years holds.
    pub async fn put_leased(&mut self, key: &str, value: &str) -> Result<(), tonic::Status> {
        const TEN_YEARS_S: i64 = 10 * 365 * 24 * 3600;
        let grant = LeaseGrantRequest {
            id: 7,
            ttl: TEN_YEARS_S,
        };
        let lease = self.lease.lease_grant(grant).await?.into_inner().id;
        let request = PutRequest {
            key: key.to_owned().into_bytes().into(),
            value: value.to_owned().into_bytes().into(),
            lease,
            ..PutRequest::default()
        };
        self.kv.put(request).await.map(|_| ())
    }

    /// Compacts all of history but the present.
    pub async fn compact(&mut self) -> Result<(), tonic::Status> {
        let (revision, _) = self.hash().await;
        let request = CompactionRequest {
            revision,
            physical: true,
        };
        self.kv.compact(request).await.map(|_| ())
    }

    /// Revision and hash of this replica's own state.
    pub async fn hash(&mut self) -> (i64, u32) {
        let answer = self
            .maintenance
            .hash_kv(HashKvRequest::default())
            .await
            .unwrap()
            .into_inner();
        (
            answer
                .header
                .map_or(0, |header: ResponseHeader| header.revision),
            answer.hash,
        )
    }
}

/// Waits until all endpoints report the same state, and returns it.
pub async fn converged(urls: &[String]) -> (i64, u32) {
    let mut clients = Vec::new();
    for url in urls {
        clients.push(Client::connect(url).await);
    }
    eventually("all replicas hold the same", || {
        let mut clients = clients.clone();
        async move {
            let mut hashes = Vec::new();
            for client in &mut clients {
                hashes.push(client.hash().await);
            }
            hashes
                .windows(2)
                .all(|pair| pair[0] == pair[1])
                .then(|| hashes[0])
        }
    })
    .await
}

/// What an endpoint answers over plain HTTP: the status code and the body.
pub async fn get(url: &str, path: &str) -> (u16, String) {
    let answer = page(url, path).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
    (head[9..12].parse().expect("a status code"), body.to_owned())
}

/// The text of an endpoint's metrics page.
pub async fn metrics(url: &str) -> String {
    page(url, "/metrics").await
}

/// What an endpoint answers to a GET.
pub async fn page(url: &str, path: &str) -> String {
    asked(url, &format!("GET {path}"), "").await
}

/// What an endpoint answers to a POST: all that comes until it closes the connection.
pub async fn post(url: &str, path: &str, body: &str) -> String {
    asked(url, &format!("POST {path}"), body).await
}

async fn asked(url: &str, line: &str, body: &str) -> String {
    try_asked(url, line, body).await.unwrap()
}

/// The metrics of a replica that may have no room for one more connection.
pub async fn try_metrics(url: &str) -> Option<String> {
    let answer = try_asked(url, "GET /metrics", "").await.ok()?;
    answer.starts_with("HTTP/1.1 200 ").then_some(answer)
}

async fn try_asked(url: &str, line: &str, body: &str) -> std::io::Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = url.strip_prefix("http://").unwrap();
    let mut connection = tokio::net::TcpStream::connect(address).await?;
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The value of a metric without labels.
pub async fn metric(url: &str, name: &str) -> f64 {
    let text = metrics(url).await;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok())
        .unwrap_or_else(|| panic!("{name} is missing from\n{text}"))
}

/// A cluster's folder in a home of its own, and flags with free ports.
pub struct Home {
    pub dir: PathBuf,
    pub port: String,
    _home: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Home {
        let home = tempfile::tempdir().unwrap();
        Home {
            dir: home.path().join("cluster"),
            // Three replicas, and a few gateways.
            port: free_ports(10).to_string(),
            _home: home,
        }
    }

    pub fn start(&self, flags: &[&str]) -> Up {
        let mut all = vec!["--port", self.port.as_str()];
        all.extend_from_slice(flags);
        Up::start(&self.dir, &all)
    }
}

/// Puts one key after the other, through whoever answers; says how many were acknowledged.
pub fn write_on(urls: Vec<String>, stop: Arc<AtomicBool>) -> (Arc<AtomicU32>, JoinHandle<()>) {
    let written = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&written);
    let task = tokio::spawn(async move {
        for url in urls.iter().cycle() {
            let Some(mut client) = Client::try_connect(url).await else {
                tokio::task::yield_now().await;
                continue;
            };
            while !stop.load(Ordering::Relaxed) {
                let next = count.load(Ordering::Relaxed);
                if client.put(&format!("n{next}"), "v").await.is_err() {
                    break;
                }
                count.store(next + 1, Ordering::Relaxed);
            }
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
    });
    (written, task)
}
