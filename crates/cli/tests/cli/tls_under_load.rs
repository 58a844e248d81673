//! A cluster with TLS and certificates on both sides of every connection, while clients put without a pause.

use crate::support::eventually;
use crate::support::replicas::{REPLICAS, Replicas};
use crate::support::secured::{HOST, Secured, secured_channel};
use quorate_certificates::{Authority, Issued, Validity};
use quorate_etcd_api::etcdserverpb::{
    AuthEnableRequest, AuthUserAddRequest, AuthUserGrantRoleRequest, AuthenticateRequest,
};
use quorate_face_etcd::client::AuthClient;
use quorate_tls::{ClientFiles, Connector};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// What nobody may read who listens.
const SECRET_KEY: &str = "a key that nobody else may read";
const SECRET_VALUE: &str = "a value that nobody else may read";
const PASSWORD: &str = "correct-horse-battery-staple";
const SECRETS: [&str; 3] = [SECRET_KEY, SECRET_VALUE, PASSWORD];

/// How long the certificate is valid that expires while the cluster runs.
const SHORT: Duration = Duration::from_secs(10);
/// The pause of a client between two puts: what all of them send is kept and searched.
const PAUSE: Duration = Duration::from_millis(20);

/// Two authorities, one for clients and the ports for them, one for replicas among each other.
struct Authorities {
    dir: tempfile::TempDir,
    clients: Authority,
    peers: Authority,
    /// The lists of what is revoked, by each.
    lists: [PathBuf; 2],
}

impl Authorities {
    fn new() -> Authorities {
        let dir = tempfile::tempdir().unwrap();
        let clients = Authority::new(dir.path(), "clients");
        let peers = Authority::new(dir.path(), "peers");
        Authorities {
            lists: [clients.revoke(&[]), peers.revoke(&[])],
            clients,
            peers,
            dir,
        }
    }

    /// New certificates of a replica, for its ports for clients and for peers, in the place of those that it had.
    fn issue(&self, id: u16, validity: Validity) -> [Issued; 2] {
        [
            self.clients
                .issue(&format!("server-{id}"), &[HOST], Validity::Usual),
            self.peers.issue(&format!("peer-{id}"), &[HOST], validity),
        ]
    }

    /// The flags of a replica that has these and wants the like of everybody.
    fn flags(&self, [server, peer]: &[Issued; 2]) -> Vec<String> {
        let files = [
            ("cert-file", &server.certificate),
            ("key-file", &server.key),
            ("trusted-ca-file", &self.clients.path()),
            ("client-crl-file", &self.lists[0]),
            ("peer-cert-file", &peer.certificate),
            ("peer-key-file", &peer.key),
            ("peer-trusted-ca-file", &self.peers.path()),
            ("peer-crl-file", &self.lists[1]),
        ];
        let mut flags = files
            .map(|(name, path)| format!("--{name}={}", path.display()))
            .to_vec();
        flags.extend([
            "--client-cert-auth".to_owned(),
            "--bcrypt-cost=4".to_owned(),
        ]);
        flags
    }

    /// How somebody with this certificate connects to the ports of an authority's replicas, to speak this.
    fn connector(
        authority: &Authority,
        own: &Issued,
        languages: &'static [&'static [u8]],
    ) -> Arc<Connector> {
        let files = ClientFiles {
            authorities: Some(authority.path()),
            certificate: Some((own.certificate.clone(), own.key.clone())),
            languages,
            ..ClientFiles::default()
        };
        Arc::new(Connector::new(files).unwrap())
    }

    /// A client that comes through relays.
    fn client(&self, name: &str, validity: Validity) -> Client {
        let issued = self.clients.issue(name, &[], validity);
        let connector = Authorities::connector(&self.clients, &issued, &[b"h2"]);
        Client { issued, connector }
    }
}

/// A client with a certificate of its own.
#[derive(Clone)]
struct Client {
    issued: Issued,
    connector: Arc<Connector>,
}

impl Client {
    async fn connect(&self, url: &str) -> Result<Secured, String> {
        let channel = secured_channel(url, &self.connector).await?;
        Ok(Secured::over(channel))
    }

    /// Puts on a connection of its own.
    async fn put_once(&self, url: &str) -> Result<(), String> {
        let mut client = self.connect(url).await?;
        let put = client.put(SECRET_KEY, SECRET_VALUE).await;
        put.map_err(|status| status.to_string())
    }
}

