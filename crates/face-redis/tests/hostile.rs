//! What hostile clients can do: broken requests, half ones, replies that are never read, too many connections.

mod support;

use quorate_face_redis::{Limits, Users};
use quorate_resp::Reply;
use quorate_server::{CLIENT_MEMORY, Failure};
use std::time::Duration;
use support::{start, start_with, until};
use tokio::io::AsyncReadExt;

/// Scenario: requests that break the protocol, behind one that does not.
#[tokio::test]
async fn broken_requests_are_told_and_the_connection_is_closed() {
    let served = start();
    let long = "*1".to_owned() + &"1".repeat(70 << 10);
    for (request, why) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*1\r\n$-5\r\n", "invalid bulk length"),
        ("*1\r\n!5\r\n", "expected '$', got '!'"),
        ("*1\r\n*1\r\n$4\r\nping\r\n", "expected '$', got '*'"),
        ("*2\r\n$3\r\nget\r\n$99999999999\r\n", "invalid bulk length"),
        (&long, "too big mbulk count string"),
        ("set a \"\r\n", "unbalanced quotes in request"),
    ] {
        let mut client = served.connect().await;
        client.send(b"set before 1\r\n").await;
        client.send(request.as_bytes()).await;
        assert_eq!(client.next().await, Some(Reply::Simple("OK".to_owned())));
        let told = format!("ERR Protocol error: {why}");
        assert_eq!(client.next().await, Some(Reply::Error(told)));
        assert_eq!(client.next().await, None, "closed");
    }
    for http in ["POST / HTTP/1.1\r\n", "Host: localhost:6379\r\n"] {
        let mut client = served.connect().await;
        client.send(http.as_bytes()).await;
        assert_eq!(client.next().await, None, "{http}");
    }
    assert_eq!(served.connect().await.say("get before").await, "1");
}

/// Scenario: somebody without the password sends long requests.
#[tokio::test]
async fn strangers_are_taken_little_of() {
    let users = Users::open(None, Some("hush")).expect("a password");
    let served = start_with(Limits::default(), users, CLIENT_MEMORY);
    for (request, why) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        (
            "*2\r\n$4\r\nauth\r\n$20000\r\n",
            "unauthenticated bulk length",
        ),
    ] {
        let mut client = served.connect().await;
        client.send(request.as_bytes()).await;
        let told = format!("ERR Protocol error: {why}");
        assert_eq!(client.next().await, Some(Reply::Error(told)));
        assert_eq!(client.next().await, None);
    }
    let mut client = served.connect().await;
    assert_eq!(client.say("get a").await, "NOAUTH Authentication required.");
    assert_eq!(
        client.say("nonsense").await,
        "NOAUTH Authentication required."
    );
    assert!(
        client
            .say("hello 3")
            .await
            .starts_with("NOAUTH HELLO must be called")
    );
    assert!(matches!(
        client.ask("hello 3 auth default hush").await,
        Reply::Map(_)
    ));
    assert_eq!(client.say("set a 1").await, "OK");
}

/// Scenario: many clients send most of a long request and stop; others are served, and the memory comes back.
#[tokio::test]
async fn half_requests_are_bounded_in_memory_and_in_time() {
    const BUDGET: usize = 8 << 20;
    let limits = Limits {
        silence_max: Duration::from_millis(1500),
        ..Limits::default()
    };
    let served = start_with(limits, Users::default(), BUDGET);
    let mut half = b"*3\r\n$3\r\nset\r\n$1\r\na\r\n$1500000\r\n".to_vec();
    half.resize(1 << 20, b'x');
    let mut attackers = Vec::new();
    for _ in 0..20 {
        let mut attacker = served.connect().await;
        let sending = attacker.send(&half);
        // One for which there is no room is not read.
        let _ = tokio::time::timeout(Duration::from_millis(50), sending).await;
        assert!(served.budget.used() <= BUDGET);
        attackers.push(attacker);
    }
    assert_eq!(served.connect().await.say("set b 2").await, "OK");
    // They are still there: what ends them is their silence.
    until("the memory comes back", || served.budget.used() < 64 << 10).await;
}

/// What one connection holds that asks for values of 1 MiB, at most: two of them in replies, and some requests.
const HELD_BYTES_MAX: usize = 3 << 20;

/// Scenario: a client asks for a long value again and again, and reads nothing.
#[tokio::test]
async fn replies_that_nobody_reads_are_not_made() {
    let served = start();
    let value = "x".repeat(1 << 20);
    assert_eq!(
        served.connect().await.say(&format!("set a {value}")).await,
        "OK"
    );
    let mut greedy = served.connect().await;
    let requests = vec!["get a"; 200];
    greedy.pipeline(&requests).await;
    until("it is not read any more", || served.budget.used() > 0).await;
    assert_eq!(served.connect().await.say("ping").await, "PONG");
    // What it reads after all is complete, and was never there all at once.
    for _ in 0..200 {
        let reply = greedy.next().await.expect("a reply");
        let held = served.budget.used();
        assert!(held < HELD_BYTES_MAX, "{held} bytes for one client");
        assert!(matches!(reply, Reply::Bulk(bytes) if bytes.len() == 1 << 20));
    }
    drop(greedy);
    until("the memory comes back", || served.budget.used() < 64 << 10).await;
}

