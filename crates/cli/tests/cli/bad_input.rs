//! Everything an operator can get wrong: one clear message each, and nothing is lost.

use crate::support::{Client, Home, PATIENCE, Up, expect_failure, free_ports, output, quorate};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

fn serve(flags: &[&str]) -> Command {
    let mut command = quorate();
    command.arg("serve").args(flags);
    command
}

fn up(dir: &Path, flags: &[&str]) -> Command {
    let mut command = quorate();
    command.arg("up").arg("--data-dir").arg(dir).args(flags);
    command
}

#[test]
fn senseless_flags_are_exit_code_2() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("missing").display().to_string();
    let cases: [(&[&str], &str); 14] = [
        (&["--no-such-flag"], "unexpected argument '--no-such-flag'"),
        (&["--id", "x"], "invalid value 'x' for '--id"),
        (
            &["--durability", "paper"],
            "[possible values: disk, memory]",
        ),
        (
            &["--protocol", "paxos"],
            "there is no protocol \"paxos\"; there is: ",
        ),
        (
            &["--listen-client-urls", "localhost"],
            "--listen-client-urls \"localhost\" is not of",
        ),
        (
            &["--id", "2", "--initial-cluster", "1=http://a:1"],
            "does not list --id 2",
        ),
        (
            &["--listen-client-urls", "http://127.0.0.1:70000"],
            "port 70000 is too large: ports go up to 65535",
        ),
        (
            &["--initial-cluster", "1=http://127.0.0.1:65536"],
            "port 65536 is too large: ports go up to 65535",
        ),
        (&["--max-request-bytes", "0"], "is not between 1 and"),
        (
            &["--clock", "ntp"],
            "--clock \"ntp\": neither kernel nor declared:ERROR",
        ),
        (
            &["--protocol", "rabia", "--proposers", "2"],
            "--proposers is an option of chora, and the protocol is rabia",
        ),
        (
            &["--protocol", "chora", "--round", "50"],
            "--round 50: must be a time of whole us, as in 50us, or auto",
        ),
        (&["--log-level", "loud=loud=loud"], "--log-level"),
        (
            &["--config-file", &missing],
            "cannot read the configuration file",
        ),
    ];
    for (flags, message) in cases {
        expect_failure(&mut serve(flags), 2, message);
    }
    expect_failure(
        &mut up(home.path(), &["--replicas", "0"]),
        2,
        "at least one",
    );
    expect_failure(&mut up(home.path(), &["--only", "1"]), 2, "holds none");
}

/// Scenario: the same option comes from everywhere; the message tells whose value was taken.
#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("quorate.toml");
    fs::write(&file, "protocol = \"from-file\"\n").unwrap();
    let with_file = ["--config-file", file.to_str().unwrap()];
    expect_failure(&mut serve(&with_file), 2, "\"from-file\"");
    expect_failure(
        serve(&with_file).env("QUORATE_PROTOCOL", "from-env"),
        2,
        "\"from-env\"",
    );
    let all = [&with_file[..], &["--protocol", "from-flag"]].concat();
    expect_failure(
        serve(&all).env("QUORATE_PROTOCOL", "from-env"),
        2,
        "\"from-flag\"",
    );
    fs::write(&file, "protocols = \"rabia\"\n").unwrap();
    expect_failure(
        &mut serve(&with_file),
        2,
        "line 1: there is no key \"protocols\"; did you mean \"protocol\"?\n  1 | protocols = \"rabia\"",
    );
    fs::write(&file, "id = 1\nmax-txn-ops = \"many\"\n").unwrap();
    expect_failure(
        &mut serve(&with_file),
        2,
        "line 2: the value of \"max-txn-ops\" is wrong",
    );
}

#[test]
fn a_replica_without_data_or_leave_does_not_take_itself_for_new() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("nothing");
    let flags = ["--data-dir", dir.to_str().unwrap()];
    expect_failure(
        &mut serve(&flags),
        1,
        "holds no replica, and this one was not told to begin a new cluster",
    );
    assert!(!dir.exists());
}

