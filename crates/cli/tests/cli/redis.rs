//! The Redis face, over clusters of real processes.

use crate::support::refusals::expect_documented_refusals;
use crate::support::resp::Client;
use crate::support::{
    Home, PATIENCE, Up, eventually, expect_failure, free_ports, output, quorate, signal,
};
use bytes::Bytes;
use quorate_resp::Reply;
use rustix::process::Signal;
use std::time::Instant;

fn bulk(text: &'static str) -> Reply {
    Reply::Bulk(Bytes::from(text))
}

fn ok() -> Reply {
    Reply::Simple("OK".to_owned())
}

/// Scenario: keys are written, read and counted, each time through another replica; a pipeline, and both versions of
/// the protocol.
#[test]
fn any_replica_serves_plain_clients() {
    let home = Home::new();
    let up = home.start(&["--face", "redis"]);
    let [mut one, mut two, mut three] = [0, 1, 2].map(|at| Client::connect(&up.urls[at]));
    assert_eq!(one.say("set a 1"), "OK");
    assert_eq!(two.say("incr a"), "2");
    assert_eq!(three.say("get a"), "2");
    assert_eq!(three.say("get none"), "(nil)");
    let requests: Vec<String> = (0..500).map(|_| "incr b".to_owned()).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    one.pipeline(&requests);
    for number in 1..=500 {
        assert_eq!(one.next(), Some(Reply::Integer(number)));
    }
    two.pipeline(&["get b", "set b 7", "get b", "ping", "nonsense", "get b"]);
    let replies: Vec<Reply> = (0..6).map(|_| two.next().unwrap()).collect();
    assert_eq!(
        replies[..4],
        [
            bulk("500"),
            ok(),
            bulk("7"),
            Reply::Simple("PONG".to_owned())
        ]
    );
    let Reply::Error(why) = &replies[4] else {
        panic!("{replies:?}");
    };
    assert!(why.starts_with("ERR unknown command 'nonsense'"), "{why}");
    assert_eq!(replies[5], bulk("7"));
    let Reply::Map(hello) = three.ask("hello 3") else {
        panic!("HELLO 3 is answered with a map");
    };
    assert!(hello.contains(&(bulk("server"), bulk("redis"))));
    assert_eq!(three.say("get none"), "(nil)");
    assert_eq!(three.say("select 1"), "OK");
    assert_eq!(three.say("get b"), "(nil)");
    expect_documented_refusals(&up.urls[1], "Refused by the embedded store");
    assert!(up.stop().success());
}

/// Scenario: two clients at different replicas change a key that one of them watches.
#[test]
fn transactions_depend_on_watched_keys_whoever_changes_them() {
    let home = Home::new();
    let up = home.start(&["--face", "redis"]);
    let [mut one, mut two] = [0, 1].map(|at| Client::connect(&up.urls[at]));
    assert_eq!(one.say("set a 1"), "OK");
    for (meddles, expected) in [
        (false, Reply::Array(vec![Reply::Integer(2), bulk("2")])),
        (true, Reply::Null),
    ] {
        assert_eq!(one.say("watch a"), "OK");
        assert_eq!(one.say("multi"), "OK");
        assert_eq!(one.say("incr a"), "QUEUED");
        assert_eq!(one.say("get a"), "QUEUED");
        if meddles {
            assert_eq!(two.say("set a 10"), "OK");
        }
        assert_eq!(one.ask("exec"), expected);
    }
    assert_eq!(two.say("get a"), "10");
    assert_eq!(one.say("multi"), "OK");
    assert!(
        one.say("get")
            .contains("wrong number of arguments for 'get'")
    );
    assert!(one.say("exec").starts_with("EXECABORT"));
    assert_eq!(one.say("exec"), "ERR EXEC without MULTI");
    assert!(up.stop().success());
}

/// Scenario: a message is published at one replica, and subscribers wait at all of them.
#[test]
fn messages_reach_the_subscribers_of_every_replica() {
    let home = Home::new();
    let up = home.start(&["--face", "redis"]);
    let mut subscribers: Vec<Client> = up.urls.iter().map(|url| Client::connect(url)).collect();
    let part = |name, channel| Reply::Array(vec![bulk(name), bulk(channel), Reply::Integer(1)]);
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        let (what, channel) = [("subscribe", "news"), ("psubscribe", "n*")][number % 2];
        assert_eq!(
            subscriber.ask(&format!("{what} {channel}")),
            part(what, channel)
        );
    }
    let mut publisher = Client::connect(&up.urls[0]);
    let mut count = 0;
    while count < 100 {
        // Those at the first replica are counted.
        assert_eq!(
            publisher.ask(&format!("publish news {count}")),
            Reply::Integer(1)
        );
        count += 1;
    }
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        for message in 0..count {
            let text = Reply::Bulk(message.to_string().into());
            let expected = match number % 2 {
                0 => vec![bulk("message"), bulk("news"), text],
                _ => vec![bulk("pmessage"), bulk("n*"), bulk("news"), text],
            };
            assert_eq!(subscriber.next(), Some(Reply::Array(expected)));
        }
    }
    let why = subscribers[0].say("get a");
    assert!(why.starts_with("ERR Can't execute 'get'"), "{why}");
    assert!(up.stop().success());
}