/// Scenario: a client that reads nothing at all is let go.
#[tokio::test]
async fn a_client_that_takes_nothing_for_long_is_closed() {
    let limits = Limits {
        stall_max: Duration::from_millis(300),
        ..Limits::default()
    };
    let served = start_with(limits, Users::default(), CLIENT_MEMORY);
    let value = "x".repeat(1 << 20);
    assert_eq!(
        served.connect().await.say(&format!("set a {value}")).await,
        "OK"
    );
    let mut greedy = served.connect().await;
    greedy.pipeline(&vec!["get a"; 400]).await;
    until("replies wait", || served.budget.used() > 1 << 20).await;
    until("it is closed", || served.budget.used() < 64 << 10).await;
    let mut rest = Vec::new();
    let _ = greedy.stream.read_to_end(&mut rest).await;
    assert!(rest.len() < 400 << 20, "not all replies were made");
}

/// Scenario: more clients than there may be.
#[tokio::test]
async fn who_comes_when_all_places_are_taken_is_told() {
    let limits = Limits {
        connections_max: 3,
        ..Limits::default()
    };
    let served = start_with(limits, Users::default(), CLIENT_MEMORY);
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = served.connect().await;
        assert_eq!(client.say("ping").await, "PONG");
        clients.push(client);
    }
    let mut late = served.connect().await;
    let told = Reply::Error("ERR max number of clients reached".to_owned());
    assert_eq!(late.next().await, Some(told));
    assert_eq!(late.next().await, None);
    drop(clients.pop());
    // The place is free as soon as the server has seen the end.
    let waiting = async {
        loop {
            let mut next = served.connect().await;
            next.pipeline(&["ping"]).await;
            if next.next().await == Some(Reply::Simple("PONG".to_owned())) {
                break;
            }
        }
    };
    tokio::time::timeout(support::PATIENCE, waiting)
        .await
        .expect("a place is free");
}

/// Scenario: a subscriber reads nothing while others publish.
#[tokio::test]
async fn a_subscriber_that_does_not_read_is_let_go_and_others_go_on() {
    let limits = Limits {
        mailbox_bytes_max: 1 << 20,
        ..Limits::default()
    };
    let served = start_with(limits, Users::default(), CLIENT_MEMORY);
    let mut lazy = served.connect().await;
    lazy.ask("subscribe a").await;
    let mut publisher = served.connect().await;
    let message = format!("publish a {}", "x".repeat(100 << 10));
    let mut receivers = 1;
    for _ in 0..1000 {
        let Reply::Integer(count) = publisher.ask(&message).await else {
            panic!("PUBLISH is answered with a number");
        };
        receivers = count;
        if receivers == 0 {
            break;
        }
    }
    assert_eq!(receivers, 0, "the subscriber is gone");
}

/// Scenario: the replica fails: what may be done is answered with silence, what was not done is told.
#[tokio::test]
async fn no_client_is_told_that_nothing_was_done_where_nobody_knows() {
    let served = start();
    let fail = |failure| *served.failure.lock().expect("nobody panics") = Some(failure);
    for failure in [Failure::Timeout, Failure::Stopping] {
        fail(failure);
        for request in ["incr a", "get a", "subscribe a", "watch a"] {
            let mut client = served.connect().await;
            client.pipeline(&["ping", request]).await;
            // What came before is not told either: the client asks all of it again, or nothing.
            let reply = client.next().await;
            assert!(
                !matches!(reply, Some(Reply::Error(_))),
                "{request}: {reply:?}"
            );
        }
    }
    for failure in [Failure::Overloaded, Failure::NotServing, Failure::Stopped] {
        fail(failure);
        let mut client = served.connect().await;
        let told = client.say("incr a").await;
        assert!(
            told.starts_with("LOADING ") && told.contains("nothing was done"),
            "{told}"
        );
        assert_eq!(client.next().await, None);
    }
    for (failure, word) in [
        (Failure::NoSpace, "OOM "),
        (Failure::TooLarge, "ERR "),
        (Failure::Corrupt, "MISCONF "),
    ] {
        fail(failure);
        let mut client = served.connect().await;
        client.pipeline(&["incr a", "incr b", "ping"]).await;
        for _ in 0..2 {
            let reply = client.next().await;
            assert!(
                matches!(&reply, Some(Reply::Error(why)) if why.starts_with(word)),
                "{reply:?}"
            );
        }
        assert_eq!(client.next().await, Some(Reply::Simple("PONG".to_owned())));
    }
}

/// Scenario: what a connection may keep for long: a transaction, watched keys, channels.
#[tokio::test]
async fn what_connections_keep_is_bounded() {
    let served = start();
    let name = "x".repeat(100 << 10);
    let mut client = served.connect().await;
    let mut refused = String::new();
    for number in 0..100 {
        refused = client.say(&format!("watch {name}{number}")).await;
    }
    assert!(refused.starts_with("ERR the watched keys"), "{refused}");
    assert!(served.budget.used() > 512 << 10, "what is kept is charged");
    assert_eq!(client.say("unwatch").await, "OK");
    assert_eq!(client.say("multi").await, "OK");
    for _ in 0..100 {
        refused = client.say(&format!("set a {name}")).await;
    }
    assert!(
        refused.starts_with("ERR the transaction is larger"),
        "{refused}"
    );
    assert!(client.say("exec").await.starts_with("EXECABORT"));
    assert!(matches!(client.ask("hello 3").await, Reply::Map(_)));
    let mut last = client.ask("ping").await;
    for number in 0..100 {
        last = client.ask(&format!("subscribe {name}{number}")).await;
    }
    assert!(
        matches!(&last, Reply::Error(why) if why.starts_with("ERR the channels")),
        "{last:?}"
    );
    drop(client);
    until("the memory comes back", || served.budget.used() < 64 << 10).await;
}
