//! Handshakes, streams and files.

mod refusals;

use crate::*;
use quorate_certificates::{Authority, Issued, Validity};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const HOST: &str = "127.0.0.1";
const LANGUAGES: &[&[u8]] = &[b"h2"];
/// Whatever takes longer does not come to an end.
const PATIENCE: Duration = Duration::from_secs(20);

/// An authority, and a server's certificate of it.
struct World {
    dir: TempDir,
    authority: Authority,
    server: Issued,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new(dir.path(), "root");
        let server = authority.issue("server", &[HOST, "localhost"], Validity::Usual);
        World {
            dir,
            authority,
            server,
        }
    }

    fn server_files(&self) -> ServerFiles {
        ServerFiles {
            certificate: self.server.certificate.clone(),
            key: self.server.key.clone(),
            authorities: None,
            revoked: None,
            allowed: AllowedNames::default(),
            parameters: Parameters::default(),
            languages: LANGUAGES,
        }
    }

    /// Of a server that wants certificates.
    fn mutual_files(&self) -> ServerFiles {
        ServerFiles {
            authorities: Some(self.authority.path()),
            ..self.server_files()
        }
    }

    fn client_files(&self) -> ClientFiles {
        ClientFiles {
            authorities: Some(self.authority.path()),
            languages: LANGUAGES,
            ..ClientFiles::default()
        }
    }

    fn client_with(&self, issued: &Issued) -> ClientFiles {
        ClientFiles {
            certificate: Some((issued.certificate.clone(), issued.key.clone())),
            ..self.client_files()
        }
    }
}

type Ends = (Result<Connection, String>, Result<Connection, String>);

/// What server and client come to; a client of TLS 1.3 hears of a refusal only when it reads.
async fn meet(acceptor: &Acceptor, connector: &Connector) -> Ends {
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let accept = async {
        let (tcp, _) = listener.accept().await.unwrap();
        acceptor
            .accept(tcp)
            .await
            .map_err(|error| error.to_string())
    };
    let connect = async {
        let tcp = TcpStream::connect(address).await.unwrap();
        let connected = connector.connect(tcp, HOST).await;
        connected.map_err(|error| error.to_string())
    };
    tokio::join!(accept, connect)
}

async fn meet_by(server: ServerFiles, client: ClientFiles) -> Ends {
    let acceptor = Acceptor::new(server).unwrap();
    meet(&acceptor, &Connector::new(client).unwrap()).await
}

/// Why the server takes no connection.
async fn refusal(server: ServerFiles, client: ClientFiles) -> String {
    meet_by(server, client).await.0.map(drop).unwrap_err()
}

/// Why the client takes no connection.
async fn refused_by_client(server: ServerFiles, client: ClientFiles) -> String {
    meet_by(server, client).await.1.map(drop).unwrap_err()
}

async fn say(from: &mut Connection, to: &mut Connection, bytes: &[u8]) {
    let write = async {
        from.write_all(bytes).await.unwrap();
        from.flush().await.unwrap();
    };
    let mut heard = vec![0; bytes.len()];
    let (_, read) = tokio::join!(write, to.read_exact(&mut heard));
    read.unwrap();
    assert!(heard == bytes);
}

#[tokio::test]
async fn bytes_of_any_number_go_both_ways_and_the_end_arrives() {
    let world = World::new();
    let (server, client) = meet_by(world.server_files(), world.client_files()).await;
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    assert!(server.is_encrypted() && server.certificate().is_none());
    for count in [1, 20_000, 3 << 20] {
        let bytes: Vec<u8> = (0..count).map(|at| (at % 251) as u8).collect();
        say(&mut client, &mut server, &bytes).await;
        say(&mut server, &mut client, &bytes).await;
    }
    client.shutdown().await.unwrap();
    assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
}

/// Scenario: the handshake is done by one runtime and the rest by another.
#[tokio::test]
async fn a_connection_moves_to_another_runtime() {
    let world = World::new();
    let (server, client) = meet_by(world.server_files(), world.client_files()).await;
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    say(&mut client, &mut server, b"before").await;
    client.write_all(b"across").await.unwrap();
    client.flush().await.unwrap();
    let detached = server.detach().unwrap();
    let moved = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let mut server = Connection::attach(detached).unwrap();
            let mut heard = [0; 6];
            server.read_exact(&mut heard).await.unwrap();
            server.write_all(b"back").await.unwrap();
            server.flush().await.unwrap();
            heard
        })
    });
    let mut heard = [0; 4];
    client.read_exact(&mut heard).await.unwrap();
    assert_eq!((moved.join().unwrap(), &heard), (*b"across", b"back"));
}

