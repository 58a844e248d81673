//! TLS on the port for clients of a real process.

use crate::support::secured::{HOST, Secured, Server, World};
use crate::support::{eventually, expect_failure, quorate};
use quorate_certificates::{Authority, Validity};
use quorate_tls::{ClientFiles, Connector};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

async fn connect(server: &Server, connector: &Arc<Connector>) -> Secured {
    server.try_connect(connector).await.unwrap()
}

/// Waits for a line in the log that has all of these.
async fn says(server: &Server, parts: &[&str]) {
    let has = |line: &str| parts.iter().all(|part| line.contains(part));
    eventually(&format!("a line in the log with {parts:?}"), async || {
        server.log().lines().any(has).then_some(())
    })
    .await;
}

#[tokio::test]
async fn clients_are_served_over_tls_and_whoever_speaks_plain_text_is_told() {
    let world = World::new();
    let server = Server::start(&world, "https", &world.server_flags());
    let connector = world.connector(None);
    let mut client = connect(&server, &connector).await;
    client.put("key", "value").await.unwrap();
    let large = "v".repeat(1 << 20);
    client.put("large", &large).await.unwrap();
    assert_eq!(client.get("large").await.unwrap(), large.as_bytes());
    let health = server.get(&connector, "/health").unwrap();
    assert!(health.contains(r#""health":"true""#), "{health}");
    let answer = server.say(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 400 Bad Request"), "{answer}");
    says(
        &server,
        &["a client's connection was refused", "speaks plain text"],
    )
    .await;
    let page = server.get(&connector, "/metrics").unwrap();
    assert!(
        page.contains("quorate_client_connections_closed_total{reason=\"tls\"} 1"),
        "{page}"
    );
    assert!(
        page.contains("quorate_certificate_expiry_seconds{port=\"client\"}"),
        "{page}"
    );
}

#[tokio::test]
async fn tls_to_a_plain_port_is_told_apart() {
    let world = World::new();
    let server = Server::start(&world, "http", &world.server_flags());
    says(&server, &["WARN", "certificates for it are not used"]).await;
    let why = server
        .try_connect(&world.connector(None))
        .await
        .map(drop)
        .unwrap_err();
    assert!(
        why.contains("is no TLS") || why.contains("does the other side speak TLS?"),
        "{why}"
    );
    says(
        &server,
        &["a client speaks TLS to this port, which is plain"],
    )
    .await;
}

/// Scenario: a good certificate, none, an expired one, one of another authority, and a good one that is revoked
/// while the server runs.
#[tokio::test]
async fn certificates_of_clients_are_wanted_and_verified_until_they_are_revoked() {
    let world = World::new();
    let revoked = world.authority.revoke(&[]);
    let server = Server::start(&world, "https", &world.mutual_flags(&revoked));
    let alice = world.connector(Some(&world.client));
    connect(&server, &alice)
        .await
        .put("key", "value")
        .await
        .unwrap();
    assert!(server.get(&alice, "/health").unwrap().contains("true"));
    let stranger = Authority::new(world.dir.path(), "stranger");
    let expired = world.authority.issue("old", &[], Validity::Expired);
    let unknown = stranger.issue("mallory", &[], Validity::Usual);
    for (shown, name, why) in [
        (None, "", "it shows no certificate"),
        (Some(&expired), "CN=old", "has expired on 2021-01-01"),
        (
            Some(&unknown),
            "CN=mallory",
            "is signed by an authority that is not in",
        ),
    ] {
        let connector = world.connector(shown);
        assert!(server.get(&connector, "/health").is_err());
        if let Ok(mut client) = server.try_connect(&connector).await {
            client.put("key", "stolen").await.unwrap_err();
        }
        eventually(&format!("{name:?}: {why}"), async || {
            // So many lines of a kind are written in ten seconds.
            assert!(server.get(&connector, "/health").is_err());
            let log = server.log();
            let mut lines = log.lines();
            lines
                .any(|line| line.contains(name) && line.contains(why))
                .then_some(())
        })
        .await;
    }
    let _ = world.authority.revoke(&[&world.client]);
    eventually("the certificate is not taken any more", async || {
        // Its sessions are not resumed either, and the pages for operators are no way round.
        server.get(&alice, "/health").is_err().then_some(())
    })
    .await;
    let named = format!(
        "CN=alice, serial {}) is revoked",
        world.client.serial_text()
    );
    eventually("the log names it", async || {
        // So many lines of a kind are written in ten seconds.
        assert!(server.get(&alice, "/health").is_err());
        server.log().contains(&named).then_some(())
    })
    .await;
}

/// Scenario: clients put without a pause while the certificate is replaced several times, once by a file that is none.
#[tokio::test]
async fn certificates_are_rotated_under_load() {
    let world = World::new();
    let server = Server::start(&world, "https", &world.server_flags());
    let connector = world.connector(None);
    let (stop, puts) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
    );
    let mut client = connect(&server, &connector).await;
    let load = tokio::spawn({
        let (stop, puts) = (Arc::clone(&stop), Arc::clone(&puts));
        async move {
            while !stop.load(Ordering::Relaxed) {
                client.put("key", "value").await.unwrap();
                puts.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    std::fs::write(&world.server.certificate, "nonsense").unwrap();
    eventually("the bad file is noticed", async || {
        connect(&server, &connector)
            .await
            .put("other", "value")
            .await
            .unwrap();
        server.log().contains("stay in use").then_some(())
    })
    .await;
    for _ in 0..3 {
        let issued = world.authority.issue("server", &[HOST], Validity::Usual);
        let serial = issued.serial_text();
        eventually("the new certificate is shown", async || {
            let tcp = tokio::net::TcpStream::connect((HOST, server.port))
                .await
                .unwrap();
            let connection = connector.connect(tcp, HOST).await.unwrap();
            (connection.certificate()?.serial == serial).then_some(())
        })
        .await;
    }
    let before = puts.load(Ordering::Relaxed);
    eventually("the load goes on", async || {
        (puts.load(Ordering::Relaxed) > before).then_some(())
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    load.await.unwrap();
}

/// Scenario: more connections than the server takes, which begin a handshake and say nothing more.
#[tokio::test]
async fn handshakes_that_stall_hold_up_nobody() {
    let world = World::new();
    let mut flags = world.server_flags();
    flags.push("--max-client-connections=20".to_owned());
    let server = Server::start(&world, "https", &flags);
    let connector = world.connector(None);
    let mut client = connect(&server, &connector).await;
    let mut stalled = Vec::new();
    for _ in 0..60 {
        let mut tcp = TcpStream::connect((HOST, server.port)).unwrap();
        tcp.write_all(&[0x16, 3, 1, 2]).unwrap();
        stalled.push(tcp);
        client.put("key", "value").await.unwrap();
    }
    eventually("a new client puts", async || {
        server
            .try_connect(&connector)
            .await
            .ok()?
            .put("key", "new")
            .await
            .ok()
    })
    .await;
    let mut oldest = stalled.swap_remove(0);
    oldest
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    assert!(
        matches!(oldest.read(&mut [0]), Ok(0) | Err(_)),
        "it had to give way"
    );
}

#[tokio::test]
async fn a_certificate_of_its_own_is_kept_in_the_data_folder() {
    let world = World::new();
    let server = Server::start(&world, "https", &["--auto-tls".to_owned()]);
    let own = world.data_dir().join("certificates/client/cert.pem");
    let files = ClientFiles {
        authorities: Some(own.clone()),
        languages: &[b"h2"],
        ..ClientFiles::default()
    };
    let connector = Arc::new(Connector::new(files).unwrap());
    connect(&server, &connector)
        .await
        .put("key", "value")
        .await
        .unwrap();
    let before = std::fs::read(&own).unwrap();
    drop(server);
    let server = Server::start(&world, "https", &["--auto-tls".to_owned()]);
    assert_eq!(std::fs::read(&own).unwrap(), before);
    let value = connect(&server, &connector).await.get("key").await.unwrap();
    assert_eq!(value, b"value");
}

#[tokio::test]
async fn a_certificate_that_expires_soon_is_told_of() {
    let world = World::new();
    let soon = Validity::For(Duration::from_secs(10 * 24 * 3600 + 3600));
    let _ = world.authority.issue("server", &[HOST], soon);
    let server = Server::start(&world, "https", &world.server_flags());
    says(
        &server,
        &[
            "WARN",
            "EXPIRY",
            "server.pem",
            "CN=server",
            "expires in 10 days",
        ],
    )
    .await;
    let status = server.get(&world.connector(None), "/status").unwrap();
    assert!(
        status.contains("EXPIRY: the certificate of the client port"),
        "{status}"
    );
}

#[test]
fn what_makes_no_sense_is_refused_at_the_start() {
    let world = World::new();
    let (certificate, key) = (
        world.server.certificate.display(),
        world.server.key.display(),
    );
    let given = |list: &[String]| list.to_vec();
    let pair = given(&[
        format!("--cert-file={certificate}"),
        format!("--key-file={key}"),
    ]);
    for (flags, more, code, why) in [
        (
            Vec::new(),
            "",
            2,
            "give --cert-file and --key-file, or --auto-tls",
        ),
        (pair[..1].to_vec(), "", 2, "are given together"),
        (
            pair.clone(),
            "--client-cert-auth",
            2,
            "--client-cert-auth needs --trusted-ca-file",
        ),
        (
            pair.clone(),
            "--client-cert-allowed-hostname=a",
            2,
            "need --trusted-ca-file",
        ),
        (
            pair.clone(),
            "--tls-min-version=TLS1.1",
            2,
            "neither TLS1.2 nor TLS1.3",
        ),
        (
            pair.clone(),
            "--cipher-suites=TLS_RSA_WITH_RC4_128_SHA",
            2,
            "is not spoken here",
        ),
        (
            pair.clone(),
            "--trusted-ca-file=/no/such.pem",
            1,
            "/no/such.pem: No such file",
        ),
        (
            vec![pair[0].clone(), format!("--key-file={certificate}")],
            "",
            1,
            "no private key",
        ),
    ] {
        let mut command = quorate();
        command.arg("serve").arg("--data-dir").arg(world.data_dir());
        command
            .arg("--listen-client-urls=https://127.0.0.1:1")
            .args(&flags);
        command.args(Some(more).filter(|more| !more.is_empty()));
        command
            .arg("--listen-peer-urls=http://127.0.0.1:0")
            .arg("--initial-cluster-state=new");
        expect_failure(&mut command, code, why);
        assert!(!Path::new(&world.data_dir()).join("meta").exists());
    }
}

/// Scenario: a client shows a certificate, and asks in JSON. Its name counts for nothing there, which it is told once
/// there are users; without a certificate's name, or by gRPC, nothing changes.
#[tokio::test]
async fn a_name_in_a_certificate_is_refused_in_json_once_there_are_users() {
    let world = World::new();
    let revoked = world.authority.revoke(&[]);
    let server = Server::start(&world, "https", &world.mutual_flags(&revoked));
    let alice = world.connector(Some(&world.client));
    let post = |path: &str, body: &str| server.ask(&alice, &format!("POST /v3/{path}"), body);
    let is_done = |answer: Result<String, String>| {
        let answer = answer.unwrap();
        answer.starts_with("HTTP/1.0 200").then_some(())
    };
    let root = r#"{"name":"root","options":{"no_password":true}}"#;
    eventually("users can be added", async || {
        is_done(post("auth/user/add", root))
    })
    .await;
    let alice_is_root = r#"{"name":"alice","options":{"no_password":true}}"#;
    is_done(post("auth/user/add", alice_is_root)).expect("a user is added");
    for user in ["root", "alice"] {
        let grant = format!(r#"{{"user":"{user}","role":"root"}}"#);
        is_done(post("auth/user/grant", &grant)).expect("a role is given");
    }
    is_done(post("auth/enable", "{}")).expect("users have to say who they are");
    let refused = post("kv/range", r#"{"key":"YQ=="}"#).unwrap();
    let why = "CommonName of client sending a request against gateway will be ignored";
    assert!(refused.starts_with("HTTP/1.0 400"), "{refused}");
    assert!(refused.contains(why), "{refused}");
    connect(&server, &alice).await.put("a", "1").await.unwrap();
    assert!(server.get(&alice, "/health").unwrap().contains("true"));
}
