//! `quorate doctor`: each fault is provoked, and named with its remedy.

use crate::support::secured::World;
use crate::support::{
    Client, Home, eventually, expect_failure, free_ports, output, quorate, signal,
};
use quorate_certificates::Validity;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;

/// What the doctor says, and its exit code.
fn doctor(flags: &[String]) -> (i32, Value) {
    let output = output(quorate().args(["doctor", "--json"]).args(flags));
    let said = String::from_utf8(output.stdout).unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_str(&said);
    let json = json.unwrap_or_else(|error| panic!("{error}: {said}{complained}"));
    (output.status.code().unwrap(), json)
}

/// The text and the remedy of the findings of a kind that are so bad.
fn of_kind<'a>(found: &'a Value, verdict: &str, kind: &str) -> Vec<(&'a str, &'a str)> {
    let all = found["findings"].as_array().unwrap().iter();
    let those = all.filter(|one| one["verdict"] == verdict && one["kind"] == kind);
    those
        .map(|one| {
            let word = |name: &str| one[name].as_str().unwrap_or_default();
            (word("text"), word("remedy"))
        })
        .collect()
}

/// A replica that nothing is wrong with, in a folder; more flags come behind these.
fn replica(dir: &Path, more: &[&str]) -> Vec<String> {
    let port = free_ports(2);
    let mut flags = vec![
        "--".to_owned(),
        "--initial-cluster-state=new".to_owned(),
        format!("--data-dir={}", dir.join("data").display()),
        format!("--listen-client-urls=http://127.0.0.1:{port}"),
        format!("--listen-peer-urls=http://127.0.0.1:{}", port + 1),
        format!("--initial-cluster=1=http://127.0.0.1:{}", port + 1),
    ];
    flags.extend(more.iter().map(|flag| (*flag).to_owned()));
    flags
}

/// With these flags one problem of a kind is found, in these words and with this remedy.
fn expect_problem(flags: &[String], kind: &str, words: &str, remedy: &str) {
    let (code, found) = doctor(flags);
    assert_eq!((code, &found["healthy"]), (1, &false.into()), "{found}");
    let problems = of_kind(&found, "problem", kind);
    let is_named = |(text, says): &(&str, &str)| text.contains(words) && says.contains(remedy);
    assert!(
        problems.iter().any(is_named),
        "no {kind} with {words:?} and {remedy:?} in {found:#}"
    );
}

#[test]
fn a_replica_that_can_be_started_has_no_problem_and_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let flags = replica(dir.path(), &["--durability=memory"]);
    let (code, found) = doctor(&flags);
    assert_eq!((code, &found["healthy"]), (0, &true.into()), "{found:#}");
    assert_eq!(of_kind(&found, "fine", "port").len(), 2);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn each_fault_before_a_start_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let with = |more: &[&str]| replica(dir.path(), more);

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "--listen-client-urls=http://{}",
        taken.local_addr().unwrap()
    );
    expect_problem(&with(&[&url]), "port", "in use", "ss -ltnp");
    let foreign = "--listen-metrics-urls=http://192.0.2.1:7000";
    expect_problem(
        &with(&[foreign]),
        "port",
        "192.0.2.1",
        "--listen-metrics-urls",
    );

    let twice = free_ports(1);
    let twice =
        ["client", "metrics"].map(|what| format!("--listen-{what}-urls=http://127.0.0.1:{twice}"));
    let twice: Vec<&str> = twice.iter().map(String::as_str).collect();
    expect_problem(&with(&twice), "port", "in use", "--listen-metrics-urls");

    let alone = "--initial-cluster-state=existing";
    expect_problem(&with(&[alone]), "data", "holds no replica", "");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = format!("--data-dir={}/below", file.display());
    expect_problem(&with(&[&below]), "folder", "is no folder", "--data-dir");
    if Path::new("/dev/shm").is_dir() {
        let memory = "--data-dir=/dev/shm/quorate-doctor-has-not-made-this";
        expect_problem(&with(&[memory]), "file-system", "tmpfs", "on a disk");
    }

    let lost = "--initial-cluster=1=http://127.0.0.1:1,2=http://no-such-host.invalid:1";
    expect_problem(
        &with(&[lost]),
        "address",
        "no-such-host.invalid",
        "/etc/hosts",
    );
    let open = "--listen-peer-urls=http://0.0.0.0:0";
    expect_problem(
        &with(&[open]),
        "open-port",
        "act as a member",
        "--peer-secret-file",
    );
    let off = ["--protocol=nezha", "--clock=declared:20ms"];
    expect_problem(&with(&off), "clock", "20 ms off", "time daemon");
    let many = "--max-client-connections=99999999999";
    expect_problem(&with(&[many]), "open-files", "ulimit -n", "");
}