/// Clients that put without a pause, none of which may ever fail.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<PuttingClient>,
}

/// A client of the load: how often it has put, and why it failed, once it has.
struct PuttingClient {
    count: Arc<AtomicU32>,
    task: JoinHandle<Result<(), String>>,
}

impl Load {
    fn start(client: &Client, urls: &[String]) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for url in urls {
            // One keeps its connection, the other begins anew each time.
            for keeps in [true, false] {
                let (client, url, stop) = (client.clone(), url.clone(), Arc::clone(&stop));
                let count = Arc::new(AtomicU32::new(0));
                let counted = Arc::clone(&count);
                let task = tokio::spawn(async move {
                    let mut kept = client.connect(&url).await?;
                    while !stop.load(Ordering::Relaxed) {
                        match keeps {
                            true => kept
                                .put(SECRET_KEY, SECRET_VALUE)
                                .await
                                .map_err(|status| status.to_string())?,
                            false => client.put_once(&url).await?,
                        }
                        counted.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(PAUSE).await;
                    }
                    Ok(())
                });
                clients.push(PuttingClient { count, task });
            }
        }
        Load { stop, clients }
    }

    /// Waits until each has put again.
    async fn goes_on(&self) {
        for PuttingClient { count, task } in &self.clients {
            let before = count.load(Ordering::Relaxed);
            eventually("the load goes on", async || {
                let is_over = task.is_finished();
                (is_over || count.load(Ordering::Relaxed) > before).then_some(())
            })
            .await;
        }
    }

    /// Ends it; nothing has failed.
    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.task.await.unwrap().expect("no put fails");
        }
    }
}

/// Waits for a line in a replica's log that has all of these.
async fn says(replicas: &Replicas, id: u16, parts: &[&str]) {
    let has = |line: &str| parts.iter().all(|part| line.contains(part));
    eventually(&format!("replica {id} says {parts:?}"), async || {
        replicas.log(id).lines().any(has).then_some(())
    })
    .await;
}

/// Users root, with a password, and those whose names these certificates have, who may do everything.
async fn add_users(replicas: &Replicas, root: &Client, names: &[&str]) {
    let url = replicas.relayed_url(1);
    let mut auth = eventually("the first replica serves", async || {
        let channel = secured_channel(&url, &root.connector).await.ok()?;
        Some(AuthClient::new(channel))
    })
    .await;
    for name in [&["root"], names].concat() {
        let request = AuthUserAddRequest {
            name: name.to_owned(),
            password: PASSWORD.to_owned(),
            ..AuthUserAddRequest::default()
        };
        eventually(&format!("{name} is added"), async || {
            // Not before all replicas have said that they know of users.
            auth.clone().user_add(request.clone()).await.ok()
        })
        .await;
        let request = AuthUserGrantRoleRequest {
            user: name.to_owned(),
            role: "root".to_owned(),
        };
        auth.user_grant_role(request).await.unwrap();
    }
    auth.auth_enable(AuthEnableRequest {}).await.unwrap();
    let request = AuthenticateRequest {
        name: "root".to_owned(),
        password: PASSWORD.to_owned(),
    };
    auth.authenticate(request).await.unwrap();
}

/// Waits until both ports of a replica show these certificates.
async fn shows(authorities: &Authorities, replicas: &Replicas, id: u16, issued: &[Issued; 2]) {
    let asker = [&authorities.clients, &authorities.peers].map(|authority| {
        let own = authority.issue("asker", &[HOST], Validity::Usual);
        Authorities::connector(authority, &own, &[])
    });
    for ((port, connector), issued) in replicas.ports(id).into_iter().zip(asker).zip(issued) {
        eventually("the new certificate is shown", async || {
            let tcp = tokio::net::TcpStream::connect((HOST, port)).await.ok()?;
            let connection = connector.connect(tcp, HOST).await.ok()?;
            (connection.certificate()?.serial == issued.serial_text()).then_some(())
        })
        .await;
    }
}

/// Waits until a replica serves what needs the others.
async fn serves(replicas: &Replicas, id: u16, client: &Client) {
    let url = replicas.relayed_url(id);
    eventually(&format!("replica {id} serves"), async || {
        let mut client = client.connect(&url).await.ok()?;
        let value = client.get(SECRET_KEY).await.ok()?;
        (value == SECRET_VALUE.as_bytes()).then_some(())
    })
    .await;
}

