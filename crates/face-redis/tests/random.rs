//! Random requests of all kinds: each has exactly one reply, and none harms another connection.

mod support;

use quorate_redis_store::commands;
use quorate_resp::{Reply, encode_request};
use support::start;

/// Commands of the face with one reply for each request. `CLIENT` and channels have tests of their own, and
/// `INFO` asks a replica.
const OWN: [&str; 16] = [
    "acl",
    "cluster",
    "command",
    "config",
    "exec",
    "hello",
    "latency",
    "lolwut",
    "multi",
    "pubsub",
    "readonly",
    "readwrite",
    "role",
    "slowlog",
    "unwatch",
    "watch",
];

const WORDS: [&str; 24] = [
    "a",
    "b",
    "c",
    "",
    "0",
    "1",
    "-1",
    "5",
    "9223372036854775807",
    "1.5",
    "nan",
    "*",
    "(1",
    "[a",
    "GET",
    "LIMIT",
    "COUNT",
    "STORE",
    "BY",
    "list",
    "docs",
    "withscores",
    "xx",
    "3",
];

/// Scenario: a client sends thousands of requests with arguments that may make sense, many at once.
#[tokio::test]
async fn each_request_has_one_reply_whatever_it_is() {
    let served = start();
    let mut rng = fastrand::Rng::with_seed(7);
    let names: Vec<&str> = commands()
        .iter()
        .map(|command| command.name)
        .chain(OWN)
        .collect();
    let mut client = served.connect().await;
    for round in 0..1500 {
        let (mut text, mut sent) = (Vec::new(), Vec::new());
        for _ in 0..rng.usize(1..12) {
            let mut request = vec![names[rng.usize(..names.len())]];
            let count = rng.usize(..7);
            request.extend((0..count).map(|_| WORDS[rng.usize(..WORDS.len())]));
            encode_request(&request, &mut text);
            sent.push(request.join(" "));
        }
        // Whatever transaction is open ends, so that the mark is answered at once.
        encode_request(&["discard"], &mut text);
        let mark = format!("mark-{round}");
        encode_request(&["echo", &mark], &mut text);
        client.send(&text).await;
        let mut replies = 0;
        loop {
            let reply = client
                .next()
                .await
                .unwrap_or_else(|| panic!("closed after {sent:?}"));
            if reply.text().as_deref() == Some(&mark[..]) && replies > sent.len() {
                break;
            }
            replies += 1;
            assert!(
                replies <= sent.len() + 1,
                "more replies than requests: {sent:?}"
            );
        }
        assert_eq!(replies, sent.len() + 1, "{sent:?}");
    }
    assert_eq!(
        served.connect().await.ask("ping").await,
        Reply::Simple("PONG".to_owned())
    );
}
