//! TLS on the port of the Redis face of a real process.

use crate::support::real_server::server;
use crate::support::replicas::{REPLICAS, Replicas};
use crate::support::secured::{HOST, Server, World, peer_flags};
use crate::support::{PATIENCE, eventually, free_ports, get};
use bytes::BytesMut;
use quorate_certificates::Issued;
use quorate_resp::{Reply, encode_request};
use std::io::{Read, Write};
use std::net::TcpStream;

/// The reply to a request over TLS at a port, for a client that shows this certificate.
fn ask(world: &World, port: u16, own: Option<&Issued>, request: &[&str]) -> Option<Reply> {
    let tcp = TcpStream::connect((HOST, port)).ok()?;
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let connector = world.connector(own);
    let mut stream = connector.connect_blocking(tcp, HOST, PATIENCE).ok()?;
    let mut text = Vec::new();
    encode_request(request, &mut text);
    stream.write_all(&text).ok()?;
    stream.flush().ok()?;
    let mut answer = BytesMut::new();
    loop {
        if let Some(reply) = Reply::take(&mut answer).unwrap() {
            return Some(reply);
        }
        let mut space = [0; 4096];
        match stream.read(&mut space).ok()? {
            0 => return None,
            read => answer.extend_from_slice(&space[..read]),
        }
    }
}

/// Scenario: a client with a certificate is the user whose name that has, and one without is nobody.
#[test]
fn who_shows_a_certificate_is_its_user() {
    let world = World::new();
    let users = world.dir.path().join("users.acl");
    std::fs::write(&users, "user default off\nuser alice on ~a* +@all\n").unwrap();
    let mut flags = world.server_flags();
    flags.extend([
        "--face=redis".to_owned(),
        "--client-cert-auth".to_owned(),
        format!("--trusted-ca-file={}", world.authority.path().display()),
        format!("--redis-acl-file={}", users.display()),
        format!("--listen-admin-urls=http://{HOST}:{}", free_ports(1)),
    ]);
    let server = Server::start(&world, "https", &flags);
    let alice = |request: &[&str]| ask(&world, server.port, Some(&world.client), request);
    assert_eq!(alice(&["acl", "whoami"]), Some(Reply::Bulk("alice".into())));
    assert_eq!(
        alice(&["set", "a1", "1"]),
        Some(Reply::Simple("OK".to_owned()))
    );
    let refused = alice(&["set", "b", "1"]);
    assert!(
        matches!(&refused, Some(Reply::Error(why)) if why.starts_with("NOPERM")),
        "{refused:?}"
    );
    assert_eq!(ask(&world, server.port, None, &["get", "a1"]), None);
    let mut plain = TcpStream::connect((HOST, server.port)).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"get a1\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"$"), "{answer:?}");
}

/// Scenario: clients with TLS ask every replica, two of which do not execute; all between replicas passes a relay.
#[tokio::test]
async fn what_clients_say_to_any_replica_is_encrypted_on_its_way() {
    let Some(server) = server() else {
        return;
    };
    for scheme in ["http", "https"] {
        let world = World::new();
        let mut replicas = Replicas::serving(world.dir.path(), "https");
        let first_admin = free_ports(REPLICAS);
        let admin = |id: u16| format!("http://{HOST}:{}", first_admin + id - 1);
        replicas.start_all(scheme, |id| {
            let mut flags = world.server_flags();
            if scheme == "https" {
                flags.extend(peer_flags(&world.server, &world.authority));
            }
            flags.extend([
                "--face=redis".to_owned(),
                server.clone(),
                format!("--listen-admin-urls={}", admin(id)),
            ]);
            flags
        });
        for id in 1..=REPLICAS {
            let [port, _] = replicas.ports(id);
            // What is only told to the executor, and what the log has.
            let (spoken, key) = (format!("spoken to {id}"), format!("key {id}"));
            let value = format!("value of {id}");
            eventually(&format!("replica {id} takes clients"), async || {
                let reply = ask(&world, port, None, &["set", &key, &value])?;
                (reply == Reply::Simple("OK".to_owned())).then_some(())
            })
            .await;
            for (request, told) in [(&["get", &key][..], &value), (&["echo", &spoken], &spoken)] {
                let reply = ask(&world, port, None, request);
                assert_eq!(reply, Some(Reply::Bulk(told.clone().into())));
            }
            let (_, page) = get(&admin(id), "/redis").await;
            let is_elsewhere = !page.contains(r#""role":"executing""#);
            let is_readable = scheme == "http";
            assert_eq!(replicas.has_recorded(value.as_bytes()), is_readable);
            assert_eq!(
                replicas.has_recorded(spoken.as_bytes()),
                is_readable && is_elsewhere,
                "{page}"
            );
        }
    }
}
