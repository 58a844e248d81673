//! One replica that speaks TLS, its certificates, and clients of it.

use super::{PATIENCE, free_ports, quorate, signal};
use quorate_certificates::{Authority, Issued, Validity};
use quorate_etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use quorate_face_common::Dialer;
use quorate_face_etcd::client::KvClient;
use quorate_tls::{ClientFiles, Connector};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use tonic::transport::{Channel, Endpoint};

pub const HOST: &str = "127.0.0.1";

/// A folder with an authority, a certificate of a server and one of a client.
pub struct World {
    pub dir: tempfile::TempDir,
    pub authority: Authority,
    pub server: Issued,
    pub client: Issued,
}

impl World {
    pub fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new(dir.path(), "root");
        World {
            server: authority.issue("server", &[HOST, "localhost"], Validity::Usual),
            client: authority.issue("alice", &[], Validity::Usual),
            authority,
            dir,
        }
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The flags of a server that has a certificate.
    pub fn server_flags(&self) -> Vec<String> {
        let files = [
            ("cert-file", &self.server.certificate),
            ("key-file", &self.server.key),
        ];
        files
            .map(|(name, path)| format!("--{name}={}", path.display()))
            .to_vec()
    }

    /// The flags of a server that wants certificates, and knows which are revoked.
    pub fn mutual_flags(&self, revoked: &Path) -> Vec<String> {
        let mut flags = self.server_flags();
        flags.push("--client-cert-auth".to_owned());
        flags.push(format!(
            "--trusted-ca-file={}",
            self.authority.path().display()
        ));
        flags.push(format!("--client-crl-file={}", revoked.display()));
        flags
    }

    /// How a client trusts the server; `own` is what it shows.
    pub fn connector(&self, own: Option<&Issued>) -> Arc<Connector> {
        let files = ClientFiles {
            authorities: Some(self.authority.path()),
            certificate: own.map(|own| (own.certificate.clone(), own.key.clone())),
            languages: &[b"h2"],
            ..ClientFiles::default()
        };
        Arc::new(Connector::new(files).unwrap())
    }
}

/// The flags of a replica with this certificate, which trusts an authority.
pub fn peer_flags(shown: &Issued, authority: &Authority) -> Vec<String> {
    let files = [
        ("peer-cert-file", shown.certificate.clone()),
        ("peer-key-file", shown.key.clone()),
        ("peer-trusted-ca-file", authority.path()),
    ];
    files
        .map(|(name, path)| format!("--{name}={}", path.display()))
        .to_vec()
}

/// A running `quorate serve`, alone in its cluster.
pub struct Server {
    child: Child,
    pub port: u16,
    log: PathBuf,
}

impl Server {
    /// Starts it with this scheme for clients, and waits until it serves.
    pub fn start(world: &World, scheme: &str, flags: &[String]) -> Server {
        let port = free_ports(2);
        let log = world.dir.path().join("log");
        let mut child = quorate()
            .arg("serve")
            .arg("--data-dir")
            .arg(world.data_dir())
            .arg("--initial-cluster-state=new")
            .arg(format!("--listen-client-urls={scheme}://{HOST}:{port}"))
            .arg(format!("--listen-peer-urls=http://{HOST}:{}", port + 1))
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let server = Server { child, port, log };
        assert!(line.starts_with("ready"), "{line:?}\n{}", server.log());
        server
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub fn url(&self) -> String {
        format!("https://{HOST}:{}", self.port)
    }

    pub async fn try_connect(&self, connector: &Arc<Connector>) -> Result<Secured, String> {
        let channel = secured_channel(&self.url(), connector).await?;
        Ok(Secured::over(channel))
    }

    /// What is answered to bytes that are written as they are.
    pub fn say(&self, bytes: &[u8]) -> String {
        let mut tcp = TcpStream::connect((HOST, self.port)).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // Closed with a reset or without: what came before counts.
        let _ = tcp.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// What is answered to a GET over TLS.
    pub fn get(&self, connector: &Connector, path: &str) -> Result<String, String> {
        self.get_at(self.port, connector, path)
    }

    /// What is answered to a GET over TLS at one of the ports.
    pub fn get_at(&self, port: u16, connector: &Connector, path: &str) -> Result<String, String> {
        exchange(port, connector, &format!("GET {path}"), "")
    }

    /// What is answered to this method and path over TLS.
    pub fn ask(&self, connector: &Connector, what: &str, body: &str) -> Result<String, String> {
        exchange(self.port, connector, what, body)
    }
}

/// What is answered at a port to this method and path, and a body.
fn exchange(port: u16, connector: &Connector, what: &str, body: &str) -> Result<String, String> {
    let tcp = TcpStream::connect((HOST, port)).unwrap();
    let stream = connector.connect_blocking(tcp, HOST, PATIENCE);
    let mut stream = stream.map_err(|error| error.to_string())?;
    let length = body.len();
    let request = format!("{what} HTTP/1.0\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
    stream
        .write_all(request.as_bytes())
        .map_err(|error| error.to_string())?;
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    match read {
        Ok(_) => Ok(answer),
        Err(_) if !answer.is_empty() => Ok(answer),
        Err(error) => Err(error.to_string()),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(self.child.id(), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// A connection over TLS for any service.
pub async fn secured_channel(url: &str, connector: &Arc<Connector>) -> Result<Channel, String> {
    let endpoint = Endpoint::from_shared(url.to_owned()).unwrap();
    let dialer = Dialer::new(Some(Arc::clone(connector)));
    let endpoint = endpoint.timeout(PATIENCE);
    let channel = endpoint.connect_with_connector(dialer).await;
    channel.map_err(|error| format!("{:?}", std::error::Error::source(&error)))
}

/// A client over TLS.
#[derive(Clone)]
pub struct Secured(KvClient<Channel>);

impl Secured {
    pub fn over(channel: Channel) -> Secured {
        Secured(KvClient::new(channel))
    }

    pub async fn put(&mut self, key: &str, value: &str) -> Result<(), tonic::Status> {
        let request = PutRequest {
            key: key.to_owned().into_bytes().into(),
            value: value.to_owned().into_bytes().into(),
            ..PutRequest::default()
        };
        self.0.put(request).await.map(drop)
    }

    pub async fn get(&mut self, key: &str) -> Result<Vec<u8>, tonic::Status> {
        let request = RangeRequest {
            key: key.to_owned().into_bytes().into(),
            ..RangeRequest::default()
        };
        let answer = self.0.range(request).await?.into_inner();
        Ok(answer
            .kvs
            .first()
            .map(|kv| kv.value.to_vec())
            .unwrap_or_default())
    }
}