/// Scenario: each replica is killed and started again in turn, while a client of another goes on counting.
#[test]
fn counting_goes_on_while_each_replica_is_killed_in_turn() {
    let home = Home::new();
    let mut up = home.start(&["--face", "redis", "--restart"]);
    let mut counted = 0;
    for (victim, survivor) in [(1, 2), (2, 3), (3, 1)] {
        let mut client = Client::connect(&up.urls[survivor - 1]);
        let mut count = |up: &str, least: i64| {
            for _ in 0..50 {
                counted += 1;
                assert_eq!(client.ask("incr a"), Reply::Integer(counted), "{up}");
            }
            assert!(counted >= least);
        };
        count("before", 50);
        signal(up.pids[&(victim as u16)], Signal::KILL);
        count("while it is down", 100);
        up.wait_for(&format!("replica {victim} serves again"));
        count("after", 150);
    }
    let mut client = Client::connect(&up.urls[0]);
    assert_eq!(client.say("get a"), counted.to_string());
    assert!(up.stop().success());
}

/// Scenario: two replicas of three are gone: a client of the third is held, then its connection is closed.
#[test]
fn without_a_quorum_a_client_is_held_and_then_let_go() {
    let home = Home::new();
    let mut up = home.start(&["--face", "redis", "--server-arg=--request-timeout-ms=500"]);
    let mut client = Client::connect(&up.urls[0]);
    assert_eq!(client.say("set a 1"), "OK");
    for id in [2, 3] {
        signal(up.pids[&id], Signal::KILL);
        up.wait_for(&format!("replica {id} (process"));
    }
    let began = Instant::now();
    assert_eq!(
        client.try_ask("incr a"),
        None,
        "nobody knows whether it is done"
    );
    assert!(began.elapsed() < PATIENCE / 2);
    let mut client = Client::connect(&up.urls[0]);
    assert_eq!(client.try_ask("get a"), None);
    let mut client = Client::connect(&up.urls[0]);
    assert_eq!(client.say("ping"), "PONG");
    assert_eq!(client.say("readonly"), "OK");
    assert_eq!(
        client.say("get a"),
        "1",
        "what may be stale needs nobody else"
    );
    drop(up);
}

/// Scenario: users of a file, and a password for everybody else.
#[test]
fn users_may_do_what_their_file_says() {
    let home = Home::new();
    let users = home.dir.with_file_name("users.acl");
    std::fs::write(&users, "user alice on >secret ~app:* +@all -flushall\n").unwrap();
    let file = format!("--server-arg=--redis-acl-file={}", users.display());
    let up = home.start(&["--face", "redis", &file, "--server-arg=--requirepass=hush"]);
    let mut client = Client::connect(&up.urls[1]);
    assert_eq!(client.say("get a"), "NOAUTH Authentication required.");
    assert!(client.say("auth wrong").starts_with("WRONGPASS"));
    assert_eq!(client.say("auth hush"), "OK");
    assert_eq!(client.say("set other 1"), "OK");
    assert_eq!(client.say("auth alice secret"), "OK");
    assert_eq!(client.say("acl whoami"), "alice");
    assert_eq!(client.say("set app:1 x"), "OK");
    assert!(
        client
            .say("get other")
            .starts_with("NOPERM this user has no permissions to access")
    );
    assert_eq!(
        client.say("flushall"),
        "NOPERM this user has no permissions to run the 'flushall' command"
    );
    let log = std::fs::read_to_string(home.dir.join("2").join("log.txt")).unwrap();
    assert!(!log.contains("hush") && !log.contains("secret"));
    assert!(up.stop().success());
}

