//! Calls with `hasleader` while a replica loses its quorum, and while it does not. Decision 0030 says when it does.

use crate::support::loss::{Loss, protocols};
use crate::support::watching::{KeepAlive, Watch, call, keep_telling};
use crate::support::{Client, Home, Up, channel, eventually, output, quorate, signal};
use quorate_etcd_api::etcdserverpb::PutRequest;
use quorate_face_etcd::client::KvClient;
use rustix::process::Signal;
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// What clients are promised.
const ENDED_WITHIN: Duration = Duration::from_secs(5);
/// Longer than that: who has not ended by then does not end.
const LONG_ENOUGH: Duration = Duration::from_millis(5_500);

fn freeze(up: &Up, ids: &[u16]) {
    ids.iter().for_each(|id| signal(up.pids[id], Signal::STOP));
}

fn thaw(up: &Up, ids: &[u16]) {
    ids.iter().for_each(|id| signal(up.pids[id], Signal::CONT));
}

fn expect_no_leader(what: &str, status: Option<&Status>) {
    let said = status.map(|status| (status.code(), status.message()));
    let expected = Some((Code::Unavailable, "etcdserver: no leader"));
    assert_eq!(said, expected, "{what}");
}

async fn put(url: &str, hasleader: bool) -> Result<(), Status> {
    let put = PutRequest {
        key: b"put".to_vec().into(),
        ..PutRequest::default()
    };
    let mut client = KvClient::new(channel(url).await);
    client.put(call(put, hasleader)).await.map(|_| ())
}

/// Scenario: two of three go; streams and calls with `hasleader` through the third end, others do not. Then they come
/// back.
async fn ends_what_requires_a_leader(protocol: &str, flags: &[&str], loss: Loss) {
    let home = Home::new();
    let mut up = home.start(&[&["--protocol", protocol], flags].concat());
    let url = up.urls[0].clone();
    let mut required = Watch::open(&url, true).await;
    let mut plain = Watch::open(&url, false).await;
    put(&url, true).await.unwrap();
    let mut kept = KeepAlive::open(&url, true).await;
    let began = Instant::now();
    loss.strike(&up);
    let ended = tokio::time::timeout(ENDED_WITHIN, async {
        let ended = tokio::join!(required.ended(), kept.ended());
        println!("{protocol}, {loss:?}: ended after {:?}", began.elapsed());
        ended
    });
    let (watch, lease) = ended.await.expect("streams end in time");
    expect_no_leader("watch", watch.as_ref());
    expect_no_leader("keep-alive", lease.as_ref());
    let refused = Instant::now();
    expect_no_leader("put", put(&url, true).await.as_ref().err());
    expect_no_leader(
        "new watch",
        Watch::try_open(&url, true).await.err().as_ref(),
    );
    assert!(refused.elapsed() < Duration::from_secs(2));

    loss.wait(&mut up);
    let _started = loss.undo(&home, &up);
    eventually("it serves who requires a leader", || async {
        put(&url, true).await.ok()
    })
    .await;
    plain.tells_of("put").await;
    let mut again = Watch::open(&url, true).await;
    keep_telling(
        &[&url],
        std::slice::from_mut(&mut again),
        "back",
        Duration::ZERO,
    )
    .await;
}

protocols! {
    ends_what_requires_a_leader;
    rabia: "rabia";
    multi_paxos: "multi-paxos";
    raft: "raft";
    rs_paxos: "rs-paxos", "--code", "3,1";
    chora: "chora";
    nezha: "nezha";
    racos: "racos";
}

#[tokio::test]
async fn one_killed_of_three_ends_no_watch() {
    // Without a leader, with one, and with a leader that decides what is fast.
    for protocol in ["rabia", "multi-paxos", "raft", "nezha"] {
        survives_one(protocol).await;
    }
}

/// Scenario: one of three is killed, the leader if there is one. Watches through the other two go on.
async fn survives_one(protocol: &str) {
    let home = Home::new();
    let up = home.start(&["--protocol", protocol]);
    let urls: Vec<&str> = up.urls.iter().map(String::as_str).collect();
    // A protocol with a leader makes one of who is asked first.
    eventually("it serves", || async { put(urls[0], true).await.ok() }).await;
    let mut watches = Vec::new();
    for url in &urls[1..] {
        watches.push(Watch::open(url, true).await);
    }
    signal(up.pids[&1], Signal::KILL);
    keep_telling(&urls[1..], &mut watches, "survived", LONG_ENOUGH).await;
}

/// Scenario: the cluster goes to another protocol; then the two other replicas are frozen for two seconds, as by slow
/// disks. A watch goes on.
#[tokio::test]
async fn switches_and_short_stalls_end_no_watch() {
    let home = Home::new();
    let up = home.start(&[]);
    let url = up.urls[0].as_str();
    let mut watches = [Watch::open(url, true).await];
    for to in ["multi-paxos", "rabia"] {
        let switched = output(quorate().args(["cluster", "switch", "--endpoints", url, to]));
        assert!(switched.status.success(), "{switched:?}");
        keep_telling(&[url], &mut watches, to, Duration::from_secs(1)).await;
    }
    freeze(&up, &[2, 3]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    thaw(&up, &[2, 3]);
    keep_telling(&[url], &mut watches, "stalled", LONG_ENOUGH).await;
}

/// Scenario: the replica that a client watches through is frozen itself for longer than its peers may be silent.
#[tokio::test]
async fn a_replica_that_was_frozen_itself_ends_no_watch() {
    let home = Home::new();
    let up = home.start(&[]);
    let url = up.urls[0].as_str();
    let mut watches = [Watch::open(url, true).await];
    freeze(&up, &[1]);
    tokio::time::sleep(ENDED_WITHIN).await;
    thaw(&up, &[1]);
    keep_telling(&[url], &mut watches, "frozen", LONG_ENOUGH).await;
}

/// Scenario: a gateway passes a watch on to a member, and that loses its quorum.
#[tokio::test]
async fn what_requires_a_leader_ends_through_a_gateway_too() {
    let home = Home::new();
    let mut up = home.start(&["--protocol", "nezha", "--gateways", "1"]);
    if up.gateways.is_empty() {
        up.wait_for("gateway endpoints: ");
    }
    let url = up.gateways[0].clone();
    let mut client = Client::connect(&url).await;
    eventually("the gateway serves", || {
        let mut client = client.clone();
        async move { client.put("first", "1").await.ok() }
    })
    .await;
    client.get("first").await.unwrap();
    let mut watch = Watch::open(&url, true).await;
    freeze(&up, &[2, 3]);
    let ended = tokio::time::timeout(ENDED_WITHIN, watch.ended()).await;
    // Its member may be one of those that are frozen: then the gateway itself says that it is gone.
    let ended = ended.expect("the watch ends in time").unwrap();
    assert_eq!(ended.code(), Code::Unavailable, "{ended}");
    let refused = put(&url, true).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    thaw(&up, &[2, 3]);
}
