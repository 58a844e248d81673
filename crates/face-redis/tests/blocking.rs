//! Clients that wait for elements. What is said is said to a real Redis as well, if `REDIS_SERVER` names one.

mod support;

use quorate_resp::Reply;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Client, PATIENCE, bulk, start};

/// What a conversation is led with: the face, or a Redis that ends with it.
struct Side {
    address: SocketAddr,
    redis: Option<Child>,
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Some(redis) = &mut self.redis {
            let _ = redis.kill();
            let _ = redis.wait();
        }
    }
}

impl Side {
    fn face() -> Side {
        Side {
            address: start().address,
            redis: None,
        }
    }

    /// The Redis that `REDIS_SERVER` names.
    async fn redis() -> Option<Side> {
        let Some(program) = std::env::var_os("REDIS_SERVER") else {
            println!("REDIS_SERVER names no Redis to compare with: skipped");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
        let address = port.expect("a free port");
        let redis = Command::new(program)
            .args(["--port", &address.port().to_string(), "--save", ""])
            .stdout(Stdio::null())
            .spawn()
            .expect("it can be started");
        let side = Side {
            address,
            redis: Some(redis),
        };
        let reached = async {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reached)
            .await
            .expect("it listens");
        Some(side)
    }

    async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Waits until so many clients wait.
    async fn until_blocked(&self, count: usize) {
        let mut observer = self.connect().await;
        let waiting = async {
            loop {
                let Some(lines) = observer.ask("client list").await.text() else {
                    panic!("a text");
                };
                let flags = lines
                    .split(' ')
                    .filter_map(|word| word.strip_prefix("flags="));
                if flags.filter(|flags| flags.contains('b')).count() == count {
                    break;
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("{count} clients never waited"));
    }
}

/// Has a waiting request, what wakes it, and which reply the waiting client gets; on both sides.
async fn conversation(side: &Side, resp: &str, asked: &str, woken_by: &[&str]) -> Reply {
    let mut waiting = side.connect().await;
    waiting.ask(resp).await;
    waiting.pipeline(&[asked]).await;
    side.until_blocked(1).await;
    let mut other = side.connect().await;
    for request in woken_by {
        other.ask(request).await;
    }
    let reply = waiting.next().await.expect("a reply");
    side.until_blocked(0).await;
    other.ask("flushall").await;
    reply
}

const CONVERSATIONS: [(&str, &[&str]); 14] = [
    ("blpop a 0", &["rpush a 1 2"]),
    ("brpop a 0", &["rpush a 1 2"]),
    ("blpop a b 0", &["lpush b x"]),
    (
        "blpop a 0",
        &["set a 1", "del a", "rpush other y", "rename other a"],
    ),
    ("blpop a 0", &["sadd s 3 1 2", "sort s store a"]),
    ("blpop a 0", &["set a string", "del a", "lpush a z"]),
    ("brpoplpush a b 0", &["rpush a 1 2 3"]),
    ("blmove a b left right 0", &["rpush a 1 2 3"]),
    ("blmpop 0 2 a b right count 2", &["rpush b 1 2 3"]),
    ("bzpopmin a b 0", &["zadd b 1.5 x 2 y"]),
    ("bzpopmax a 0", &["zadd a 1.5 x 2 y"]),
    ("bzmpop 0 2 a b min count 2", &["zadd b 1.5 x 2 y"]),
    ("bzpopmin a 0", &["zadd other 1 m", "zunionstore a 1 other"]),
    ("blpop a 0", &["multi", "rpush a 1", "rpush a 2", "exec"]),
];

/// What is answered at once, with elements or without.
const AT_ONCE: [&str; 16] = [
    "blpop full 0",
    "brpop none full 1",
    "bzpopmin zfull 0",
    "blmove full to right left 0",
    "blmpop 0 1 full left",
    "bzmpop 0 1 zfull max",
    "blpop none 0.01",
    "bzpopmin none 0.01",
    "blmove none to left left 0.01",
    "brpoplpush none to 0.01",
    "blpop string 0",
    "blpop a x",
    "blpop a -1",
    "blmpop 0.01 0 a left",
    "blmpop x 1 a left",
    "bzmpop 0.01 1 a left",
];

/// Scenario: each command that waits, in both versions of the protocol, woken in several ways.
#[tokio::test]
async fn those_who_wait_get_what_redis_gives_them() {
    let mut sides = vec![Side::face()];
    sides.extend(Side::redis().await);
    for resp in ["hello 2", "hello 3"] {
        for (asked, woken_by) in CONVERSATIONS {
            let mut replies = Vec::new();
            for side in &sides {
                replies.push(conversation(side, resp, asked, woken_by).await);
            }
            assert!(
                matches!(replies[0], Reply::Array(_) | Reply::Bulk(_)),
                "{asked}: {replies:?}"
            );
            assert!(
                replies.iter().all(|reply| *reply == replies[0]),
                "{asked}: {replies:?}"
            );
        }
        for is_transaction in [false, true] {
            let mut replies = Vec::new();
            for side in &sides {
                replies.push(at_once(side, resp, is_transaction).await);
            }
            for (number, asked) in AT_ONCE.iter().enumerate() {
                let of_all: Vec<_> = replies.iter().map(|replies| &replies[number]).collect();
                assert!(
                    of_all.iter().all(|reply| *reply == of_all[0]),
                    "{asked}: {of_all:?}"
                );
            }
        }
    }
}

/// The replies to what is answered at once, each alone or in a transaction of its own.
async fn at_once(side: &Side, resp: &str, is_transaction: bool) -> Vec<Reply> {
    let mut client = side.connect().await;
    client.ask(resp).await;
    let mut replies = Vec::new();
    for asked in AT_ONCE {
        for request in [
            "flushall",
            "rpush full 1 2 3",
            "zadd zfull 1 a 2 b",
            "set string x",
        ] {
            client.ask(request).await;
        }
        // What a transaction refuses when it is queued here, Redis refuses when it is carried out.
        let is_refused = asked.ends_with(" x") || asked.ends_with("-1") || asked.contains(" x ");
        if !is_transaction || is_refused {
            replies.push(client.ask(asked).await);
            continue;
        }
        client.pipeline(&["multi", asked, "exec"]).await;
        client.next().await;
        client.next().await;
        replies.push(client.next().await.expect("a reply"));
    }
    replies
}

/// Scenario: others end the waiting of clients, in both ways, and try to end that of clients which do not wait.
#[tokio::test]
async fn waiting_can_be_ended_by_others() {
    let mut sides = vec![Side::face()];
    sides.extend(Side::redis().await);
    let mut told = Vec::new();
    for side in &sides {
        let (mut waiting, mut other) = (side.connect().await, side.connect().await);
        let id = waiting.say("client id").await;
        let mut replies = vec![other.ask(&format!("client unblock {id}")).await];
        for how in ["", " timeout", " error"] {
            waiting.pipeline(&["blpop a 0"]).await;
            side.until_blocked(1).await;
            replies.push(other.ask(&format!("client unblock {id}{how}")).await);
            replies.push(waiting.next().await.expect("a reply"));
        }
        for bad in ["client unblock x", "client unblock 1 now", "client unblock"] {
            replies.push(other.ask(bad).await);
        }
        replies.push(waiting.ask("ping").await);
        told.push(replies);
    }
    assert_eq!(told[0][1], Reply::Integer(1));
    assert!(told.iter().all(|replies| *replies == told[0]), "{told:?}");
}

/// Scenario: ten clients wait for one key; as many elements come, one by one and at once.
#[tokio::test]
async fn each_element_serves_one_and_who_came_first_is_served_first() {
    let side = Side::face();
    let mut waiting = Vec::new();
    for number in 1..=10 {
        let mut client = side.connect().await;
        client.pipeline(&["brpop other a 0"]).await;
        side.until_blocked(number).await;
        waiting.push(client);
    }
    let mut pusher = side.connect().await;
    for element in 0..5 {
        pusher.ask(&format!("lpush a {element}")).await;
    }
    pusher.ask("lpush a 5 6 7 8 9").await;
    let mut elements = Vec::new();
    for client in &mut waiting {
        let Some(Reply::Array(reply)) = client.next().await else {
            panic!("an element");
        };
        elements.push(reply[1].text().expect("a text"));
    }
    assert_eq!(pusher.say("llen a").await, "0");
    let first: Vec<String> = elements.drain(..1).collect();
    assert_eq!(first, ["0"]);
    elements.sort();
    assert_eq!(elements, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

/// Scenario: clients that wait go away, one of them while another element is on its way.
#[tokio::test]
async fn nothing_is_taken_for_a_client_that_is_gone() {
    let side = Side::face();
    let [mut gone, mut killed, mut stays] = [
        side.connect().await,
        side.connect().await,
        side.connect().await,
    ];
    gone.pipeline(&["blpop a 0"]).await;
    side.until_blocked(1).await;
    let id = killed.say("client id").await;
    killed.pipeline(&["blpop a 0"]).await;
    side.until_blocked(2).await;
    stays.pipeline(&["blpop a 0", "ping"]).await;
    side.until_blocked(3).await;
    drop(gone);
    side.until_blocked(2).await;
    let mut other = side.connect().await;
    assert_eq!(other.say(&format!("client kill id {id}")).await, "1");
    side.until_blocked(1).await;
    other.ask("rpush a 1").await;
    let element = Reply::Array(vec![bulk("a"), bulk("1")]);
    assert_eq!(stays.next().await, Some(element));
    assert_eq!(stays.next().await, Some(Reply::Simple("PONG".to_owned())));
    assert_eq!(killed.next().await, None);
}

/// Scenario: a client that waits sends more, which waits with it, and messages of channels still come.
#[tokio::test]
async fn what_is_sent_meanwhile_waits_and_messages_do_not() {
    let side = Side::face();
    let mut waiting = side.connect().await;
    waiting.ask("hello 3").await;
    waiting.ask("subscribe news").await;
    waiting.pipeline(&["set b 1", "blpop a 0", "get b"]).await;
    assert_eq!(waiting.next().await, Some(Reply::Simple("OK".to_owned())));
    side.until_blocked(1).await;
    let mut other = side.connect().await;
    other.ask("publish news x").await;
    let message = Reply::Push(vec![bulk("message"), bulk("news"), bulk("x")]);
    assert_eq!(waiting.next().await, Some(message));
    other.ask("lpush a 7").await;
    let element = Reply::Array(vec![bulk("a"), bulk("7")]);
    assert_eq!(waiting.next().await, Some(element));
    assert_eq!(waiting.next().await, Some(bulk("1")));
}

/// Scenario: many clients wait for two lists, of which the second tells them to end.
#[tokio::test]
async fn elements_are_handed_out_once() {
    const ELEMENTS: usize = 500;
    let served = start();
    let mut workers = Vec::new();
    for _ in 0..8 {
        let mut client = served.connect().await;
        workers.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                let Reply::Array(reply) = client.ask("brpop a b 0").await else {
                    panic!("an element");
                };
                match reply[1].text().expect("a text") {
                    end if end == "end" => break taken,
                    element => taken.push(element.parse::<usize>().expect("a number")),
                }
            }
        }));
    }
    let mut pusher = served.connect().await;
    for element in 0..ELEMENTS {
        pusher.ask(&format!("lpush a {element}")).await;
    }
    for _ in 0..8 {
        pusher.ask("lpush b end").await;
    }
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.expect("it does not panic"));
    }
    all.sort_unstable();
    assert_eq!(all, (0..ELEMENTS).collect::<Vec<_>>());
}