/// Scenario: a replica makes its certificate, and a secret is what others prove to have.
#[test]
fn what_replicas_prove_is_seen_without_making_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    let port = free_ports(1);
    let flags = [
        "--peer-auto-tls".to_owned(),
        format!("--peer-secret-file={}", secret.display()),
        format!("--listen-peer-urls=https://0.0.0.0:{port}"),
        format!("--initial-cluster=1=https://127.0.0.1:{port}"),
        "--durability=memory".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    expect_problem(&replica(dir.path(), &flags), "certificate", "secret", "");
    std::fs::write(&secret, "too short").unwrap();
    expect_problem(&replica(dir.path(), &flags), "certificate", "9 bytes", "");
    std::fs::write(&secret, "long enough for a secret").unwrap();
    let (code, found) = doctor(&replica(dir.path(), &flags));
    assert_eq!(
        (code, of_kind(&found, "problem", "open-port")),
        (0, Vec::new()),
        "{found:#}"
    );
    let accept = [&flags[..], &["--peer-tls=accept"]].concat();
    let remedy = "leave out --peer-tls accept";
    expect_problem(
        &replica(dir.path(), &accept),
        "open-port",
        "act as a member",
        remedy,
    );
    assert!(!dir.path().join("data").exists());
}

#[test]
fn options_that_are_none_are_named_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("quorate.toml");
    std::fs::write(
        &file,
        "id = 1\nlisten-client-url = \"http://127.0.0.1:1\"\n",
    )
    .unwrap();
    let flags = [format!("--config-file={}", file.display())];
    let words = "did you mean \"listen-client-urls\"?";
    expect_problem(&flags, "options", words, "");
    expect_problem(&flags, "options", "line 2", "");
    let unknown = ["--".to_owned(), "--no-such-flag".to_owned()];
    let mut command = quorate();
    expect_failure(command.arg("doctor").args(unknown), 2, "--no-such-flag");
}

#[test]
fn certificates_that_no_client_would_take_are_named() {
    let world = World::new();
    let dir = world.dir.path();
    let port = free_ports(2);
    // For clients: the one of `World` is for 127.0.0.1 and localhost.
    let flags = |certificate: &Path, key: &Path, advertised: &str| {
        let secured = [
            format!("--cert-file={}", certificate.display()),
            format!("--key-file={}", key.display()),
            format!("--listen-client-urls=https://127.0.0.1:{port}"),
            format!("--advertise-client-urls=https://{advertised}:{port}"),
        ];
        let secured: Vec<&str> = secured.iter().map(String::as_str).collect();
        replica(dir, &secured)
    };
    let (good, client) = (&world.server, &world.client);
    let of = |host: &str| flags(&good.certificate, &good.key, host);
    let (_, found) = doctor(&of("127.0.0.1"));
    assert_eq!(of_kind(&found, "problem", "certificate"), []);
    expect_problem(
        &of("db.example"),
        "certificate",
        "not valid for db.example",
        "",
    );
    let other = flags(&good.certificate, &client.key, "127.0.0.1");
    expect_problem(&other, "certificate", "key", "");
    let missing = flags(&dir.join("none.pem"), &good.key, "127.0.0.1");
    expect_problem(&missing, "certificate", "none.pem", "");
    let expired = world
        .authority
        .issue("old", &["127.0.0.1"], Validity::Expired);
    let expired = flags(&expired.certificate, &expired.key, "127.0.0.1");
    expect_problem(&expired, "certificate", "has expired", "");
}

/// Scenario: the certificate of one replica leads to another authority, that of another is for another host.
#[test]
fn certificates_that_no_replica_would_take_are_named() {
    let world = World::new();
    let (dir, port) = (world.dir.path(), free_ports(2));
    let of = |issued: &quorate_certificates::Issued| {
        let secured = [
            format!("--peer-cert-file={}", issued.certificate.display()),
            format!("--peer-key-file={}", issued.key.display()),
            format!(
                "--peer-trusted-ca-file={}",
                world.authority.path().display()
            ),
            format!("--listen-peer-urls=https://127.0.0.1:{}", port + 1),
            format!("--initial-cluster=1=https://127.0.0.1:{}", port + 1),
        ];
        let secured: Vec<&str> = secured.iter().map(String::as_str).collect();
        replica(dir, &secured)
    };
    let (_, found) = doctor(&of(&world.server));
    assert_eq!(of_kind(&found, "fine", "certificate").len(), 1, "{found:#}");
    let stranger = quorate_certificates::Authority::new(dir, "stranger");
    let strange = stranger.issue("strange", &["127.0.0.1"], Validity::Usual);
    let remedy = "--peer-trusted-ca-file";
    expect_problem(
        &of(&strange),
        "certificate",
        "would not take this one",
        remedy,
    );
    let elsewhere = world
        .authority
        .issue("far", &["db.example"], Validity::Usual);
    expect_problem(
        &of(&elsewhere),
        "certificate",
        "would not take this one",
        remedy,
    );
}

