//! What clients are told of writes whose outcome is unknown, by real processes: nothing that makes a client
//! library repeat a write by itself. docs/reference/statuses.md has the same rows.

use crate::support;
use crate::support::raw::{Ended, UNAVAILABLE, call};
use crate::support::{Client, Home, Up, eventually, signal};
use quorate_etcd_api::etcdserverpb::request_op::Request as Operation;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, TxnRequest,
};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// What a client says of its own patience, and how long the replicas wait for a quorum.
const TIMEOUT: (&str, &str) = ("grpc-timeout", "200m");
const REQUEST_TIMEOUT: Duration = Duration::from_millis(1000);
/// Sends a call past the short way for the most frequent ones.
const ROUTED: (&str, &str) = ("grpc-encoding", "identity");

fn put(key: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        ..PutRequest::default()
    }
}

/// A cluster of three, of which replica 1 alone goes on.
struct Frozen {
    up: Up,
}

impl Frozen {
    async fn start(home: &Home, protocol: &str, flags: &[&str]) -> Frozen {
        let timeout = format!(
            "--server-arg=--request-timeout-ms={}",
            REQUEST_TIMEOUT.as_millis()
        );
        let fixed = ["--protocol", protocol, &timeout];
        let up = home.start(&[&fixed, flags].concat());
        let mut client = Client::connect(&up.urls[0]).await;
        client.put("first", "1").await.unwrap();
        for replica in [2, 3] {
            signal(up.pids[&replica], Signal::STOP);
        }
        Frozen { up }
    }

    fn thaw(&self) {
        for replica in [2, 3] {
            signal(self.up.pids[&replica], Signal::CONT);
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.thaw();
    }
}

/// The call must end with this, when the replica has waited for as long as it does and no sooner.
fn expect_timed_out(call: &str, (ended, took): (Ended, Duration)) {
    assert!(!ended.is_repeated_by_go(), "{call}: {ended} after {took:?}");
    let texts = ["etcdserver: request timed out", "etcdserver: no leader"];
    let expected = texts.map(|text| Ended::Status(UNAVAILABLE, text.to_owned()));
    assert!(expected.contains(&ended), "{call}: {ended} after {took:?}");
    assert!(took >= REQUEST_TIMEOUT, "{call}: {ended} after {took:?}");
}

async fn timed(call: impl Future<Output = Ended>) -> (Ended, Duration) {
    let began = Instant::now();
    (call.await, began.elapsed())
}

/// Scenario: of three replicas two are frozen. A client whose patience is over long before that of the replica
/// learns nothing by then: its library would take it for a call that did not reach the replica, and repeat it. When the
/// two go on, nothing was executed twice.
async fn a_frozen_majority(protocol: &str) {
    let home = Home::new();
    let frozen = Frozen::start(&home, protocol, &[]).await;
    let url = &frozen.up.urls[0];
    let (plain, routed) = ([TIMEOUT], [TIMEOUT, ROUTED]);
    let txn = TxnRequest {
        success: vec![Operation::RequestPut(put("txn")).into()],
        ..TxnRequest::default()
    };
    let delete = DeleteRangeRequest {
        key: "first".into(),
        ..DeleteRangeRequest::default()
    };
    let range = RangeRequest {
        key: "first".into(),
        ..RangeRequest::default()
    };
    let (grant, compact) = (
        LeaseGrantRequest { id: 7, ttl: 600 },
        CompactionRequest::default(),
    );
    let puts = ["a", "b", "c"].map(put);
    let ended = tokio::join!(
        timed(call(url, "KV/Put", &puts[0], &plain)),
        timed(call(url, "KV/Put", &puts[1], &routed)),
        timed(call(url, "KV/Txn", &txn, &plain)),
        timed(call(url, "KV/DeleteRange", &delete, &plain)),
        timed(call(url, "KV/Compact", &compact, &plain)),
        timed(call(url, "KV/Range", &range, &plain)),
        timed(call(url, "Lease/LeaseGrant", &grant, &plain)),
        timed(call(url, "KV/Put", &puts[2], &[])),
    );
    expect_timed_out("put", ended.0);
    expect_timed_out("routed put", ended.1);
    expect_timed_out("txn", ended.2);
    expect_timed_out("delete", ended.3);
    expect_timed_out("compact", ended.4);
    expect_timed_out("range", ended.5);
    expect_timed_out("grant", ended.6);
    expect_timed_out("put without a timeout", ended.7);
    frozen.thaw();
    let client = Client::connect(url).await;
    eventually("the cluster takes writes again", || {
        let mut client = client.clone();
        async move { client.put("last", "1").await.ok() }
    })
    .await;
    for key in ["a", "b", "c", "txn"] {
        let version = client.clone().version_of(key).await.unwrap();
        assert!(version <= 1, "{key} was executed {version} times");
    }
}

#[tokio::test]
async fn a_frozen_majority_under_rabia() {
    a_frozen_majority("rabia").await;
}

#[tokio::test]
async fn a_frozen_majority_under_multi_paxos() {
    a_frozen_majority("multi-paxos").await;
}

#[tokio::test]
async fn a_frozen_majority_under_chora() {
    a_frozen_majority("chora").await;
}

#[tokio::test]
async fn a_frozen_majority_under_nezha() {
    a_frozen_majority("nezha").await;
}

/// Scenario: the same through a gateway, which orders puts itself and passes grants on, maybe to a member that is frozen.
#[tokio::test]
async fn a_frozen_majority_behind_a_gateway() {
    let home = Home::new();
    let frozen = Frozen::start(&home, "nezha", &["--gateways", "1"]).await;
    let gateway = frozen.up.gateways[0].clone();
    let grant = LeaseGrantRequest { id: 7, ttl: 600 };
    let put = put("a");
    let (put, granted) = tokio::join!(
        timed(call(&gateway, "KV/Put", &put, &[TIMEOUT])),
        timed(call(&gateway, "Lease/LeaseGrant", &grant, &[TIMEOUT])),
    );
    for (what, (ended, took)) in [("put", put), ("grant", granted)] {
        assert!(
            matches!(ended, Ended::Status(UNAVAILABLE, _)),
            "{what}: {ended} after {took:?}"
        );
        assert!(took >= REQUEST_TIMEOUT, "{what}: {ended} after {took:?}");
    }
}

/// Scenario: a replica is stopped, or killed, while a put waits in it. Its connection ends, and with it the call: no
/// stream is reset as if nothing had been done.
#[tokio::test]
async fn a_replica_that_ends_resets_no_call() {
    for end in [Signal::TERM, Signal::KILL] {
        let home = Home::new();
        let flags = ["--server-arg=--request-timeout-ms=60000"];
        let frozen = Frozen::start(&home, "rabia", &flags).await;
        let url = frozen.up.urls[0].clone();
        let waiting = tokio::spawn(async move { call(&url, "KV/Put", &put("a"), &[]).await });
        let url = &frozen.up.urls[0];
        eventually("the put waits", async || {
            (support::metric(url, "etcd_server_proposals_pending").await > 0.0).then_some(())
        })
        .await;
        signal(frozen.up.pids[&1], end);
        let ended = waiting.await.unwrap();
        let stopped = Ended::Status(UNAVAILABLE, "etcdserver: server stopped".to_owned());
        assert!(
            [Ended::Closed, stopped].contains(&ended),
            "{end:?}: {ended}"
        );
    }
}
