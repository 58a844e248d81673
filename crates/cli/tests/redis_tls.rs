//! TLS on the port of the Redis face of a real process.

#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time"
)]

#[path = "support/secured.rs"]
mod secured;
mod support;

use bytes::BytesMut;
use quorate_certificates::Issued;
use quorate_resp::{Reply, encode_request};
use secured::{HOST, Server, World};
use std::io::{Read, Write};
use std::net::TcpStream;
use support::{PATIENCE, free_ports};

/// The reply to a request over TLS, from a client that shows this certificate.
fn ask(world: &World, server: &Server, own: Option<&Issued>, request: &[&str]) -> Option<Reply> {
    let tcp = TcpStream::connect((HOST, server.port)).unwrap();
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
    let alice = |request: &[&str]| ask(&world, &server, Some(&world.client), request);
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
    assert_eq!(ask(&world, &server, None, &["get", "a1"]), None);
    let mut plain = TcpStream::connect((HOST, server.port)).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"get a1\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"$"), "{answer:?}");
}