/// Scenario: a stopped cluster's folders are mixed up in turn, or are damaged beyond what peers can
/// make good; each is refused with the reason, and once put back everything is there.
#[tokio::test]
async fn wrong_and_damaged_folders_are_refused_and_lose_nothing() {
    let home = Home::new();
    let running = home.start(&[]);
    for i in 0..20 {
        Client::connect(&running.urls[0])
            .await
            .put(&format!("k{i}"), "v")
            .await
            .unwrap();
    }
    running.stop();
    let other = Home::new();
    other.start(&[]).stop();

    let own = home.dir.join("2");
    let aside = home.dir.join("aside");
    let meta = own.join("meta");
    let good = fs::read(&meta).unwrap();
    let start = |message: &str| expect_failure(&mut up(&home.dir, &["--only", "2"]), 1, message);

    fs::rename(&own, &aside).unwrap();
    fs::rename(other.dir.join("2"), &own).unwrap();
    start("replica 2 did not start: data folder");
    start("belongs to cluster");
    fs::rename(&own, other.dir.join("2")).unwrap();

    fs::rename(home.dir.join("1"), &own).unwrap();
    start("belongs to replica 1, not to replica 2");
    fs::rename(&own, home.dir.join("1")).unwrap();

    fs::rename(&aside, &own).unwrap();

    let copy = own.join("meta.copy");
    let mut bytes = good.clone();
    bytes[100] ^= 1;
    fs::write(&meta, &bytes).unwrap();
    fs::write(&copy, bytes).unwrap();
    start("is damaged");
    let remedy = format!(
        "move {} away and start this replica as always",
        own.display()
    );
    start(&remedy);
    fs::remove_file(&meta).unwrap();
    fs::remove_file(&copy).unwrap();
    start("holds a log but no file `meta`");
    start(&remedy);
    fs::write(&meta, &good).unwrap();

    let segment = own.join("log/0000000001.seg");
    let log = fs::read(&segment).unwrap();
    let strangers = other.dir.join("2/log/0000000001.seg");
    fs::copy(strangers, &segment).unwrap();
    start("log segment 1 does not belong here");
    fs::write(&segment, log).unwrap();

    let again = Up::start(&home.dir, &[]);
    let mut client = Client::connect(&again.urls[1]).await;
    for i in 0..20 {
        assert_eq!(
            client.get(&format!("k{i}")).await.unwrap().as_deref(),
            Some("v")
        );
    }
}

#[tokio::test]
async fn a_running_cluster_keeps_its_folder_and_its_ports() {
    let home = Home::new();
    let running = home.start(&[]);
    let pid = format!(
        "is in use by the running replica with process id {}",
        running.pids[&1]
    );
    expect_failure(&mut up(&home.dir, &["--only", "1"]), 1, &pid);
    expect_failure(
        &mut up(&home.dir, &[]),
        1,
        "is in use by the running replica",
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let dir = elsewhere.path().join("c");
    let taken = "another program has this port";
    expect_failure(&mut up(&dir, &["--port", &home.port]), 1, taken);
    Client::connect(&running.urls[0])
        .await
        .put("k", "v")
        .await
        .unwrap();
    assert!(running.stop().success());
}

/// Takes a port that was found free.
///
/// A process which another test is starting holds, until its program runs, all that this one had
/// open: also the listener by which the port was found free.
fn take(port: u16) -> TcpListener {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < deadline, "port {port}: {error}"),
        }
        std::thread::yield_now();
    }
}

/// Scenario: a cluster of two is begun, which survives less than one of one.
#[test]
fn a_cluster_that_survives_no_failure_is_begun_with_a_warning() {
    let home = tempfile::tempdir().unwrap();
    for (replicas, is_warned) in [("1", false), ("2", true), ("3", false)] {
        let dir = home.path().join(replicas);
        let mut begin = up(&dir, &["--begin-only", "--replicas", replicas]);
        let said = String::from_utf8(output(&mut begin).stdout).unwrap();
        assert!(said.contains("failures survived"), "{said}");
        let warning = "warning: with 2 replicas every one of them is needed";
        assert_eq!(said.contains(warning), is_warned, "{said}");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let port = free_ports(6);
    let taken = take(port + 2);
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("c");
    let flags = ["--port", &port.to_string()];
    let message = format!("cannot listen for clients on 127.0.0.1:{}", port + 2);
    expect_failure(&mut up(&dir, &flags), 1, &message);
    drop(taken);
    assert!(Up::start(&dir, &[]).stop().success());
}
