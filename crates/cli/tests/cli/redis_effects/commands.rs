//! Command mode: every replica's server carries out every command of the log.

use super::{Counter, is_alive, page, server, servers_of};
use crate::support::resp::Client;
use crate::support::{Home, PATIENCE, Up, expect_failure, output, quorate, signal};
use quorate_resp::Reply;
use rustix::process::Signal;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A cluster in command mode, if there is a server to test with.
fn start(home: &Home, protocol: &str) -> Option<Up> {
    start_with(home, &["--protocol", protocol, "--restart"])
}

fn start_with(home: &Home, flags: &[&str]) -> Option<Up> {
    let server = server()?;
    let mode = ["--face", "redis", &server, "--redis-mode", "commands"];
    Some(home.start(&[&mode[..], flags].concat()))
}

/// Waits until all servers have carried out everything: what they were told and what they replied is equal then.
fn expect_equal_servers(up: &Up) {
    let names = ["offset", "server_offset", "digest", "replies_digest"];
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all: Vec<_> = up.admin.iter().map(|admin| page(admin)).collect();
        let shown: Vec<[Option<&String>; 4]> = all
            .iter()
            .map(|page| names.map(|name| page.get(name)))
            .collect();
        let is_done = |shown: &[Option<&String>; 4]| shown[0].is_some() && shown[0] == shown[1];
        if shown.iter().all(|page| is_done(page) && *page == shown[0]) {
            return;
        }
        assert!(Instant::now() < deadline, "{all:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Scenario: under each protocol every replica is killed in turn, and then its server, while a client counts.
#[test]
fn every_replica_and_every_server_is_killed_in_turn() {
    for protocol in ["rabia", "multi-paxos", "nezha"] {
        let home = Home::new();
        let Some(mut up) = start(&home, protocol) else {
            return;
        };
        let mut counter = Counter::new(&up.urls);
        counter.count(20);
        for victim in 1..=3 {
            let children = servers_of(up.pids[&victim]);
            assert!(!children.is_empty());
            signal(up.pids[&victim], Signal::KILL);
            counter.count(20);
            up.wait_for(&format!("replica {victim} serves again"));
            assert!(
                !children.into_iter().any(is_alive),
                "a server outlived its replica"
            );
        }
        for victim in 1..=3 {
            for child in servers_of(up.pids[&victim]) {
                signal(child, Signal::KILL);
            }
            counter.count(20);
        }
        expect_equal_servers(&up);
        for url in &up.urls {
            let counted: i64 = Client::connect(url).say("get a").parse().unwrap();
            assert!(
                (counter.acknowledged..=counter.acknowledged + counter.unknown).contains(&counted)
            );
        }
        println!("{protocol}: longest silence {:?}", counter.silence);
        assert!(up.stop().success());
    }
}

/// The least budget that a replica can be given for its clients, in bytes, of which half may wait for its server.
const CLIENT_MEMORY_MIN: usize = 16 << 20;
/// Bytes of each request that waits, and the number of clients, which ask for more than may wait and less than there is
/// room for connections.
const WAITING_BYTES: usize = 160 << 10;
const WAITING: usize = 60;

/// Scenario: the server of a replica hangs, and clients of that replica write more than may wait for it. Some are told,
/// other replicas serve on, and all that was taken is carried out once the server goes on.
#[test]
fn what_waits_for_a_server_that_hangs_is_bounded() {
    let home = Home::new();
    let bound = format!("--server-arg=--max-client-memory={CLIENT_MEMORY_MIN}");
    let Some(up) = start_with(&home, &[&bound]) else {
        return;
    };
    assert_eq!(Client::connect(&up.urls[0]).say("set b 1"), "OK");
    let servers = servers_of(up.pids[&1]);
    servers.iter().for_each(|pid| signal(*pid, Signal::STOP));
    let (tell, told) = mpsc::channel();
    let clients: Vec<_> = (0..WAITING)
        .map(|_| {
            let (mut client, tell) = (Client::connect(&up.urls[0]), tell.clone());
            std::thread::spawn(move || {
                let request = format!("append big {}", "x".repeat(WAITING_BYTES));
                // The test may be over.
                let _ = tell.send(client.try_ask(&request));
            })
        })
        .collect();
    let refused = told.recv_timeout(PATIENCE).expect("somebody is told");
    let too_many = "LOADING Quorate has too many requests waiting, nothing was done, try again";
    assert_eq!(refused, Some(Reply::Error(too_many.to_owned())));
    let mut counter = Counter::new(&up.urls[1..]);
    counter.count(20);
    let lag = page(&up.admin[0])["lag_bytes"].parse::<usize>().unwrap();
    assert!((1..CLIENT_MEMORY_MIN).contains(&lag), "{lag} bytes wait");
    servers.iter().for_each(|pid| signal(*pid, Signal::CONT));
    for client in clients {
        client.join().unwrap();
    }
    let all: Vec<Option<Reply>> = told.try_iter().collect();
    let done = |reply: &&Option<Reply>| matches!(reply, Some(Reply::Integer(_)));
    let done = all.iter().filter(done).count();
    println!("{done} of {WAITING} requests were taken");
    let is_bounded = done > 0 && done * WAITING_BYTES <= CLIENT_MEMORY_MIN / 2;
    assert!(is_bounded, "{done} requests waited");
    expect_equal_servers(&up);
    for url in &up.urls {
        let bytes: usize = Client::connect(url).say("strlen big").parse().unwrap();
        assert_eq!(bytes, done * WAITING_BYTES, "{url}");
    }
    assert!(up.stop().success());
}

/// Bytes of each command of other replicas' clients, and their number: more than a replica keeps whose servers fail.
const KEPT_BYTES: usize = 1 << 20;
const KEPT: usize = 70;

/// Scenario: the program of servers is gone when the server of one replica dies, and clients of another one write more
/// than the first may keep for a server. It ends, and says why.
#[test]
fn a_replica_whose_servers_fail_ends_before_they_take_all_memory() {
    let home = Home::new();
    let Some(server) = server() else {
        return;
    };
    let program = home.dir.with_file_name("server");
    std::os::unix::fs::symlink(server.trim_start_matches("--redis-server="), &program).unwrap();
    let server = format!("--redis-server={}", program.display());
    let bound = format!("--server-arg=--max-client-memory={CLIENT_MEMORY_MIN}");
    let mode = ["--face", "redis", &server, "--redis-mode", "commands"];
    let mut up = home.start(&[&mode[..], &["--durability", "memory", &bound]].concat());
    let mut client = Client::connect(&up.urls[1]);
    assert_eq!(client.say("set a 1"), "OK");
    std::fs::remove_file(&program).unwrap();
    for pid in servers_of(up.pids[&1]) {
        signal(pid, Signal::KILL);
    }
    for number in 0..KEPT {
        let request = format!("set big:{} {}", number % 4, "x".repeat(KEPT_BYTES));
        assert_eq!(client.say(&request), "OK");
    }
    let line = up.wait_for("replica 1 ");
    let says = ["servers of Redis failed", "--max-client-memory"];
    assert!(says.iter().all(|part| line.contains(part)), "{line}");
    assert_eq!(client.say("incr a"), "2");
    up.kill();
}

/// Scenario: transactions, databases, both versions of the protocol, a pipeline, reads at any replica.
fn expect_commands(up: &Up) {
    let [mut one, mut two] = [0, 1].map(|at| Client::connect(&up.urls[at]));
    assert_eq!(one.say("set a 1"), "OK");
    assert_eq!(two.say("incr a"), "2");
    assert_eq!(one.say("multi"), "OK");
    assert_eq!(one.say("incr m"), "QUEUED");
    assert_eq!(one.say("select 3"), "QUEUED");
    assert_eq!(one.say("set there 1"), "QUEUED");
    assert!(matches!(one.ask("exec"), Reply::Array(replies) if replies.len() == 3));
    assert_eq!(
        (one.say("get there"), one.ask("get m")),
        ("1".to_owned(), Reply::Null)
    );
    assert_eq!(
        (two.ask("get there"), two.say("get m")),
        (Reply::Null, "1".to_owned())
    );
    assert_eq!(two.say("watch m"), "OK");
    assert_eq!(one.say("select 0"), "OK");
    assert_eq!(one.say("incr m"), "2");
    assert_eq!(two.say("multi"), "OK");
    assert_eq!(two.say("incr m"), "QUEUED");
    assert_eq!(two.ask("exec"), Reply::Null);
    assert!(matches!(two.ask("hello 3"), Reply::Map(_)));
    assert_eq!(two.say("hset h f 1 g 2"), "2");
    assert!(matches!(two.ask("hgetall h"), Reply::Map(_)));
    assert!(matches!(one.ask("hgetall h"), Reply::Array(fields) if fields.len() == 4));
    assert_eq!(
        one.say("lpush a 1"),
        "WRONGTYPE Operation against a key holding the wrong kind of value"
    );
    let requests = vec!["incr p"; 1000];
    one.pipeline(&requests);
    for number in 1..=1000 {
        assert_eq!(one.next(), Some(Reply::Integer(number)));
    }
    let info = one.say("info");
    assert!(
        info.contains("quorate_store:commands") && info.contains("db3:keys=1"),
        "{info}"
    );
}

/// Scenario: what each server would choose for itself is refused, and the text says what has it.
fn expect_refusals(up: &Up) {
    let mut client = Client::connect(&up.urls[2]);
    for (call, says) in [
        (
            "spop s",
            "ERR 'spop' has an outcome that every replica would choose for itself",
        ),
        (
            "set a 1 ex 5",
            "ERR 'set' depends on the clock of each replica",
        ),
        ("xadd x * f v", "ERR command mode has no 'xadd'"),
        ("eval return(1) 0", "ERR command mode has no 'eval'"),
        ("subscribe news", "ERR 'subscribe' sends or takes messages"),
        ("blpop l 0", "ERR 'blpop' waits for elements"),
        ("nonsense", "ERR unknown command 'nonsense'"),
    ] {
        let text = client.say(call);
        assert!(text.starts_with(says), "{call}: {text}");
    }
    assert_eq!(client.say("multi"), "OK");
    assert!(client.say("expire a 1").starts_with("ERR 'expire' depends"));
    assert!(client.say("exec").starts_with("EXECABORT"));
}

/// Scenario: a cluster is used, shown, exported, stopped, and begun again without a word about its servers.
#[test]
fn a_cluster_in_command_mode_serves_is_shown_and_comes_back() {
    let home = Home::new();
    let Some(up) = start(&home, "rabia") else {
        return;
    };
    expect_commands(&up);
    expect_refusals(&up);
    expect_equal_servers(&up);
    let status = output(quorate().args(["redis", "status", "--endpoints", &up.urls[1]]));
    let table = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(table.matches("  commands  ").count(), 3, "{table}");
    let mut import = quorate();
    import.args([
        "redis",
        "import",
        &server().unwrap(),
        "--from",
        "127.0.0.1:1",
    ]);
    let says = "(--redis-mode commands), which cannot follow a running server";
    expect_failure(import.args(["--endpoints", &up.urls[1]]), 1, says);
    let file = home.dir.with_file_name("all.rdb").display().to_string();
    let exported = output(quorate().args(["redis", "export", &file, "--endpoints", &up.urls[1]]));
    assert!(
        exported.status.success(),
        "{}",
        String::from_utf8_lossy(&exported.stderr)
    );
    assert!(up.stop().success());
    let dir = home.dir.display().to_string();
    expect_failure(
        quorate().args(["up", "--data-dir", &dir, "--redis-mode", "effects"]),
        2,
        "--redis-mode effects contradicts the cluster in",
    );
    let again = Up::start(&home.dir, &[&server().unwrap()]);
    let mut client = Client::connect(&again.urls[2]);
    assert_eq!(
        (client.say("get p"), client.say("incr p")),
        ("1000".to_owned(), "1001".to_owned())
    );
    expect_equal_servers(&again);
    assert!(again.stop().success());
    let other = Home::new();
    let mut begin = quorate();
    begin.args([
        "up",
        "--face",
        "redis",
        &server().unwrap(),
        "--redis-mode",
        "commands",
    ]);
    begin.args([
        "--import",
        &file,
        "--data-dir",
        &other.dir.display().to_string(),
    ]);
    expect_failure(&mut begin, 2, "a cluster in command mode begins empty");
}