/// The files of a bundle, each with what it holds.
fn bundle(home: &Home, endpoints: &str) -> BTreeMap<String, String> {
    let path = home.dir.join("bundle.tar");
    let log = format!("--log={}", home.dir.join("1/log.txt").display());
    let out = format!("--output={}", path.display());
    let made = output(quorate().args(["bundle", endpoints, &log, &out]));
    let said = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(said.contains("2 of 3 replicas"), "{said}{made:?}");
    let mut archive = tar::Archive::new(std::fs::File::open(&path).unwrap());
    let files = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    });
    files.collect()
}

/// Scenario: three replicas run; one is frozen, another killed; then somebody wants to start one of them as another.
#[tokio::test]
async fn a_cluster_that_runs_is_examined_from_any_replica() {
    let home = Home::new();
    let told = "--server-arg=--clock=declared:2ms";
    let mut up = home.start(&[told]);
    let asked = [format!("--endpoints={}", up.urls[1])];
    let mut client = Client::connect(&up.urls[1]).await;
    client
        .put("a-key-of-mine", "a-value-of-mine")
        .await
        .unwrap();
    let well = eventually("nothing is wrong", || async {
        let (code, found) = doctor(&asked);
        (code == 0).then_some(found)
    });
    let found = well.await;
    let machines = of_kind(&found, "note", "machines");
    assert!(machines[0].0.contains("127.0.0.1"), "{found:#}");
    assert_eq!(
        of_kind(&found, "fine", "replicas")[0].0,
        "3 of 3 replicas answer"
    );

    let own = |id: u16| {
        let dir = home.dir.join("1");
        let port = free_ports(2);
        let urls = format!("--initial-cluster={id}=http://127.0.0.1:{port}");
        let dir = format!("--data-dir={}", dir.display());
        ["--".to_owned(), format!("--id={id}"), dir, urls]
    };
    let (code, found) = doctor(&own(1));
    assert_eq!(code, 0, "{found:#}");
    let process = up.pids[&1].to_string();
    assert!(of_kind(&found, "note", "running")[0].0.contains(&process));
    expect_problem(
        &own(2),
        "data",
        "belongs to replica 1, not to replica 2",
        "",
    );
    let other = [&own(1)[..], &["--protocol=nezha".to_owned()]].concat();
    expect_problem(&other, "data", "protocol", "");

    signal(up.pids[&2], Signal::STOP);
    let asked = [format!("--endpoints={}", up.urls[0])];
    expect_problem(&asked, "frozen", "takes connections", "");
    let bundled = bundle(&home, &asked[0]);
    for name in [
        "about.txt",
        "doctor.txt",
        "replica-1/status.json",
        "replica-3/metrics.txt",
    ] {
        assert!(bundled.contains_key(name), "{name} is not in {bundled:?}");
    }
    assert!(bundled["replica-2/silence.txt"].contains("no answer"));
    assert!(bundled["logs/1-log.txt"].contains("starting"));
    assert!(bundled["doctor.txt"].contains("PROBLEM  frozen: replica 2"));
    let all: String = bundled.into_values().collect();
    assert!(!all.contains("a-key-of-mine") && !all.contains("a-value-of-mine"));
    signal(up.pids[&2], Signal::CONT);
    signal(up.pids[&3], Signal::KILL);
    let died = up.wait_for("replica 3 (process");
    // It would be started again as it was.
    assert!(
        died.ends_with("--only 3, and the same --server-arg"),
        "{died}"
    );
    expect_problem(&asked, "down", "start it again", "");
    up.stop();
}

#[test]
fn nobody_who_answers_is_a_problem_and_no_hang() {
    let asked = [format!("--endpoints=127.0.0.1:{}", free_ports(1))];
    expect_problem(&asked, "down", "refused", "");
}
