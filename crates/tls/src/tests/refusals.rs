//! Each way in which a handshake fails: what both sides are told.

use super::*;

/// Scenario: each fault of a caller's certificate. The line names the certificate and what is wrong with it.
#[tokio::test]
async fn a_server_says_what_is_wrong_with_a_callers_certificate() {
    let world = World::new();
    let stranger = Authority::new(world.dir.path(), "stranger");
    let issue = |name: &str, validity| world.authority.issue(name, &[], validity);
    let (expired, early) = (
        issue("old", Validity::Expired),
        issue("early", Validity::NotYet),
    );
    let (lost, alice) = (
        issue("lost", Validity::Usual),
        issue("alice", Validity::Usual),
    );
    let unknown = stranger.issue("mallory", &[], Validity::Usual);
    let mutual = || ServerFiles {
        revoked: Some(world.authority.revoke(&[&lost])),
        ..world.mutual_files()
    };
    for (shown, why) in [
        (&expired, "has expired on 2021-01-01 00:00 UTC"),
        (&early, "is valid only from 2900-01-01 00:00 UTC on"),
        (&lost, "is revoked"),
        (&unknown, "is signed by an authority that is not in"),
    ] {
        let said = refusal(mutual(), world.client_with(shown)).await;
        assert!(
            said.contains(why) && said.contains(&shown.serial_text()),
            "{said}"
        );
    }
    let said = refusal(mutual(), world.client_files()).await;
    assert!(said.contains("shows no certificate"), "{said}");
    let (server, _) = meet_by(mutual(), world.client_with(&alice)).await;
    server.unwrap();
}

#[tokio::test]
async fn a_port_lets_in_only_those_it_is_for() {
    let world = World::new();
    let alice = world
        .authority
        .issue("alice", &["alice.example"], Validity::Usual);
    for (common_name, host, lets_in) in [
        ("alice", "", true),
        ("bob", "", false),
        ("", "alice.example", true),
        ("", "bob.example", false),
    ] {
        let list = |name: &str| match name {
            "" => Vec::new(),
            name => vec![name.to_owned()],
        };
        let files = ServerFiles {
            allowed: AllowedNames {
                common_names: list(common_name),
                hosts: list(host),
            },
            ..world.mutual_files()
        };
        let (server, _) = meet_by(files, world.client_with(&alice)).await;
        match server {
            Ok(_) => assert!(lets_in),
            Err(why) => assert!(!lets_in && why.contains("CN=alice"), "{why}"),
        }
    }
}

/// Scenario: each fault of a server's certificate.
#[tokio::test]
async fn a_client_says_what_is_wrong_with_a_servers_certificate() {
    let world = World::new();
    let stranger = Authority::new(world.dir.path(), "stranger");
    let elsewhere = world
        .authority
        .issue("elsewhere", &["db.example"], Validity::Usual);
    let expired = world.authority.issue("old", &[HOST], Validity::Expired);
    let unknown = stranger.issue("unknown", &[HOST], Validity::Usual);
    for (shown, why) in [
        (
            &elsewhere,
            "is not valid for 127.0.0.1: it names db.example",
        ),
        (&expired, "has expired"),
        (&unknown, "is signed by an authority that is not in"),
    ] {
        let files = ServerFiles {
            certificate: shown.certificate.clone(),
            key: shown.key.clone(),
            ..world.server_files()
        };
        let said = refused_by_client(files.clone(), world.client_files()).await;
        assert!(
            said.contains(why) && said.contains(&shown.serial_text()),
            "{said}"
        );
        let takes_all = ClientFiles {
            takes_all: true,
            ..world.client_files()
        };
        meet_by(files, takes_all).await.1.unwrap();
    }
}

/// Scenario: the client does not take the server's certificate, which the server's log has to name.
#[tokio::test]
async fn a_server_says_that_its_own_certificate_was_not_taken_and_where_it_is() {
    let world = World::new();
    let stranger = Authority::new(world.dir.path(), "stranger");
    let trusting_another = ClientFiles {
        authorities: Some(stranger.path()),
        ..world.client_files()
    };
    let said = refusal(world.server_files(), trusting_another).await;
    let path = world.server.certificate.display().to_string();
    assert!(said.contains(&path) && said.contains("UnknownCA"), "{said}");
}

#[tokio::test]
async fn plain_text_is_told_from_tls_and_answered() {
    let world = World::new();
    let acceptor = Acceptor::new(world.server_files()).unwrap();
    for (said, answered) in [
        (&b"GET /health HTTP/1.1\r\n\r\n"[..], true),
        (b"PRI * HTTP/2.0\r\n", false),
    ] {
        let listener = TcpListener::bind((HOST, 0)).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        client.write_all(said).await.unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        let error = acceptor.accept(tcp).await.unwrap_err();
        assert!(matches!(error, TlsError::Plain), "{error}");
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        let is_answer = answer.ends_with(b"Client sent an HTTP request to an HTTPS server.\n");
        assert_eq!(is_answer, answered);
    }
}

#[tokio::test]
async fn a_client_is_told_that_the_server_speaks_no_tls() {
    let world = World::new();
    let connector = Connector::new(world.client_files()).unwrap();
    for (answer, why) in [
        (&b""[..], "does the other side speak TLS?"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no TLS"),
    ] {
        let listener = TcpListener::bind((HOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (mut tcp, _) = listener.accept().await.unwrap();
        let serve = async move {
            tcp.read_buf(&mut Vec::with_capacity(4096)).await.unwrap();
            tcp.write_all(answer).await.unwrap();
        };
        let (_, connected) = tokio::join!(serve, connector.connect(client, HOST));
        let said = connected.map(drop).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
}

/// Scenario: a caller says nothing, or begins a handshake and says nothing more.
#[tokio::test]
async fn a_handshake_that_stalls_ends() {
    let world = World::new();
    let acceptor = Acceptor::new(world.server_files()).unwrap();
    for said in [&b""[..], &[0x16, 3, 1]] {
        let listener = TcpListener::bind((HOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(said).await.unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        let accepted = acceptor.accept_within(Duration::from_millis(100), tcp);
        let accepted = tokio::time::timeout(PATIENCE, accepted).await;
        let error = accepted.expect("it ends").unwrap_err();
        assert!(matches!(error, TlsError::Timeout), "{error}");
    }
}

#[tokio::test]
async fn versions_that_do_not_meet_are_said_to_differ() {
    let world = World::new();
    let only = |version| Parameters::of(&[], Some(version), Some(version)).unwrap();
    let older = ServerFiles {
        parameters: only("TLS1.2"),
        ..world.server_files()
    };
    let newer = ClientFiles {
        parameters: only("TLS1.3"),
        ..world.client_files()
    };
    let (server, client) = meet_by(older.clone(), newer).await;
    for said in [server.map(drop).unwrap_err(), client.map(drop).unwrap_err()] {
        assert!(
            said.contains("no TLS version or cipher suite in common"),
            "{said}"
        );
    }
    let (server, client) = meet_by(older, world.client_files()).await;
    drop((server.unwrap(), client.unwrap()));
}
