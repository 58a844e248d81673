//! Clients that send what makes no sense, or take nothing of what they asked for.

use super::{executor, page, start};
use crate::support;
use crate::support::resp::Client;
use crate::support::{Home, PATIENCE, Up};
use quorate_resp::Reply;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// Clients that come at once.
const CROWD: usize = 1000;
/// What a replica may need for each of them, in KiB.
const CLIENT_KIB_MAX: u64 = 40;
/// The least budget that a replica can be given for its clients, in bytes.
const CLIENT_MEMORY_MIN: usize = 16 << 20;
/// What a replica may grow by beside its budget, in KiB.
const GROWTH_KIB_MAX: u64 = 48 << 10;

/// What a connection is told to bytes, until it is closed.
fn told(url: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("redis://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => {
            panic!(
                "{:?} is not closed: {error}",
                String::from_utf8_lossy(bytes)
            )
        }
        _ => String::from_utf8_lossy(&answer).into_owned(),
    }
}

/// The address of the executor's port, and that of another replica's.
fn here_and_there(up: &Up) -> [String; 2] {
    let here = usize::from(executor(up)) - 1;
    [here, (here + 1) % up.urls.len()].map(|at| up.urls[at].clone())
}

/// The memory of a process, in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .expect("a process has memory")
}

/// Scenario: requests without sense are answered as a single server answers them, at every replica.
#[test]
fn nonsense_is_answered_as_by_a_single_server() {
    let home = Home::new();
    let Some(up) = start(&home, &[]) else {
        return;
    };
    assert_eq!(Client::connect(&up.urls[0]).say("set a 1"), "OK");
    let long_line = vec![b'x'; 100 << 10];
    for url in here_and_there(&up) {
        for (bytes, says) in [
            (&b"*99999999999\r\n"[..], "invalid multibulk length"),
            (b"*1\r\n$-5\r\n", "invalid bulk length"),
            (b"*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
            (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
            (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
            (b"set \"a\r\n", "unbalanced quotes in request"),
            (&long_line, "too big inline request"),
        ] {
            let told = told(&url, bytes);
            assert!(told.starts_with("-ERR Protocol error"), "{told:?}");
            assert!(told.contains(says), "{told:?} lacks {says}");
        }
        for request in [
            &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            b"POST /set/a/2 HTTP/1.1\r\nHost: x\r\n\r\n",
        ] {
            assert_eq!(told(&url, request), "");
        }
        // Half a request is none.
        let mut half = Client::connect(&url);
        half.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n");
        drop(half);
        let mut slow = Client::connect(&url);
        for byte in b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n" {
            slow.send(&[*byte]);
        }
        assert_eq!(slow.next(), Some(Reply::Bulk("1".into())));
        assert_eq!(Client::connect(&url).say("get /b"), "(nil)");
    }
    assert!(up.stop().success());
}

/// Scenario: a client reads all that a server shows, and knocks at every port with it.
#[test]
fn nothing_that_clients_are_shown_opens_a_link() {
    let home = Home::new();
    let Some(up) = start(&home, &[]) else {
        return;
    };
    let mut client = Client::connect(&up.urls[0]);
    assert_eq!(client.say("set a 1"), "OK");
    for name in [
        "masterauth",
        "masteruser",
        "requirepass",
        "tls-key-file-pass",
    ] {
        let Reply::Array(shown) = client.ask(&format!("config get {name}")) else {
            panic!("{name} is no list");
        };
        // Not every server has every one.
        let value = shown.get(1).and_then(Reply::text);
        assert_eq!(value.unwrap_or_default(), "", "{name}");
    }
    for request in [
        "monitor",
        "debug jmap",
        "config rewrite",
        "script debug yes",
    ] {
        let refused = client.say(request);
        assert!(
            refused.starts_with("NOPERM") || refused.starts_with("ERR DEBUG"),
            "{request}: {refused}"
        );
    }
    // A client without any password is not asked for one, so it may not have one that is of use elsewhere.
    let own = format!("{:?}", client.ask("acl getuser quorate"));
    assert!(!own.contains("nopass"), "{own}");
    assert!(client.say("auth quorate x").starts_with("WRONGPASS"));
    // The port for links takes its own server's connections alone, whatever is said to it.
    let replica = up.pids[&executor(&up)];
    let ports = loopback_ports(replica);
    assert!(!ports.is_empty(), "a relay has a port for links");
    for port in ports {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let psync = b"PING\r\nREPLCONF listening-port 1\r\nPSYNC ? -1\r\n";
        // It may be closed before that is sent.
        let _ = stream.write_all(psync);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(String::from_utf8_lossy(&answer), "", "port {port} answers");
    }
    assert_eq!(client.say("get a"), "1");
    assert!(up.stop().success());
}

/// The ports of the loopback interface that the system chose for a process: it has one, for links.
fn loopback_ports(pid: u32) -> Vec<u16> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links: Vec<String> = links
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let first: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listening = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_own = links.contains(&format!("socket:[{}]", words[9]));
        let (_, port) = words[1].split_once(':')?;
        (words[3] == "0A" && is_own).then(|| u16::from_str_radix(port, 16).unwrap())
    });
    listening.filter(|port| *port >= first).collect()
}

