//! A cluster is asked what a real etcd was asked once.

#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time"
)]

mod support;

use support::lab;
use support::program::output;

/// Scenario: random requests and watches, drawn from seeds, go to every endpoint in turn; every
/// answer and every event is what etcd 3.7 gave. `docs/guide/testing.md` says how the recording is made.
fn answers_as_etcd_did(options: &[&str]) {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/etcd-3.7.json");
    let mut command = lab();
    command.args(["bench", "differential", "--replay", recording]);
    command.args(["--data-dir", env!("CARGO_TARGET_TMPDIR")]);
    let options = options.iter();
    command.args(options.map(|option| format!("--quorate-option={option}")));
    let output = output(&mut command);
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_cluster_answers_as_etcd_did() {
    answers_as_etcd_did(&[]);
}

/// Scenario: the same sequences through gateways, which order what is written and pass on the rest.
#[test]
fn gateways_answer_as_etcd_did() {
    answers_as_etcd_did(&["--protocol=nezha", "--gateways=2"]);
}
