//! The commands of operators, towards a replica that speaks TLS and wants certificates.

use crate::support::secured::{Server, World};
use crate::support::{expect_failure, output, quorate};
use quorate_certificates::Authority;

/// The flags of a command that shows a certificate.
fn flags(world: &World) -> Vec<String> {
    let files = [
        ("cacert", world.authority.path()),
        ("cert", world.client.certificate.clone()),
        ("key", world.client.key.clone()),
    ];
    files
        .map(|(name, path)| format!("--{name}={}", path.display()))
        .to_vec()
}

#[test]
fn operators_show_their_certificates() {
    let world = World::new();
    let revoked = world.authority.revoke(&[]);
    let server = Server::start(&world, "https", &world.mutual_flags(&revoked));
    let bare = server.url().replace("https://", "");
    for (words, endpoint, says) in [
        (
            &["status"][..],
            &server.url(),
            "healthy: 1 of 1 replicas serve",
        ),
        (&["status"], &bare, "healthy: 1 of 1 replicas serve"),
        (&["cluster", "status"], &bare, "rabia"),
        (
            &["bench", "put", "--total", "200", "--verify"],
            &server.url(),
            "put",
        ),
    ] {
        let mut command = quorate();
        command
            .args(words)
            .arg(format!("--endpoints={endpoint}"))
            .args(flags(&world));
        let output = output(&mut command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && said.contains(says),
            "{command:?}\n{said}\n{complained}"
        );
    }
}

#[test]
fn operators_are_told_what_is_wrong_with_certificates() {
    let world = World::new();
    let server = Server::start(&world, "https", &world.server_flags());
    let stranger = Authority::new(world.dir.path(), "stranger");
    let endpoint = format!("--endpoints={}", server.url());
    let untrusted = format!("--cacert={}", stranger.path().display());
    let refused = |words: &[&str]| {
        let mut command = quorate();
        command.args(words).arg(&endpoint).arg(&untrusted);
        let output = output(&mut command);
        assert!(!output.status.success());
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let named = format!("CN=server, serial {}", world.server.serial_text());
        assert!(
            said.contains(&named) && said.contains("is signed by an authority that is not in"),
            "{said}"
        );
    };
    refused(&["status"]);
    refused(&["cluster", "status"]);
    refused(&["cluster", "remove", "7"]);
    refused(&["bench", "put", "--total", "1"]);
    let mut command = quorate();
    command.args(["status", &endpoint, "--cacert=/no/such.pem"]);
    expect_failure(&mut command, 2, "/no/such.pem: No such file");
    let mut command = quorate();
    command.args(["status", &endpoint, "--insecure-skip-tls-verify"]);
    assert!(output(&mut command).status.success());
}