/// Scenario: a crowd of clients comes and says little; then others ask for much, and take nothing of it.
#[test]
fn clients_that_take_nothing_cost_others_nothing() {
    let home = Home::new();
    let bound = format!("--server-arg=--max-client-memory={CLIENT_MEMORY_MIN}");
    let Some(up) = start(&home, &[&bound]) else {
        return;
    };
    assert_eq!(Client::connect(&up.urls[0]).say("set a 1"), "OK");
    let [here, there] = here_and_there(&up);
    let replicas: Vec<u32> = up.pids.values().copied().collect();
    let before: u64 = replicas.iter().map(|pid| resident_kib(*pid)).sum();
    let mut crowd: Vec<Client> = (0..CROWD)
        .map(|number| Client::connect(if number % 2 == 0 { &here } else { &there }))
        .collect();
    for client in &mut crowd {
        client.pipeline(&["ping"]);
    }
    for client in &mut crowd {
        assert_eq!(client.next(), Some(Reply::Simple("PONG".to_owned())));
    }
    let after: u64 = replicas.iter().map(|pid| resident_kib(*pid)).sum();
    let each = after.saturating_sub(before) / CROWD as u64;
    println!("{each} KiB for each of {CROWD} clients");
    assert!(each <= CLIENT_KIB_MAX, "{each} KiB for each client");
    drop(crowd);
    let mut client = Client::connect(&here);
    client.pipeline(&[&format!("set big {}", "x".repeat(64 << 10))]);
    assert_eq!(client.next(), Some(Reply::Simple("OK".to_owned())));
    // Together they ask for more than the budget has.
    let greedy: Vec<Client> = (0..100)
        .map(|number| {
            let mut client = Client::connect(if number % 2 == 0 { &here } else { &there });
            client.pipeline(&["get big"; 100]);
            client
        })
        .collect();
    let began = Instant::now();
    for url in [&here, &there] {
        let mut client = Client::connect(url);
        for _ in 0..50 {
            assert_eq!(client.say("get a"), "1");
        }
    }
    println!("100 reads among the greedy: {:?}", began.elapsed());
    for pid in replicas {
        let grown = resident_kib(pid).saturating_sub(after);
        let most = GROWTH_KIB_MAX + (CLIENT_MEMORY_MIN >> 10) as u64;
        assert!(grown < most, "{grown} KiB more");
    }
    drop(greedy);
    assert!(up.stop().success());
}

/// Scenario: a majority is gone, and a client that comes then is told that nothing was done.
#[test]
fn who_reaches_no_executor_is_told_that_nothing_was_done() {
    let home = Home::new();
    let Some(up) = start(&home, &[]) else {
        return;
    };
    assert_eq!(Client::connect(&up.urls[0]).say("set a 1"), "OK");
    let [_, there] = here_and_there(&up);
    let asked: u16 = 1 + up.urls.iter().position(|url| *url == there).unwrap() as u16;
    for (id, pid) in &up.pids {
        if *id != asked {
            support::signal(*pid, rustix::process::Signal::KILL);
        }
    }
    let admin = &up.admin[usize::from(asked) - 1];
    // The executor's end is seen before anything is asked, so that nothing is given to it.
    let told = loop {
        match Client::connect(&there).try_ask("incr a") {
            Some(reply) => break reply,
            None => assert_eq!(
                page(admin).get("role").map(String::as_str),
                Some("following")
            ),
        }
    };
    assert_eq!(
        told,
        Reply::Error("LOADING Quorate has no executor, nothing was done, try again".to_owned())
    );
    drop(up);
}
