//! What clients of Redis ask of a server beside its data.

mod support;

use quorate_resp::Reply;
use std::sync::atomic::Ordering::Relaxed;
use support::{Client, bulk, start};

fn array(texts: &[&'static str]) -> Reply {
    Reply::Array(texts.iter().map(|text| bulk(text)).collect())
}

/// Scenario: what came at once is ordered at once, and answered in order.
#[tokio::test]
async fn a_pipeline_is_one_command_of_the_log() {
    let served = start();
    let mut client = served.connect().await;
    assert_eq!(client.say("set a 0").await, "OK");
    let before = served.ordered.load(Relaxed);
    client.pipeline(&["incr a"; 16]).await;
    for number in 1..=16 {
        assert_eq!(client.next().await, Some(Reply::Integer(number)));
    }
    assert_eq!(served.ordered.load(Relaxed) - before, 1);
    let before = (served.ordered.load(Relaxed), served.asked.load(Relaxed));
    client.pipeline(&["get a"; 16]).await;
    for _ in 0..16 {
        assert_eq!(client.next().await, Some(bulk("16")));
    }
    let after = (served.ordered.load(Relaxed), served.asked.load(Relaxed));
    assert_eq!(
        after,
        (before.0, before.1 + 1),
        "reads are never in the log"
    );
}

/// Scenario: what libraries say when they connect.
#[tokio::test]
async fn libraries_find_what_they_look_for() {
    let served = start();
    let mut client = served.connect().await;
    let Reply::Map(hello) = client.ask("hello 3 setname me").await else {
        panic!("a map");
    };
    assert!(hello.contains(&(bulk("proto"), Reply::Integer(3))));
    assert_eq!(client.say("client getname").await, "me");
    assert_eq!(client.say("client setinfo lib-name redis-py").await, "OK");
    let line = client.say("client info").await;
    assert!(
        line.contains("name=me") && line.contains("resp=3") && line.contains("lib-name=redis-py"),
        "{line}"
    );
    assert_eq!(
        client.ask("config get save").await,
        Reply::Map(vec![(bulk("save"), bulk(""))])
    );
    assert_eq!(client.say("select 3").await, "OK");
    assert_eq!(
        client.say("select 16").await,
        "ERR DB index is out of range"
    );
    assert_eq!(
        client.say("select x").await,
        "ERR value is not an integer or out of range"
    );
    assert!(client.say("hello 4").await.starts_with("NOPROTO"));
    assert_eq!(
        client.ask("role").await,
        Reply::Array(vec![
            bulk("master"),
            Reply::Integer(0),
            Reply::Array(vec![])
        ])
    );
    assert!(matches!(client.ask("command count").await, Reply::Integer(count) if count > 40));
    let Reply::Map(docs) = client.ask("command docs get").await else {
        panic!("a map");
    };
    assert_eq!(docs.len(), 1);
    assert_eq!(
        client.ask("command getkeys mset a 1 b 2").await,
        array(&["a", "b"])
    );
    assert_eq!(
        client.say("cluster info").await,
        "ERR This instance has cluster support disabled"
    );
    assert_eq!(
        client.say("client nonsense").await,
        "ERR unknown subcommand 'nonsense'. Try CLIENT HELP."
    );
    assert_eq!(
        client.say("config set save x").await.split(':').next(),
        Some("ERR CONFIG SET is refused")
    );
    assert_eq!(client.say("reset").await, "RESET");
    assert_eq!(client.say("client getname").await, "(nil)");
    assert_eq!(client.say("quit").await, "OK");
    assert_eq!(client.next().await, None);
}

/// Scenario: an application that wants no replies, or not the next one.
#[tokio::test]
async fn replies_that_are_not_wanted_are_not_sent() {
    let served = start();
    let mut client = served.connect().await;
    client
        .pipeline(&[
            "client reply off",
            "set a 1",
            "ping",
            "nonsense",
            "client reply on",
            "get a",
            "client reply skip",
            "incr a",
            "incr a",
        ])
        .await;
    assert_eq!(client.next().await, Some(Reply::Simple("OK".to_owned())));
    assert_eq!(client.next().await, Some(bulk("1")));
    assert_eq!(client.next().await, Some(Reply::Integer(3)));
}

/// Scenario: connections are listed, and closed by others and by themselves.
#[tokio::test]
async fn connections_are_shown_and_closed() {
    let served = start();
    let mut client = served.connect().await;
    let mut other = served.connect().await;
    let id: i64 = other.say("client id").await.parse().expect("a number");
    let lines = client.say("client list").await;
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert_eq!(
        client.ask(&format!("client kill id {id}")).await,
        Reply::Integer(1)
    );
    assert_eq!(other.next().await, None);
    assert_eq!(
        client.say("client kill 1.2.3.4:5").await,
        "ERR No such client"
    );
    let own = client.stream.local_addr().expect("an address");
    assert_eq!(client.say(&format!("client kill {own}")).await, "OK");
    assert_eq!(client.next().await, None);
}

/// Scenario: transactions in every way that they end.
#[tokio::test]
async fn transactions_are_carried_out_whole_or_not_at_all() {
    let served = start();
    let mut client = served.connect().await;
    let queue = async |client: &mut Client, requests: &[&str]| {
        assert_eq!(client.say("multi").await, "OK");
        for request in requests {
            assert_eq!(client.say(request).await, "QUEUED", "{request}");
        }
    };
    queue(&mut client, &["set a 1", "get a", "ping"]).await;
    let all = vec![
        Reply::Simple("OK".to_owned()),
        bulk("1"),
        Reply::Simple("PONG".to_owned()),
    ];
    assert_eq!(client.ask("exec").await, Reply::Array(all));
    queue(&mut client, &["get a", "mget a b"]).await;
    let before = served.ordered.load(Relaxed);
    let read = Reply::Array(vec![bulk("1"), Reply::Array(vec![bulk("1"), Reply::Null])]);
    assert_eq!(client.ask("exec").await, read);
    assert_eq!(served.ordered.load(Relaxed), before, "it changes nothing");
    queue(&mut client, &[]).await;
    assert_eq!(client.ask("exec").await, Reply::Array(vec![]));
    queue(&mut client, &["set a 2"]).await;
    assert_eq!(client.say("discard").await, "OK");
    queue(&mut client, &["set a 3"]).await;
    assert_eq!(
        client.say("subscribe x").await,
        "ERR Command not allowed inside a transaction"
    );
    assert_eq!(
        client.say("multi").await,
        "ERR MULTI calls can not be nested"
    );
    assert_eq!(
        client.say("watch a").await,
        "ERR WATCH inside MULTI is not allowed"
    );
    assert!(client.say("exec").await.starts_with("EXECABORT"));
    assert_eq!(client.say("get a").await, "1");
    queue(&mut client, &["select 1", "set a db1"]).await;
    client.ask("exec").await;
    assert_eq!(
        client.say("get a").await,
        "db1",
        "the database stays selected"
    );
    assert_eq!(client.say("select 0").await, "OK");
    assert_eq!(client.say("watch a none").await, "OK");
    queue(&mut client, &["set none 1"]).await;
    assert_eq!(
        client.ask("exec").await,
        Reply::Array(vec![Reply::Simple("OK".to_owned())])
    );
    for (meddled, expected) in [
        ("set none 2", Reply::Null),
        ("get none", Reply::Array(vec![])),
    ] {
        assert_eq!(client.say("watch none").await, "OK");
        served.connect().await.say(meddled).await;
        assert_eq!(client.say("multi").await, "OK");
        assert_eq!(client.ask("exec").await, expected, "{meddled}");
    }
    assert_eq!(client.say("discard").await, "ERR DISCARD without MULTI");
}

/// Scenario: messages within a transaction, and subscriptions in the third version of the protocol.
#[tokio::test]
async fn messages_are_pushed() {
    let served = start();
    let mut subscriber = served.connect().await;
    subscriber.ask("hello 3").await;
    let confirmed = |what, name| Reply::Push(vec![bulk(what), bulk(name), Reply::Integer(1)]);
    assert_eq!(
        subscriber.ask("subscribe a").await,
        confirmed("subscribe", "a")
    );
    let mut publisher = served.connect().await;
    assert_eq!(publisher.say("multi").await, "OK");
    assert_eq!(publisher.say("publish a one").await, "QUEUED");
    assert_eq!(publisher.say("publish b two").await, "QUEUED");
    let counts = Reply::Array(vec![Reply::Integer(1), Reply::Integer(0)]);
    assert_eq!(publisher.ask("exec").await, counts);
    let message = Reply::Push(vec![bulk("message"), bulk("a"), bulk("one")]);
    assert_eq!(subscriber.next().await, Some(message));
    // The third version answers everything else on the same connection.
    assert_eq!(subscriber.say("get x").await, "(nil)");
    assert_eq!(publisher.ask("pubsub channels").await, array(&["a"]));
    assert_eq!(
        publisher.ask("pubsub numsub a").await,
        Reply::Array(vec![bulk("a"), Reply::Integer(1)])
    );
    let ended = Reply::Push(vec![bulk("unsubscribe"), bulk("a"), Reply::Integer(0)]);
    assert_eq!(subscriber.ask("unsubscribe").await, ended);
    assert_eq!(publisher.ask("publish a three").await, Reply::Integer(0));
}
