//! TLS and secrets between the replicas of real processes.

use crate::support::replicas::{REPLICAS, Replicas};
use crate::support::secured::{HOST, World, peer_flags};
use crate::support::{
    Client, converged, eventually, expect_failure, get, metric, quorate, write_on,
};
use quorate_certificates::{Authority, Validity};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn secret(world: &World, name: &str, text: &str) -> Vec<String> {
    let path = world.dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    vec![format!("--peer-secret-file={}", path.display())]
}

/// Puts through a replica once it serves.
async fn put(replicas: &Replicas, id: u16, key: &str, value: &str) {
    eventually(&format!("replica {id} takes a put"), async || {
        Client::try_connect(&replicas.client_url(id))
            .await?
            .put(key, value)
            .await
            .ok()
    })
    .await;
}

/// Waits until all replicas serve and hold the same.
async fn all_converge(replicas: &Replicas) {
    for id in 1..=REPLICAS {
        eventually(&format!("replica {id} serves"), async || {
            let mut client = Client::try_connect(&replicas.client_url(id)).await?;
            client.get("key").await.ok()
        })
        .await;
    }
    converged(&replicas.client_urls()).await;
}

/// Waits for a line in a replica's log that has all of these.
async fn says(replicas: &Replicas, id: u16, parts: &[&str]) {
    let has = |line: &str| parts.iter().all(|part| line.contains(part));
    eventually(&format!("replica {id} says {parts:?}"), async || {
        replicas.log(id).lines().any(has).then_some(())
    })
    .await;
}

const MARK: &str = "a value that nobody else may read";

/// Scenario: values, short and long, with and without TLS; everything between replicas passes a relay.
#[tokio::test]
async fn what_replicas_say_is_encrypted() {
    for scheme in ["http", "https"] {
        let world = World::new();
        let mut replicas = Replicas::new(world.dir.path());
        let flags = match scheme {
            "https" => peer_flags(&world.server, &world.authority),
            _ => Vec::new(),
        };
        replicas.start_all(scheme, |_| flags.clone());
        put(&replicas, 1, "mark", MARK).await;
        put(
            &replicas,
            2,
            "long",
            &format!("{MARK}{}", "x".repeat(1 << 20)),
        )
        .await;
        all_converge(&replicas).await;
        assert_eq!(replicas.has_recorded(MARK.as_bytes()), scheme == "http");
        let (_, status) = get(&replicas.client_url(1), "/status").await;
        let proof = r#""peer_proof":"certificate""#;
        assert_eq!(status.contains(proof), scheme == "https", "{status}");
        let is_open = metric(&replicas.client_url(1), "quorate_peer_port_open").await;
        assert_eq!(is_open, f64::from(u8::from(scheme == "http")));
    }
}

/// Scenario: replicas with certificates of a strange authority, expired, revoked, of another name, or for another host.
#[tokio::test]
async fn a_replica_whose_certificate_is_not_good_stays_outside() {
    let world = World::new();
    let stranger = Authority::new(world.dir.path(), "stranger");
    let lost = world.authority.issue("lost", &[HOST], Validity::Usual);
    let revoked = world.authority.revoke(&[&lost]);
    let mut flags = peer_flags(&world.server, &world.authority);
    flags.push(format!("--peer-crl-file={}", revoked.display()));
    flags.push("--peer-cert-allowed-cn=server,lost,expired,elsewhere".to_owned());
    let mut replicas = Replicas::new(world.dir.path());
    replicas.start_all("https", |_| flags.clone());
    put(&replicas, 1, "key", "value").await;
    all_converge(&replicas).await;
    let expired = world.authority.issue("expired", &[HOST], Validity::Expired);
    let another = world.authority.issue("another", &[HOST], Validity::Usual);
    let elsewhere = world
        .authority
        .issue("elsewhere", &["10.9.8.7"], Validity::Usual);
    let unknown = stranger.issue("mallory", &[HOST], Validity::Usual);
    for (shown, why) in [
        (&lost, "is revoked"),
        (&expired, "has expired"),
        (&another, "but this port is for CN=server"),
        (&elsewhere, "but not of the address 127.0.0.1"),
        (&unknown, "is signed by an authority that is not in"),
    ] {
        replicas.start(3, "https", &peer_flags(shown, &world.authority));
        says(&replicas, 1, &["refused", &shown.serial_text(), why]).await;
    }
    put(&replicas, 1, "key", "goes on").await;
    replicas.start(3, "https", &flags);
    all_converge(&replicas).await;
}