/// Scenario: an administrator at one replica gives rights and takes them, while users ask at others; the cluster is
/// continued without the file that it began with.
#[test]
fn users_are_those_of_the_cluster() {
    let home = Home::new();
    let users = home.dir.with_file_name("users.acl");
    let alice_line = "user alice on >secret ~app:* &news +@all -@admin\n";
    std::fs::write(&users, alice_line).unwrap();
    let file = format!("--server-arg=--redis-acl-file={}", users.display());
    let up = home.start(&["--face", "redis", &file, "--server-arg=--requirepass=hush"]);
    let [mut admin, mut alice, mut listener] = [0, 1, 2].map(|at| Client::connect(&up.urls[at]));
    assert_eq!(admin.say("auth hush"), "OK");
    assert_eq!(alice.say("auth alice secret"), "OK");
    assert_eq!(listener.say("auth alice secret"), "OK");
    assert_eq!(alice.say("set app:1 x"), "OK");
    let denied = "NOPERM this user has no permissions to run the 'set' command";
    assert_eq!(admin.say("acl setuser alice -set"), "OK");
    assert_eq!(alice.say("set app:1 y"), denied);
    assert_eq!(alice.say("get app:1"), "x");
    assert!(alice.say("acl setuser alice +set").starts_with("NOPERM"));
    let dry = "User alice has no permissions to run the 'set' command";
    assert_eq!(admin.say("acl dryrun alice set app:1 x"), dry);
    assert!(
        admin
            .say("acl setuser alice +nonsense")
            .contains("modifier '+nonsense'")
    );
    // What a subscriber may not hear any more ends its connection.
    listener.pipeline(&["subscribe news"]);
    assert!(listener.next().is_some());
    assert_eq!(admin.say("acl setuser alice resetchannels"), "OK");
    assert_eq!(listener.next(), None);
    // A password that goes takes those with it who came by it; the file has it, and those rights, again.
    assert_eq!(admin.say("acl setuser alice >other <secret"), "OK");
    alice.pipeline(&["get app:1"]);
    assert!(matches!(alice.next(), None | Some(Reply::Error(_))));
    let mut alice = Client::connect(&up.urls[2]);
    assert_eq!(alice.say("auth alice other"), "OK");
    assert_eq!(admin.say("acl load"), "OK");
    let mut alice = Client::connect(&up.urls[1]);
    assert_eq!(alice.say("auth alice secret"), "OK");
    assert_eq!(alice.say("set app:1 z"), "OK");
    assert_eq!(
        admin.say("acl setuser bob on >pw allkeys +blpop +get"),
        "OK"
    );
    let mut bob = Client::connect(&up.urls[2]);
    assert_eq!(bob.say("auth bob pw"), "OK");
    assert_eq!(admin.say("rpush list one"), "1");
    assert!(matches!(bob.ask("blpop list 1"), Reply::Array(_)));
    assert_eq!(admin.say("acl deluser alice carol"), "1");
    assert!(up.stop().success());
    let again = Up::start(&home.dir, &[]);
    let mut client = Client::connect(&again.urls[1]);
    assert!(client.say("auth alice secret").starts_with("WRONGPASS"));
    assert_eq!(client.say("auth bob pw"), "OK");
    assert_eq!(client.say("get app:1"), "z");
    let log = std::fs::read_to_string(home.dir.join("1").join("log.txt")).unwrap();
    assert!(!log.contains("hush") && !log.contains("secret"));
    assert!(again.stop().success());
}

/// Scenario: a cluster whose programs are as old as those that knew users by files alone.
#[test]
fn an_older_cluster_checks_users_at_each_replica() {
    let home = Home::new();
    let users = home.dir.with_file_name("users.acl");
    std::fs::write(
        &users,
        "user default off\nuser alice on >secret ~app:* +@all\n",
    )
    .unwrap();
    let file = format!("--server-arg=--redis-acl-file={}", users.display());
    let up = home.start(&["--face", "redis", &file, "--server-arg=--wire-version=4"]);
    let mut alice = Client::connect(&up.urls[2]);
    assert_eq!(alice.say("get app:1"), "NOAUTH Authentication required.");
    assert_eq!(alice.say("auth alice secret"), "OK");
    assert_eq!(alice.say("set app:1 x"), "OK");
    assert!(alice.say("set other x").starts_with("NOPERM"));
    let refused = alice.say("acl setuser bob on");
    let says = "ERR changes of users take feature level 5, and this cluster is at 4";
    assert!(refused.starts_with(says), "{refused}");
    assert!(up.stop().success());
    // The programs are new ones now: the users of the file become those of the cluster.
    let again = Up::start(&home.dir, &[&file]);
    let begun = Instant::now();
    loop {
        let mut alice = Client::connect(&again.urls[0]);
        assert_eq!(alice.say("auth alice secret"), "OK");
        match alice.try_ask("acl setuser bob on") {
            Some(Reply::Simple(_)) => break,
            refused => assert!(begun.elapsed() < PATIENCE, "{refused:?}"),
        }
    }
    assert!(again.stop().success());
}

