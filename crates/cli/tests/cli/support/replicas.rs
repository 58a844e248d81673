//! Three replicas, each a `quorate serve` of its own flags, that reach each other through relays which remember what
//! passes. Clients may come through relays, too.

use super::secured::HOST;
use super::{free_ports, quorate, signal};
use rustix::process::Signal;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex};

pub const REPLICAS: u16 = 3;

/// Bytes that passed all relays, in both directions.
pub type Recording = Arc<Mutex<Vec<u8>>>;

pub struct Replicas {
    dir: PathBuf,
    first_port: u16,
    /// The scheme of the URLs that clients use: http or https.
    client_scheme: &'static str,
    children: Vec<Option<Child>>,
    gateways: Vec<Child>,
    pub recording: Recording,
}

impl Replicas {
    pub fn new(dir: &Path) -> Replicas {
        Replicas::serving(dir, "http")
    }

    /// Replicas that speak this with clients.
    pub fn serving(dir: &Path, client_scheme: &'static str) -> Replicas {
        let first_port = free_ports(4 * REPLICAS);
        let recording = Recording::default();
        // Those of peers, and behind them those of clients.
        for port in first_port..first_port + 2 * REPLICAS {
            let (from, to) = match port < first_port + REPLICAS {
                true => (port + 3 * REPLICAS, port),
                false => (port + REPLICAS, port),
            };
            let listener = TcpListener::bind((HOST, from)).unwrap();
            let recording = Arc::clone(&recording);
            std::thread::spawn(move || relay_all(&listener, to, &recording));
        }
        Replicas {
            dir: dir.to_owned(),
            first_port,
            client_scheme,
            children: (0..REPLICAS).map(|_| None).collect(),
            gateways: Vec::new(),
            recording,
        }
    }

    pub fn client_url(&self, id: u16) -> String {
        let scheme = self.client_scheme;
        format!("{scheme}://{HOST}:{}", self.first_port + id - 1)
    }

    /// Where a replica's clients come through a relay.
    pub fn relayed_url(&self, id: u16) -> String {
        let scheme = self.client_scheme;
        format!(
            "{scheme}://{HOST}:{}",
            self.first_port + 3 * REPLICAS + id - 1
        )
    }

    /// The ports of a replica: for clients, and for peers.
    pub fn ports(&self, id: u16) -> [u16; 2] {
        let client = self.first_port + id - 1;
        [client, client + REPLICAS]
    }

    pub fn client_urls(&self) -> Vec<String> {
        (1..=REPLICAS).map(|id| self.client_url(id)).collect()
    }

    /// The flags that say where everybody is, with this scheme between replicas.
    pub fn flags(&self, id: u16, scheme: &str) -> Vec<String> {
        let relay = |id: u16| {
            format!(
                "{id}={scheme}://{HOST}:{}",
                self.first_port + 2 * REPLICAS + id - 1
            )
        };
        let all: Vec<String> = (1..=REPLICAS).map(relay).collect();
        vec![
            "serve".to_owned(),
            format!("--id={id}"),
            format!("--data-dir={}", self.data_dir(id).display()),
            format!("--initial-cluster={}", all.join(",")),
            "--initial-cluster-state=new".to_owned(),
            format!("--listen-client-urls={}", self.client_url(id)),
            format!("--listen-peer-urls={scheme}://{HOST}:{}", self.ports(id)[1]),
        ]
    }

    pub fn data_dir(&self, id: u16) -> PathBuf {
        self.dir.join(format!("replica-{id}"))
    }

    /// Starts a replica, or starts it again; does not wait until it serves.
    pub fn start(&mut self, id: u16, scheme: &str, flags: &[String]) {
        self.stop(id);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path(id))
            .unwrap();
        let mut command = quorate();
        command.args(self.flags(id, scheme)).args(flags);
        let child = command
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.children[usize::from(id) - 1] = Some(child);
    }

    /// Starts a gateway with these flags; says where it serves.
    pub fn start_gateway(&mut self, scheme: &str, flags: &[String]) -> String {
        let url = format!("http://{HOST}:{}", free_ports(1));
        let first_relay = self.first_port + 2 * REPLICAS;
        let mut command = quorate();
        command
            .arg("gateway")
            .arg(format!("--peers={scheme}://{HOST}:{first_relay}"));
        command
            .arg(format!("--listen-client-urls={url}"))
            .args(flags);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.join("log-gateway"))
            .unwrap();
        let child = command
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.gateways.push(child);
        url
    }

    pub fn start_all(&mut self, scheme: &str, flags: impl Fn(u16) -> Vec<String>) {
        for id in 1..=REPLICAS {
            self.start(id, scheme, &flags(id));
        }
    }

    pub fn stop(&mut self, id: u16) {
        if let Some(mut child) = self.children[usize::from(id) - 1].take() {
            signal(child.id(), Signal::TERM);
            child.wait().unwrap();
        }
    }

    fn log_path(&self, id: u16) -> PathBuf {
        self.dir.join(format!("log-{id}"))
    }

    pub fn log(&self, id: u16) -> String {
        fs::read_to_string(self.log_path(id)).unwrap()
    }

    /// Whether these bytes passed a relay.
    pub fn has_recorded(&self, bytes: &[u8]) -> bool {
        let recording = self.recording.lock().unwrap();
        recording.windows(bytes.len()).any(|window| window == bytes)
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        (1..=REPLICAS).for_each(|id| self.stop(id));
        for gateway in &mut self.gateways {
            signal(gateway.id(), Signal::TERM);
            gateway.wait().unwrap();
        }
    }
}

fn relay_all(listener: &TcpListener, to: u16, recording: &Recording) {
    for caller in listener.incoming().map_while(Result::ok) {
        let Ok(callee) = TcpStream::connect((HOST, to)) else {
            continue; // Dropped, and thereby closed.
        };
        for (from, to) in [(&caller, &callee), (&callee, &caller)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let recording = Arc::clone(recording);
            std::thread::spawn(move || relay(from, to, &recording));
        }
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, recording: &Recording) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        recording.lock().unwrap().extend_from_slice(&bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = from.shutdown(std::net::Shutdown::Both);
}
