//! `quorate-lab bench chaos` from outside: what it says, and what it leaves behind.

#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time"
)]

mod support;

use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::lab;
use support::program::{PATIENCE, output, signal};

fn chaos(dir: &Path, flags: &[&str]) -> Command {
    let mut command = lab();
    command.args(["bench", "chaos", "--data-dir"]);
    command.arg(dir).args(flags);
    command
}

/// Processes whose command lines name a directory.
fn processes_of(dir: &Path) -> usize {
    let name = dir.as_os_str().as_encoded_bytes();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| line.windows(name.len()).any(|window| window == name))
        .count()
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

/// Scenario: a round in which a replica is killed and one whose connections break, on loopback.
#[test]
fn a_round_finds_nothing_wrong_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let flags = ["--loopback", "--rounds=1", "--load-seconds=2", "--seed=3"];
    let faults = "--faults=kill,broken-link";
    let output = output(chaos(home.path(), &flags).arg(faults));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no violation"), "{said}");
    assert!(is_empty(home.path()));
    assert_eq!(processes_of(home.path()), 0);
}

/// Scenario: a disk is really full while snapshots are due. The replica goes on by itself when there is
/// space again. Without namespaces there are no disks to fill.
#[test]
fn a_full_disk_is_waited_out_also_during_a_snapshot() {
    let home = tempfile::tempdir().unwrap();
    let flags = ["--rounds=1", "--load-seconds=4", "--seed=2"];
    let mut command = chaos(home.path(), &flags);
    let often = "--server-arg=--snapshot-bytes=20000";
    let output = output(command.args(["--faults=disk-full", often]));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    if complained.contains("needs a disk for each replica, and so namespaces") {
        return;
    }
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("no violation"), "{said}");
    let before = said
        .split(" snapshots failed")
        .map(|part| part.rsplit(['(', ' ']).next());
    let failed: u64 = before.flatten().filter_map(|n| n.parse::<u64>().ok()).sum();
    assert!(failed > 0, "{said}");
}

/// Scenario: it is told to stop while everything runs, wherever that is.
#[test]
fn stopped_half_way_it_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let flags = ["--faults=pause", "--rounds=20"];
    let mut running = chaos(home.path(), &flags)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    lines.find(|line| line.starts_with("round   1")).unwrap();
    assert!(processes_of(home.path()) > 1);
    signal(running.id(), Signal::TERM);
    running.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while processes_of(home.path()) > 0 || !is_empty(home.path()) {
        assert!(Instant::now() < deadline, "something is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}
