//! What others send before anything is known of them, mutated: certificates, and how connections begin.

use crate::certificate::Certificate;
use crate::{AllowedNames, Parameters, self_signed};
use bytes::Bytes;
use quorate_fuzz::{Fuzz, Limits};
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::sync::Arc;

fn fuzz(name: &str) -> Fuzz {
    Fuzz::new(env!("CARGO_MANIFEST_DIR"), name)
}

struct Own {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn own() -> Own {
    let dir = tempfile::tempdir().unwrap();
    let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let (certificate, key) = self_signed(dir.path(), &hosts, 1).unwrap();
    Own {
        chain: vec![CertificateDer::from_pem_file(certificate).unwrap()],
        key: PrivateKeyDer::from_pem_file(key).unwrap(),
    }
}

#[test]
fn certificates_bear_any_bytes() {
    let read = |input: Bytes| Certificate::read(&input).ok_or("no certificate");
    let limits = Limits {
        base_bytes: 64 << 10,
        ..Limits::default()
    };
    let fuzz = fuzz("certificates")
        .seeds([own().chain[0].to_vec()])
        .limits(limits);
    fuzz.run(read, |_, certificate| {
        let line = certificate.to_string();
        assert!(!line.contains('\n') && line.len() < 2000, "{line}");
        let allowed = AllowedNames {
            hosts: vec!["*.example".to_owned(), "::1".to_owned()],
            ..AllowedNames::default()
        };
        let _ = allowed.allow(certificate);
    });
}

/// Scenario: a caller's first bytes, as they reach the library through the acceptor.
#[test]
fn ports_bear_whatever_connections_begin_with() {
    let Own { chain, key } = own();
    let Parameters { provider, versions } = Parameters::default();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_protocol_versions(&versions).unwrap();
    let mut server = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    server.ticketer = Ticketer::new().unwrap();
    let server = Arc::new(server);
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&versions).unwrap();
    let client = builder
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let begin = |input: Bytes| {
        let mut session = ServerConnection::new(Arc::clone(&server)).unwrap();
        let mut rest = &input[..];
        while !rest.is_empty() {
            let taken = session
                .read_tls(&mut rest)
                .map_err(|error| error.to_string())?;
            session
                .process_new_packets()
                .map_err(|error| error.to_string())?;
            if taken == 0 {
                break;
            }
        }
        Ok::<_, String>(session.is_handshaking())
    };
    let limits = Limits {
        base_bytes: 512 << 10,
        ..Limits::default()
    };
    let fuzz = fuzz("first-flight")
        .seeds([hello, b"GET / HTTP/1.1\r\n\r\n".to_vec()])
        .limits(limits);
    fuzz.run(begin, |_, is_handshaking| assert!(is_handshaking));
}
