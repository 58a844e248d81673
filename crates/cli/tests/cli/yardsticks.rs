//! Protocols that are there to be compared with keep nobody's data unasked.

use crate::support::{Client, Home, expect_failure, output, quorate};

/// What a command says that would begin a yardstick.
const REASON: &str = "is a yardstick: it is there to be compared with";

/// Scenario: whatever chooses a protocol refuses a yardstick with the reason, and nothing changes; with the flag that
/// the reason names, a cluster goes on with it and comes back from it, and keeps what it had.
#[tokio::test]
async fn a_yardstick_is_refused_unless_it_is_asked_for_as_one() {
    let home = Home::new();
    let dir = home.dir.display().to_string();
    for name in quorate_protocols::yardsticks() {
        let begin = ["--data-dir", &dir, "--protocol", name];
        expect_failure(quorate().arg("up").args(begin), 2, REASON);
        let serve = ["serve", "--initial-cluster-state", "new"];
        expect_failure(quorate().args(serve).args(begin), 2, REASON);
    }

    let up = home.start(&[]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("before", "1").await.unwrap();
    for name in quorate_protocols::yardsticks() {
        let switch = |to, more: &[&str]| {
            let mut command = quorate();
            command.args(["cluster", "switch", to, "--endpoints", &up.urls[1]]);
            command.args(more);
            command
        };
        expect_failure(&mut switch(name, &[]), 1, REASON);
        let done = output(&mut switch(name, &["--allow-measurement-protocol"]));
        assert!(done.status.success(), "{name}: {done:?}");
        client.put(name, "2").await.unwrap();
        assert_eq!(client.get("before").await.unwrap().as_deref(), Some("1"));
        let done = output(&mut switch("rabia", &[]));
        assert!(done.status.success(), "{name}: {done:?}");
        assert_eq!(client.get(name).await.unwrap().as_deref(), Some("2"));
    }
}

/// Scenario: a new cluster of a yardstick serves, and goes on with its data when it is started again without the flag.
#[tokio::test]
async fn a_cluster_of_a_yardstick_begins_where_that_is_asked_for() {
    for name in quorate_protocols::yardsticks() {
        let home = Home::new();
        let up = home.start(&["--protocol", name, "--allow-measurement-protocol"]);
        let mut client = Client::connect(&up.urls[2]).await;
        client.put("key", name).await.unwrap();
        assert!(up.stop().success());
        let up = home.start(&[]);
        let mut client = Client::connect(&up.urls[0]).await;
        assert_eq!(client.get("key").await.unwrap().as_deref(), Some(name));
        assert!(up.stop().success());
    }
}
