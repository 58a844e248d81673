//! Leases over the network.

use crate::backend;
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, PutRequest, RangeRequest,
};
use quorate_face_etcd::Limits;
use quorate_face_etcd::client::{KvClient, LeaseClient};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request};

async fn start() -> Channel {
    backend::serve_face(backend::start(), Limits::default()).await
}

async fn put(
    kv: &mut KvClient<Channel>,
    key: &'static str,
    lease: i64,
) -> Result<i64, tonic::Status> {
    let key = Bytes::from_static(key.as_bytes());
    let request = PutRequest {
        key,
        lease,
        ..PutRequest::default()
    };
    let response = kv.put(request).await?.into_inner();
    Ok(response.header.map_or(0, |header| header.revision))
}

/// Keys there are, and the revision.
async fn count(kv: &mut KvClient<Channel>) -> (i64, i64) {
    let all = Bytes::from_static(b"\0");
    let request = RangeRequest {
        key: all.clone(),
        range_end: all,
        ..RangeRequest::default()
    };
    let response = kv.range(request).await.expect("range").into_inner();
    (
        response.count,
        response.header.map_or(0, |header| header.revision),
    )
}

#[tokio::test]
async fn a_lease_is_granted_used_described_and_revoked() {
    let channel = start().await;
    let mut lease = LeaseClient::new(channel.clone());
    let mut kv = KvClient::new(channel);
    let grant = |id, ttl| LeaseGrantRequest { id, ttl };
    let granted = lease
        .lease_grant(grant(7, 100))
        .await
        .expect("grant")
        .into_inner();
    assert_eq!((granted.id, granted.ttl), (7, 100));
    assert_eq!(granted.header.map(|header| header.revision), Some(1));
    let chosen = lease
        .lease_grant(grant(0, 100))
        .await
        .expect("grant")
        .into_inner()
        .id;
    for (key, revision) in [("b", 2), ("a", 3)] {
        assert_eq!(put(&mut kv, key, 7).await.expect("put"), revision);
    }
    let about = |id| LeaseTimeToLiveRequest { id, keys: true };
    let found = lease
        .lease_time_to_live(about(7))
        .await
        .expect("it is there")
        .into_inner();
    assert_eq!(
        (found.granted_ttl, &found.keys[..]),
        (100, &[Bytes::from("a"), Bytes::from("b")][..])
    );
    assert!((90..=100).contains(&found.ttl), "{found:?}");
    let gone = lease
        .lease_time_to_live(about(99))
        .await
        .expect("no error")
        .into_inner();
    assert_eq!((gone.id, gone.ttl, gone.granted_ttl), (99, -1, 0));
    let all = lease
        .lease_leases(LeaseLeasesRequest {})
        .await
        .expect("leases")
        .into_inner();
    let ids: Vec<i64> = all.leases.iter().map(|lease| lease.id).collect();
    assert_eq!(ids, [7, chosen]);

    let revoke = LeaseRevokeRequest { id: 7 };
    lease.lease_revoke(revoke).await.expect("revoke");
    assert_eq!(
        count(&mut kv).await,
        (0, 4),
        "all its keys go in one revision"
    );
    let missing = "etcdserver: requested lease not found";
    for (status, code, text) in [
        (
            lease.lease_revoke(revoke).await.expect_err("gone"),
            Code::NotFound,
            missing,
        ),
        (
            put(&mut kv, "c", 7).await.expect_err("gone"),
            Code::NotFound,
            missing,
        ),
        (
            lease
                .lease_grant(grant(chosen, 9))
                .await
                .expect_err("taken"),
            Code::FailedPrecondition,
            "etcdserver: lease already exists",
        ),
        (
            lease
                .lease_grant(grant(1, i64::MAX))
                .await
                .expect_err("too long"),
            Code::OutOfRange,
            "etcdserver: too large lease TTL",
        ),
    ] {
        assert_eq!((status.code(), status.message()), (code, text));
    }
}

#[tokio::test]
async fn a_lease_lives_while_it_is_renewed_and_then_ends() {
    let channel = start().await;
    let mut lease = LeaseClient::new(channel.clone());
    let mut kv = KvClient::new(channel);
    for id in [1, 2] {
        let grant = LeaseGrantRequest { id, ttl: 1 }; // two seconds are the least
        lease.lease_grant(grant).await.expect("grant");
    }
    put(&mut kv, "renewed", 1).await.expect("put");
    put(&mut kv, "left", 2).await.expect("put");
    let (ask, asked) = mpsc::channel(4);
    let stream = lease.lease_keep_alive(Request::new(ReceiverStream::new(asked)));
    let mut answers = stream.await.expect("a stream").into_inner();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(1000)).await;
        ask.send(LeaseKeepAliveRequest { id: 1 })
            .await
            .expect("it is open");
        let answer = answers
            .message()
            .await
            .expect("no error")
            .expect("an answer");
        assert_eq!((answer.id, answer.ttl), (1, 2));
    }
    assert_eq!(count(&mut kv).await, (1, 4), "the other one has ended");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(count(&mut kv).await, (0, 5));
    ask.send(LeaseKeepAliveRequest { id: 1 })
        .await
        .expect("it is open");
    let answer = answers
        .message()
        .await
        .expect("no error")
        .expect("an answer");
    assert_eq!((answer.id, answer.ttl), (1, 0), "it is gone");
}
