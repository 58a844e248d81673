//! TLS at every port that a replica has, those beside the one for clients included.

use crate::support::replicas::Replicas;
use crate::support::secured::{HOST, Server, World};
use crate::support::{Client, eventually, free_ports};
use quorate_certificates::{Authority, Validity};
use quorate_tls::Connector;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A replica that wants certificates at its port for clients, at one for plain HTTP and at one for metrics.
struct ThreePorts {
    server: Server,
    http: u16,
    metrics: u16,
}

impl ThreePorts {
    fn start(world: &World) -> ThreePorts {
        let http = free_ports(2);
        let metrics = http + 1;
        let mut flags = world.mutual_flags(&world.authority.revoke(&[]));
        flags.push(format!("--listen-client-http-urls=https://{HOST}:{http}"));
        flags.push(format!("--listen-metrics-urls=https://{HOST}:{metrics}"));
        ThreePorts {
            server: Server::start(world, "https", &flags),
            http,
            metrics,
        }
    }

    /// The ports that serve who has this certificate.
    async fn that_serve(&self, connector: &Arc<Connector>) -> Vec<&'static str> {
        let mut serving = Vec::new();
        if let Ok(mut client) = self.server.try_connect(connector).await
            && client.put("key", "value").await.is_ok()
        {
            serving.push("clients");
        }
        for (name, port) in [("http", self.http), ("metrics", self.metrics)] {
            let answer = self.server.get_at(port, connector, "/health");
            if answer.is_ok_and(|answer| answer.contains(r#""health":"true""#)) {
                serving.push(name);
            }
        }
        serving
    }

    /// Waits for a line about a certificate that was refused.
    async fn says(&self, connector: &Arc<Connector>, parts: &[&str]) {
        let has = |line: &str| parts.iter().all(|part| line.contains(part));
        eventually(&format!("a line in the log with {parts:?}"), async || {
            // So many lines of a kind are written in ten seconds.
            assert_eq!(self.that_serve(connector).await, [""; 0]);
            self.server.log().lines().any(has).then_some(())
        })
        .await;
    }
}

/// Scenario (GHSA-3wh4-j44w-pg92): a certificate is revoked while the replica runs, which has a port for plain HTTP and
/// one for metrics beside the one for clients; others have expired, are of another authority, or are not there.
#[tokio::test]
async fn certificates_are_wanted_and_held_against_the_list_of_revoked_ones_at_every_port() {
    let world = World::new();
    let ports = ThreePorts::start(&world);
    let alice = world.connector(Some(&world.client));
    assert_eq!(
        ports.that_serve(&alice).await,
        ["clients", "http", "metrics"]
    );
    let bob = world.authority.issue("bob", &[], Validity::Usual);
    let bobs = world.connector(Some(&bob));
    assert_eq!(ports.that_serve(&bobs).await.len(), 3);
    let stranger = Authority::new(world.dir.path(), "stranger");
    let expired = world.authority.issue("old", &[], Validity::Expired);
    let unknown = stranger.issue("mallory", &[], Validity::Usual);
    for (shown, why) in [
        (None, "it shows no certificate"),
        (Some(&expired), "has expired on 2021-01-01"),
        (Some(&unknown), "is signed by an authority that is not in"),
    ] {
        ports.says(&world.connector(shown), &[why]).await;
    }
    let _ = world.authority.revoke(&[&bob]);
    eventually("no port serves who is revoked", async || {
        ports.that_serve(&bobs).await.is_empty().then_some(())
    })
    .await;
    let named = format!("CN=bob, serial {}) is revoked", bob.serial_text());
    ports.says(&bobs, &[&named]).await;
    assert_eq!(ports.that_serve(&alice).await.len(), 3, "and nobody else");
}

/// No handshake takes longer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Beyond this a connection counts as one that stays open.
const OPEN_AFTER: Duration = Duration::from_secs(25);

/// Scenario (CVE-2026-73500): callers at each port connect and say nothing, or begin a handshake and say nothing more.
#[tokio::test]
async fn a_handshake_that_stalls_is_ended_at_every_port() {
    let world = World::new();
    let ports = ThreePorts::start(&world);
    let peers = World::new();
    let mut replicas = Replicas::new(peers.dir.path());
    let files = [
        ("peer-cert-file", peers.server.certificate.clone()),
        ("peer-key-file", peers.server.key.clone()),
        ("peer-trusted-ca-file", peers.authority.path()),
    ];
    let flags = files.map(|(name, path)| format!("--{name}={}", path.display()));
    replicas.start_all("https", |_| flags.to_vec());
    let [_, peer_port] = replicas.ports(1);
    // Who still asks whether it may begin has less patience.
    eventually("the replica runs", async || {
        let mut client = Client::try_connect(&replicas.client_url(1)).await?;
        client.get("key").await.ok()
    })
    .await;
    let all = [ports.server.port, ports.http, ports.metrics, peer_port];
    let callers: Vec<_> = all
        .into_iter()
        .flat_map(|port| [(port, &[][..]), (port, &[0x16, 3, 1])])
        .map(|(port, said)| std::thread::spawn(move || stall(port, said)))
        .collect();
    for caller in callers {
        let (port, took) = caller.join().expect("it waits");
        let took = took.unwrap_or_else(|| panic!("{port} of {all:?} stays open"));
        assert!(
            took + Duration::from_secs(1) >= DEADLINE,
            "{port} after {took:?}"
        );
    }
}

/// Says this and nothing more; tells after which time the connection was closed.
fn stall(port: u16, said: &[u8]) -> (u16, Option<Duration>) {
    let mut connection = TcpStream::connect((HOST, port)).expect("it listens");
    let began = Instant::now();
    connection.write_all(said).expect("it is open");
    let patience = connection.set_read_timeout(Some(OPEN_AFTER));
    patience.expect("a time");
    let is_closed = match connection.read(&mut [0]) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    (port, is_closed.then(|| began.elapsed()))
}
