//! A running server whose data is brought over while clients write to it, and which the cluster takes over from.

use super::files::export;
use super::single::{
    Importing, Single, Writer, contents, cut_over_counting, cutover, fill, follow_through_kills,
};
use super::{executor, expect_equal_by, server, servers_of};
use crate::support::resp::Client;
use crate::support::{Home, Up, expect_failure, output, quorate, signal};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

/// Scenario: replicas and the import itself are killed while a client writes to the server that is followed; then the
/// cluster takes over, with everything that was acknowledged there.
#[test]
fn a_running_server_is_followed_and_taken_over_from() {
    let Some(source) = Single::start(&[]) else {
        return;
    };
    fill(&source.place);
    let writer = Writer::start(&source.place);
    let home = Home::new();
    let mut up = home.start(&["--face", "redis", &server().unwrap(), "--restart"]);
    let mut importing = Importing::start(&["--from", &source.place], &up);
    importing.expect("following ");
    writer.more(20);

    let refused = Client::connect(&up.urls[1]).say("set a 1");
    assert!(
        refused.contains("until `quorate redis cutover`, nothing was done"),
        "{refused}"
    );
    let status = output(quorate().args(["redis", "status", "--endpoints", &up.urls[1]]));
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        status.contains("everything of another server is here"),
        "{status}"
    );
    let start = |up: &Up| Importing::start(&["--from", &source.place], up);
    let importing = follow_through_kills(importing, start, &mut up, &writer);

    expect_no_cutover_while_servers_are_behind(&source.place, &up);
    writer.more(20);
    cut_over_counting(&source, &up, importing, &writer);

    executor(&up);
    expect_moved(&home, &source, &up);
    assert!(up.stop().success());
    drop(source);
    drop(writer.thread.join());
}

/// While the servers of all replicas are stopped, a cutover waits, and the other server takes writes.
fn expect_no_cutover_while_servers_are_behind(place: &str, up: &Up) {
    let servers: Vec<u32> = up.pids.values().flat_map(|pid| servers_of(*pid)).collect();
    assert_eq!(servers.len(), 3);
    servers.iter().for_each(|pid| signal(*pid, Signal::STOP));
    let long = "x".repeat(64 << 10);
    let mut client = Client::connect(place);
    for at in 0..32 {
        assert_eq!(client.say(&format!("set long{at} {long}")), "OK");
    }
    let mut waiting = cutover(&["--from", place], up);
    let mut waiting = waiting.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap());
    lines.read_line(&mut line).unwrap();
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    assert!(line.contains("are behind what is ordered"), "{line}");
    assert_eq!(client.say("set short 1"), "OK");
    servers.iter().for_each(|pid| signal(*pid, Signal::CONT));
}

/// Everything of a server is in a cluster, and in what that exports.
fn expect_moved(home: &Home, source: &Single, up: &Up) {
    let mut there = Client::connect(&source.place);
    let mut here = Client::connect(&up.urls[2]);
    for words in [
        "get n",
        "pexpiretime lasting",
        "scard chosen",
        "strlen guessed",
    ] {
        assert_eq!(here.say(words), there.say(words), "{words}");
    }
    assert_eq!(here.say("fcall f 0"), "7");
    let pending = here.ask("xpending orders g");
    assert_eq!(pending, there.ask("xpending orders g"));
    let digest = contents(&source.place);
    assert_eq!(contents(&up.urls[0]), digest);
    let copy = Single::load(&export(home, up, "moved.rdb"));
    assert_eq!(contents(&copy.place), digest);
    assert_eq!(Client::connect(&copy.place).say("fcall f 0"), "7");
    assert_eq!(here.say("select 9"), "OK");
    assert_eq!(here.say("incr other"), "2");
    expect_equal_by(up, contents);
}

/// Scenario: servers that cannot be followed, and clusters that follow none, are told so, and nothing is begun.
#[test]
fn what_cannot_be_followed_changes_nothing() {
    let Some(source) = Single::start(&["--requirepass", "secret"]) else {
        return;
    };
    let home = Home::new();
    let option = server().unwrap();
    let up = home.start(&["--face", "redis", &option]);
    let endpoints = up.urls[0].clone();
    let dir = tempfile::tempdir().unwrap();
    let [right, wrong] = ["secret", "other"].map(|password| {
        let path = dir.path().join(password);
        std::fs::write(&path, format!("{password}\n")).unwrap();
        path.display().to_string()
    });
    let import = |from: &str, password: Option<&str>| {
        let mut command = quorate();
        command.args(["redis", "import", "--from", from, &option]);
        command.args(["--endpoints", &endpoints]);
        command.args(password.map(|path| format!("--from-password-file={path}")));
        command
    };
    expect_failure(&mut import(&source.place, None), 1, "NOAUTH");
    expect_failure(&mut import(&source.place, Some(&wrong)), 1, "WRONGPASS");
    let (strange, answering) = stranger();
    let says = "that is no Redis and no Valkey";
    expect_failure(&mut import(&strange, None), 1, says);
    answering.join().unwrap();
    let (host, port) = source.place.split_once(':').unwrap();
    let replica = Single::start(&["--replicaof", host, port]).unwrap();
    let says = "it is a replica: follow its master";
    expect_failure(&mut import(&replica.place, None), 1, says);
    let mut cutover = quorate();
    cutover.args(["redis", "cutover", "--from", &replica.place]);
    cutover.args(["--endpoints", &endpoints]);
    expect_failure(&mut cutover, 1, "this cluster follows no other server");
    assert_eq!(Client::connect(&up.urls[0]).say("set a 1"), "OK");
    let full = "the cluster has data already";
    expect_failure(&mut import(&source.place, Some(&right)), 1, full);
    assert_eq!(Client::connect(&up.urls[1]).say("get a"), "1");
    assert_eq!(Client::connect(&up.urls[1]).say("del a"), "1");

    abandon(&mut import(&source.place, Some(&right)), &endpoints);
    assert_eq!(Client::connect(&up.urls[2]).say("incr a"), "1");
    assert!(up.stop().success());
}

/// Begins an import and gives it up, which leaves an empty cluster that serves.
fn abandon(import: &mut Command, endpoints: &str) {
    let mut importing = import.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(importing.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    assert!(line.starts_with("following "), "{line}");
    importing.kill().unwrap();
    importing.wait().unwrap();
    let abandoned = output(quorate().args(["redis", "abandon", "--endpoints", endpoints]));
    assert!(abandoned.status.success(), "{abandoned:?}");
}

/// Somebody who answers one request with HTTP.
fn stranger() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert_ne!(stream.read(&mut [0; 64]).unwrap(), 0);
        let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
        stream.write_all(answer).unwrap();
    });
    (place, answering)
}