/// Scenario: a cluster without TLS gets it, replica by replica, while clients write.
#[tokio::test]
async fn a_running_cluster_is_switched_over() {
    let world = World::new();
    let mut replicas = Replicas::new(world.dir.path());
    replicas.start_all("http", |_| Vec::new());
    put(&replicas, 1, "key", "value").await;
    all_converge(&replicas).await;
    let stop = Arc::new(AtomicBool::new(false));
    let (written, load) = write_on(replicas.client_urls(), Arc::clone(&stop));
    let mut accepting = peer_flags(&world.server, &world.authority);
    accepting.push("--peer-tls=accept".to_owned());
    let requiring = peer_flags(&world.server, &world.authority);
    for (scheme, flags) in [("http", &accepting), ("https", &requiring)] {
        for id in 1..=REPLICAS {
            replicas.start(id, scheme, flags);
            put(&replicas, id, "key", scheme).await;
        }
    }
    let before = written.load(Ordering::Relaxed);
    eventually("the load goes on", async || {
        (written.load(Ordering::Relaxed) > before).then_some(())
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    load.await.unwrap();
    replicas.recording.lock().unwrap().clear();
    put(&replicas, 1, "mark", MARK).await;
    all_converge(&replicas).await;
    assert!(!replicas.has_recorded(MARK.as_bytes()));
    // Whoever has no certificate is not taken any more.
    replicas.start(3, "http", &[]);
    says(
        &replicas,
        1,
        &["connection to the peer port refused", "speaks plain text"],
    )
    .await;
}

/// Scenario: two replicas that have the secret of their cluster, and a third that has it, another one, or none.
#[tokio::test]
async fn a_secret_keeps_strangers_out() {
    let world = World::new();
    let right = secret(&world, "right", "a secret that is long enough\n");
    let wrong = secret(&world, "wrong", "another that is long enough\n");
    let mut replicas = Replicas::new(world.dir.path());
    replicas.start_all("http", |_| right.clone());
    put(&replicas, 1, "key", "value").await;
    all_converge(&replicas).await;
    let (_, status) = get(&replicas.client_url(1), "/status").await;
    assert!(status.contains(r#""peer_proof":"secret""#), "{status}");
    replicas.start(3, "http", &wrong);
    says(&replicas, 3, &["does not have the secret of this cluster"]).await;
    replicas.start(3, "http", &[]);
    says(&replicas, 1, &["does not prove that it has the secret"]).await;
    put(&replicas, 1, "key", "goes on").await;
    replicas.start(3, "http", &right);
    all_converge(&replicas).await;
    for id in 1..=REPLICAS {
        assert!(!replicas.log(id).contains("long enough"));
    }
}

/// Scenario: certificates that replicas make themselves, and a secret that binds them to each other.
#[tokio::test]
async fn replicas_make_their_own_certificates() {
    let world = World::new();
    let mut flags = secret(&world, "right", "a secret that is long enough\n");
    flags.push("--peer-auto-tls".to_owned());
    let mut replicas = Replicas::new(world.dir.path());
    replicas.start_all("https", |_| flags.clone());
    put(&replicas, 1, "mark", MARK).await;
    all_converge(&replicas).await;
    assert!(!replicas.has_recorded(MARK.as_bytes()));
    assert!(
        replicas
            .data_dir(1)
            .join("certificates/peer/cert.pem")
            .exists()
    );
}

/// Scenario: one gateway has a certificate, another has none.
#[tokio::test]
async fn a_gateway_shows_its_certificate_to_members() {
    let world = World::new();
    let flags = peer_flags(&world.server, &world.authority);
    let mut replicas = Replicas::new(world.dir.path());
    replicas.start_all("https", |_| {
        let protocol = ["--protocol=nezha".to_owned()];
        [&flags[..], &protocol].concat()
    });
    put(&replicas, 1, "key", "value").await;
    let good = replicas.start_gateway("https", &flags);
    eventually("a put through the gateway", async || {
        let mut client = Client::try_connect(&good).await?;
        client.put("mark", MARK).await.ok()
    })
    .await;
    assert!(!replicas.has_recorded(MARK.as_bytes()));
    replicas.start_gateway("https", &[]);
    says(
        &replicas,
        1,
        &["connection to the peer port refused", "speaks plain text"],
    )
    .await;
}

#[test]
fn what_makes_no_sense_between_replicas_is_refused_at_the_start() {
    let world = World::new();
    let full = peer_flags(&world.server, &world.authority);
    let short = secret(&world, "short", "too short");
    let refuse = |flags: &[String], scheme: &str, others: &str, code: i32, why: &str| {
        let mut command = quorate();
        command.arg("serve").arg("--data-dir").arg(world.data_dir());
        command.arg(format!("--listen-peer-urls={scheme}://127.0.0.1:0"));
        command.arg(format!(
            "--initial-cluster=1={others}://127.0.0.1:1,2={others}://127.0.0.1:2"
        ));
        command
            .arg("--listen-client-urls=http://127.0.0.1:0")
            .args(flags);
        expect_failure(&mut command, code, why);
        assert!(!Path::new(&world.data_dir()).join("meta").exists());
    };
    refuse(
        &[],
        "https",
        "https",
        2,
        "give --peer-cert-file and --peer-key-file, or --peer-auto-tls",
    );
    refuse(
        &full[..2],
        "https",
        "https",
        2,
        "--peer-cert-file needs --peer-trusted-ca-file",
    );
    refuse(
        &[],
        "http",
        "https",
        2,
        "and this replica speaks no TLS to others",
    );
    refuse(
        &["--peer-tls=accept".to_owned()],
        "http",
        "http",
        2,
        "and there is none",
    );
    let udp = [&full[..], &["--peer-transport=udp".to_owned()]].concat();
    refuse(&udp, "https", "https", 2, "datagrams are not encrypted");
    refuse(&short, "http", "http", 1, "the secret has 9 bytes");
}