/// Scenario: the socket is full, so that what was taken waits, and goes when there is room.
#[tokio::test]
async fn what_the_socket_does_not_take_waits_and_is_not_lost() {
    let world = World::new();
    let (server, client) = meet_by(world.server_files(), world.client_files()).await;
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    let piece = vec![5; 100_000];
    let mut sent = 0;
    while !client.has_unsent() {
        let pieces = [std::io::IoSlice::new(&piece), std::io::IoSlice::new(b"end")];
        sent += client.try_write_vectored(&pieces).unwrap();
    }
    assert_eq!(
        client.try_flush().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
    let mut received = vec![0; sent];
    let (flushed, read) = tokio::join!(client.flush(), server.read_exact(&mut received));
    assert_eq!((flushed.unwrap(), read.unwrap()), ((), sent));
    assert!(!client.has_unsent() && received.ends_with(b"end"));
}

#[tokio::test]
async fn a_certificate_that_was_verified_is_known_to_the_server() {
    let world = World::new();
    let alice = world.authority.issue("alice", &[], Validity::Usual);
    let (server, client) = meet_by(world.mutual_files(), world.client_with(&alice)).await;
    let server = server.unwrap();
    let shown = server.certificate().unwrap();
    assert_eq!(
        (&*shown.common_name, &*shown.serial),
        ("alice", &*alice.serial_text())
    );
    assert!(client.unwrap().certificate().is_some());
}

#[tokio::test]
async fn a_certificate_that_its_owner_signed_is_taken_by_those_who_have_it() {
    let world = World::new();
    let dir = world.dir.path().join("own");
    let hosts = [HOST.to_owned(), "localhost".to_owned()];
    let (certificate, key) = self_signed(&dir, &hosts, 1).unwrap();
    let files = ServerFiles {
        certificate: certificate.clone(),
        key,
        ..world.server_files()
    };
    let trusting = ClientFiles {
        authorities: Some(certificate.clone()),
        ..world.client_files()
    };
    let (server, client) = meet_by(files.clone(), trusting).await;
    drop((server.unwrap(), client.unwrap()));
    let said = refused_by_client(files, world.client_files()).await;
    assert!(said.contains("not in"), "{said}");
    // It is used again as long as it is valid.
    let before = std::fs::read(&certificate).unwrap();
    self_signed(&dir, &hosts, 1).unwrap();
    assert_eq!(std::fs::read(&certificate).unwrap(), before);
}

/// An authority's certificate that is a server's, too, as `openssl req -x509` makes it.
#[tokio::test]
async fn a_trusted_certificate_may_be_an_authoritys() {
    let world = World::new();
    let both = Authority::new(world.dir.path(), "both");
    let bytes = std::fs::read(both.path()).unwrap();
    assert!(!bytes.is_empty());
    // Its key is not for servers here: what is tested is the judge alone.
    let path = both.path();
    let der = crate::files::chain(&path).unwrap().certificates;
    let standard = crate::describe::Standard {
        whose: "the server",
        authorities: &path,
        host: None,
        now: crate::certificate::now(),
    };
    let other = rustls::CertificateError::Other(rustls::OtherError(Arc::new(std::fmt::Error)));
    let error = rustls::Error::InvalidCertificate(other);
    assert!(standard.takes_as_trusted(&der[0], &der, &error));
    assert!(!standard.takes_as_trusted(&der[0], &[], &error));
    let late = crate::describe::Standard {
        now: i64::MAX,
        ..standard
    };
    assert!(!late.takes_as_trusted(&der[0], &der, &error));
}

/// Waits until what is looked at says so, for a while.
async fn becomes(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn serial_shown(acceptor: &Acceptor, connector: &Connector) -> Option<String> {
    let (_, client) = meet(acceptor, connector).await;
    Some(client.ok()?.certificate()?.serial.clone())
}

#[tokio::test]
async fn certificates_are_read_again_when_their_files_change_and_bad_ones_are_not_taken() {
    let world = World::new();
    let acceptor = Acceptor::new(world.server_files()).unwrap();
    let connector = Connector::new(world.client_files()).unwrap();
    let first = serial_shown(&acceptor, &connector).await;
    assert_eq!(first, Some(world.server.serial_text()));
    std::fs::write(&world.server.certificate, "nonsense").unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(serial_shown(&acceptor, &connector).await, first);
    let second = world.authority.issue("server", &[HOST], Validity::Usual);
    becomes("the new certificate is shown", async || {
        serial_shown(&acceptor, &connector).await == Some(second.serial_text())
    })
    .await;
}

/// Scenario: a client resumes its sessions; then its certificate is revoked.
#[tokio::test]
async fn a_certificate_that_is_revoked_later_is_not_taken_by_resumption() {
    let world = World::new();
    let alice = world.authority.issue("alice", &[], Validity::Usual);
    let files = ServerFiles {
        revoked: Some(world.authority.revoke(&[])),
        ..world.mutual_files()
    };
    let acceptor = Acceptor::new(files).unwrap();
    let connector = Connector::new(world.client_with(&alice)).unwrap();
    meet(&acceptor, &connector).await.0.unwrap();
    let _ = world.authority.revoke(&[&alice]);
    becomes("the certificate is refused", async || {
        let (server, _) = meet(&acceptor, &connector).await;
        server.is_err_and(|why| why.contains("is revoked"))
    })
    .await;
}

#[test]
fn a_file_that_cannot_be_used_is_named_and_keys_are_not_shown() {
    let world = World::new();
    let other = world.authority.issue("other", &[HOST], Validity::Usual);
    let missing = PathBuf::from("/no/such/file.pem");
    let bad = world.dir.path().join("bad.pem");
    std::fs::write(
        &bad,
        "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n",
    )
    .unwrap();
    let with = |certificate: &Path, key: &Path| ServerFiles {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        ..world.server_files()
    };
    let server = &world.server;
    for (files, path, why) in [
        (with(&missing, &server.key), &missing, "No such file"),
        (
            with(&server.key, &server.key),
            &server.key,
            "no certificate",
        ),
        (
            with(&server.certificate, &server.certificate),
            &server.certificate,
            "no private key",
        ),
        (with(&server.certificate, &bad), &bad, "does not fit"),
        (
            with(&server.certificate, &other.key),
            &other.key,
            "does not fit",
        ),
    ] {
        let error = Acceptor::new(files).unwrap_err().to_string();
        let path = path.display().to_string();
        assert!(error.starts_with(&path) && error.contains(why), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn how_long_a_certificate_is_valid_is_known() {
    let world = World::new();
    let soon = Validity::For(Duration::from_secs(1000));
    let server = world.authority.issue("server", &[HOST], soon);
    let acceptor = Acceptor::new(world.server_files()).unwrap();
    let expiry = acceptor.expiry();
    assert!((1..=1000).contains(&expiry.seconds_left), "{expiry:?}");
    assert_eq!(expiry.file.path, server.certificate);
}

/// The way of programs without a runtime.
#[tokio::test]
async fn a_socket_that_blocks_has_a_handshake_too() {
    let world = World::new();
    let acceptor = Acceptor::new(world.server_files()).unwrap();
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let good = Connector::new(world.client_files()).unwrap();
    let stranger = Authority::new(world.dir.path(), "stranger");
    let bad = Connector::new(ClientFiles {
        authorities: Some(stranger.path()),
        ..world.client_files()
    });
    let bad = bad.unwrap();
    let asking = std::thread::spawn(move || {
        let connect = |connector: &Connector| {
            let tcp = std::net::TcpStream::connect(address).unwrap();
            let mut stream = connector.connect_blocking(tcp, HOST, Duration::from_secs(10))?;
            let mut heard = [0; 5];
            std::io::Read::read_exact(&mut stream, &mut heard)?;
            Ok::<_, TlsError>(heard)
        };
        (
            connect(&good).unwrap(),
            connect(&bad).unwrap_err().to_string(),
        )
    });
    let (tcp, _) = listener.accept().await.unwrap();
    let mut server = acceptor.accept(tcp).await.unwrap();
    server.write_all(b"hello").await.unwrap();
    server.flush().await.unwrap();
    let (tcp, _) = listener.accept().await.unwrap();
    acceptor.accept(tcp).await.unwrap_err();
    let (heard, why) = asking.join().unwrap();
    assert_eq!(&heard, b"hello");
    assert!(why.contains("not in"), "{why}");
}