/// Scenario: every connection shows certificates at both ends, and passes a relay. While clients put, all certificates
/// are replaced; one client's is revoked and another's expires; one replica comes back with one that is revoked, then
/// with one that has expired, and gets a good one while it runs.
#[tokio::test]
async fn certificates_come_and_go_and_only_those_fail_whose_are_not_good() {
    let authorities = Authorities::new();
    let mut replicas = Replicas::serving(authorities.dir.path(), "https");
    let first: Vec<[Issued; 2]> = (1..=REPLICAS)
        .map(|id| authorities.issue(id, Validity::Usual))
        .collect();
    let flags = |id: u16| authorities.flags(&first[usize::from(id) - 1]);
    replicas.start_all("https", flags);
    let alice = authorities.client("alice", Validity::Usual);
    add_users(&replicas, &alice, &["alice", "bob", "carol"]).await;
    let urls = [1, 2].map(|id| replicas.relayed_url(id));
    alice.put_once(&urls[0]).await.unwrap();
    let long = format!("{SECRET_VALUE}{}", "x".repeat(1 << 20));
    let mut client = alice.connect(&urls[1]).await.unwrap();
    client.put("long", &long).await.unwrap();
    for id in 1..=REPLICAS {
        serves(&replicas, id, &alice).await;
    }
    let load = Load::start(&alice, &urls);
    load.goes_on().await;

    // Other certificates in the same files.
    for id in 1..=REPLICAS {
        let next = authorities.issue(id, Validity::Usual);
        shows(&authorities, &replicas, id, &next).await;
    }
    load.goes_on().await;

    clients_lose_their_certificates(&authorities, &replicas).await;
    load.goes_on().await;

    a_replica_has_bad_certificates(&authorities, &mut replicas, &flags(3)).await;
    serves(&replicas, 3, &alice).await;
    load.goes_on().await;
    load.stop().await;
    let mut client = alice.connect(&replicas.relayed_url(3)).await.unwrap();
    assert!(client.get("long").await.unwrap() == long.as_bytes());
    // What it begins with shows that all of it was recorded: a handshake of TLS.
    assert!(replicas.has_recorded(&[0x16, 3, 1]));
    for secret in SECRETS {
        assert!(!replicas.has_recorded(secret.as_bytes()), "{secret}");
        let logs = (1..=REPLICAS).map(|id| replicas.log(id));
        assert!(
            logs.into_iter().all(|log| !log.contains(secret)),
            "{secret}"
        );
    }
}

/// One client's certificate is revoked, and another's expires.
async fn clients_lose_their_certificates(authorities: &Authorities, replicas: &Replicas) {
    let url = replicas.relayed_url(1);
    let bob = authorities.client("bob", Validity::Usual);
    bob.put_once(&url).await.expect("his is good");
    let carol = authorities.client("carol", Validity::For(SHORT));
    carol.put_once(&url).await.expect("hers is good");
    let _ = authorities.clients.revoke(&[&bob.issued]);
    for (client, name, why) in [
        (&bob, "CN=bob", "is revoked"),
        (&carol, "CN=carol", "has expired on"),
    ] {
        let serial = client.issued.serial_text();
        let parts = ["refused", name, &serial, why];
        let has = |line: &str| parts.iter().all(|part| line.contains(part));
        for id in 1..=REPLICAS {
            let url = replicas.relayed_url(id);
            eventually(&format!("replica {id} says {parts:?}"), async || {
                // So many lines of a kind are written in ten seconds.
                client.put_once(&url).await.err()?;
                replicas.log(id).lines().any(has).then_some(())
            })
            .await;
        }
    }
}

/// The third replica comes back with a certificate that is revoked, then with one that has expired, and then it gets a
/// good one while it runs.
async fn a_replica_has_bad_certificates(
    authorities: &Authorities,
    replicas: &mut Replicas,
    flags: &[String],
) {
    for (why, validity) in [
        ("is revoked", Validity::Usual),
        ("has expired", Validity::Expired),
    ] {
        let [_, shown] = authorities.issue(3, validity);
        if validity == Validity::Usual {
            let _ = authorities.peers.revoke(&[&shown]);
        }
        replicas.start(3, "https", flags);
        let serial = shown.serial_text();
        for id in [1, 2] {
            says(replicas, id, &["refused", "CN=peer-3", &serial, why]).await;
        }
    }
    let _ = authorities.issue(3, Validity::Usual);
}