/// Scenario: a cluster is looked at through its address for operators, continued, and asked for with another face.
#[test]
fn operators_find_the_cluster_at_an_address_of_their_own() {
    let home = Home::new();
    let up = home.start(&["--face", "redis"]);
    let admin = up.admin.clone();
    let text = |args: &[&str]| {
        let found = output(quorate().args(args).args(["--endpoints", &admin[0]]));
        assert!(
            found.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&found.stderr)
        );
        String::from_utf8_lossy(&found.stdout).into_owned()
    };
    let status = text(&["status"]);
    assert!(
        status.contains("rabia") && status.contains(&admin[2]["http://".len()..]),
        "{status}"
    );
    let found = output(quorate().args(["status", "--json", "--endpoints", &up.urls[1]]));
    let json = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(
        found.status.success() && json.contains(&admin[0]["http://".len()..]),
        "{json}"
    );
    let table = text(&["redis", "status"]);
    assert_eq!(table.matches("it has no real server").count(), 3, "{table}");
    for (command, says) in [
        ("import", "127.0.0.1:1: Connection refused"),
        ("cutover", "this cluster follows no other server"),
    ] {
        let mut moved = quorate();
        moved.args(["redis", command, "--from", "127.0.0.1:1"]);
        expect_failure(moved.args(["--endpoints", &admin[0]]), 1, says);
    }
    let switched = text(&["cluster", "switch", "multi-paxos"]);
    assert!(switched.contains("multi-paxos"), "{switched}");
    let mut client = Client::connect(&up.urls[2]);
    assert_eq!(client.say("set a 1"), "OK");
    assert!(
        client
            .say("info server")
            .contains("quorate_protocol:multi-paxos")
    );
    assert_eq!(
        client.try_ask("post / HTTP/1.1"),
        None,
        "a browser is sent away"
    );
    assert!(up.stop().success());
    let again = Up::start(&home.dir, &[]);
    assert_eq!(Client::connect(&again.urls[0]).say("get a"), "1");
    assert!(again.stop().success());
    let dir = home.dir.display().to_string();
    let says = "--face etcd contradicts the cluster in";
    expect_failure(
        quorate().args(["up", "--face", "etcd", "--data-dir", &dir]),
        2,
        says,
    );
}

/// Scenario: a fourth replica is added at the address for operators, becomes a member, and the second leaves.
#[tokio::test]
async fn members_come_and_go_at_the_address_for_operators() {
    let home = Home::new();
    let up = home.start(&["--face", "redis"]);
    assert_eq!(Client::connect(&up.urls[0]).say("set a 1"), "OK");
    let first = free_ports(3);
    let [redis, peer, admin] = [0, 1, 2].map(|at| format!("127.0.0.1:{}", first + at));
    let cluster = |args: &[&str]| {
        let found = output(
            quorate()
                .arg("cluster")
                .args(args)
                .args(["--endpoints", &up.admin[0]]),
        );
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            found.status.success(),
            text(&found.stdout) + &text(&found.stderr),
        )
    };
    let (added, said) = cluster(&["add", "--peer-url", &format!("http://{peer}")]);
    assert!(added && said.contains("replica 4 may follow"), "{said}");
    let (again, said) = cluster(&["add", "--peer-url", &format!("http://{peer}")]);
    assert!(!again && said.contains("already"), "{said}");
    let mut fourth = quorate()
        .args(["serve", "--id=4", "--face=redis", "--exit-with-parent"])
        .arg(std::process::id().to_string())
        .arg(format!(
            "--data-dir={}",
            home.dir.with_file_name("4").display()
        ))
        .arg(format!("--listen-client-urls=http://{redis}"))
        .arg(format!("--listen-peer-urls=http://{peer}"))
        .arg(format!("--listen-admin-urls=http://{admin}"))
        .arg(format!(
            "--initial-cluster=1=http://127.0.0.1:{},4=http://{peer}",
            home.port.parse::<u16>().unwrap() + 1
        ))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("replica 4 is a member", || async {
        let (_, said) = cluster(&["status"]);
        said.lines()
            .any(|line| line.contains("  4  member"))
            .then_some(())
    })
    .await;
    assert_eq!(Client::connect(&redis).say("incr a"), "2");
    let (removed, said) = cluster(&["remove", "2"]);
    assert!(removed && !said.contains("replica-2"), "{said}");
    assert_eq!(Client::connect(&up.urls[0]).say("get a"), "2");
    signal(fourth.id(), Signal::TERM);
    assert!(fourth.wait().unwrap().success());
    drop(up);
}
