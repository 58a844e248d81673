//! Locks and elections over the network.

use crate::backend;
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{LeaseGrantRequest, LeaseRevokeRequest, RangeRequest};
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_etcd_api::v3electionpb::{
    CampaignRequest, LeaderKey, LeaderRequest, ProclaimRequest, ResignRequest,
};
use quorate_etcd_api::v3lockpb::{LockRequest, LockResponse, UnlockRequest};
use quorate_face_etcd::Limits;
use quorate_face_etcd::client::{ElectionClient, KvClient, LeaseClient, LockClient};
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Code, Status};

async fn start() -> Channel {
    backend::serve_face(backend::start(), Limits::default()).await
}

async fn grant(channel: &Channel, id: i64, ttl: i64) -> i64 {
    let request = LeaseGrantRequest { id, ttl };
    let granted = LeaseClient::new(channel.clone()).lease_grant(request).await;
    granted.expect("a lease").into_inner().id
}

async fn revoke(channel: &Channel, id: i64) {
    let request = LeaseRevokeRequest { id };
    let revoked = LeaseClient::new(channel.clone())
        .lease_revoke(request)
        .await;
    revoked.expect("it was there");
}

/// All keys, in order.
async fn keys(channel: &Channel) -> Vec<KeyValue> {
    let all = Bytes::from_static(b"\0");
    let request = RangeRequest {
        key: all.clone(),
        range_end: all,
        ..RangeRequest::default()
    };
    let found = KvClient::new(channel.clone()).range(request).await;
    found.expect("a range").into_inner().kvs
}

/// Waits until there are so many keys.
async fn until_keys(channel: &Channel, count: usize) {
    while keys(channel).await.len() != count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn lock(channel: Channel, lease: i64) -> Result<LockResponse, Status> {
    let name = Bytes::from_static(b"lock");
    let request = LockRequest { name, lease };
    let locked = LockClient::new(channel).lock(request).await?;
    Ok(locked.into_inner())
}

async fn unlock(channel: &Channel, key: Bytes) -> Result<i64, Status> {
    let request = UnlockRequest { key };
    let unlocked = LockClient::new(channel.clone()).unlock(request).await?;
    let header = unlocked.into_inner().header.expect("a header");
    Ok(header.revision)
}

/// Locks with leases 1, 2 and 3, the second and third of which wait, in that order.
async fn three_lock(channel: &Channel) -> Vec<JoinHandle<Result<LockResponse, Status>>> {
    let mut locks = Vec::new();
    for lease in 1..=3 {
        grant(channel, lease, 100).await;
        locks.push(tokio::spawn(lock(channel.clone(), lease)));
        until_keys(channel, locks.len()).await;
    }
    locks
}

#[tokio::test]
async fn a_lock_is_held_by_one_at_a_time_in_the_order_of_asking() {
    let channel = start().await;
    let mut locks = three_lock(&channel).await.into_iter();
    for (lease, revision) in [(1, 2), (2, 5), (3, 6)] {
        let waiting = locks.next().expect("three of them");
        let locked = waiting.await.expect("no panic").expect("its turn");
        assert_eq!(locked.key, format!("lock/{lease}"));
        let header = locked.header.expect("a header");
        assert_eq!(header.revision, revision, "lease {lease}");
        assert!(locks.as_slice().iter().all(|other| !other.is_finished()));
        unlock(&channel, locked.key).await.expect("it is held");
    }
    assert!(keys(&channel).await.is_empty());
}

#[tokio::test]
async fn whoever_holds_a_lock_gets_it_again() {
    let channel = start().await;
    grant(&channel, 1, 100).await;
    let first = lock(channel.clone(), 1).await.expect("it is free");
    let again = lock(channel.clone(), 1).await.expect("it is its own");
    assert_eq!(first.key, again.key);
}

#[tokio::test]
async fn the_server_grants_a_lease_of_a_minute_to_those_who_name_none() {
    let channel = start().await;
    let locked = lock(channel.clone(), 0).await.expect("it is free");
    let [kv] = &keys(&channel).await[..] else {
        panic!("one key");
    };
    assert_eq!(locked.key, format!("lock/{:x}", kv.lease));
    let request = quorate_etcd_api::etcdserverpb::LeaseTimeToLiveRequest {
        id: kv.lease,
        keys: false,
    };
    let mut leases = LeaseClient::new(channel.clone());
    let lease = leases.lease_time_to_live(request).await.expect("a lease");
    assert_eq!(lease.into_inner().granted_ttl, 60);
}

#[tokio::test]
async fn who_stops_waiting_leaves_no_key_and_holds_up_nobody() {
    let channel = start().await;
    let locks = three_lock(&channel).await;
    locks[1].abort();
    until_keys(&channel, 2).await;
    unlock(&channel, "lock/1".into()).await.expect("it is held");
    let [_, _, third] = <[_; 3]>::try_from(locks).expect("three of them");
    let locked = third.await.expect("no panic").expect("its turn");
    assert_eq!(locked.key, "lock/3");
}

#[tokio::test]
async fn who_loses_its_lease_while_it_waits_is_told_in_its_turn() {
    let channel = start().await;
    let locks = three_lock(&channel).await;
    revoke(&channel, 2).await;
    revoke(&channel, 1).await;
    let [_, second, third] = <[_; 3]>::try_from(locks).expect("three of them");
    let lost = second.await.expect("no panic").expect_err("it expired");
    assert_eq!(
        (lost.code(), lost.message()),
        (Code::Unknown, "mutex: session is expired")
    );
    third.await.expect("no panic").expect("its turn");
}

#[tokio::test]
async fn nonsense_gets_the_errors_of_leases_and_keys() {
    let channel = start().await;
    let gone = lock(channel.clone(), 77).await.expect_err("no such lease");
    assert_eq!(
        gone.message(),
        "etcdserver: requested lease not found",
        "{gone}"
    );
    let empty = unlock(&channel, Bytes::new()).await.expect_err("no key");
    assert_eq!(empty.message(), "etcdserver: key is not provided");
    // A key that holds nothing is no error.
    assert_eq!(
        unlock(&channel, "lock/1".into()).await.expect("a delete"),
        1
    );
}

fn name() -> Bytes {
    Bytes::from_static(b"election")
}

async fn campaign(channel: Channel, lease: i64, value: &'static str) -> Result<LeaderKey, Status> {
    let request = CampaignRequest {
        name: name(),
        lease,
        value: value.into(),
    };
    let won = ElectionClient::new(channel).campaign(request).await?;
    Ok(won.into_inner().leader.expect("a leader"))
}

async fn proclaim(channel: &Channel, leader: &LeaderKey, value: &'static str) -> Option<Status> {
    let request = ProclaimRequest {
        leader: Some(leader.clone()),
        value: value.into(),
    };
    let mut client = ElectionClient::new(channel.clone());
    client.proclaim(request).await.err()
}

async fn resign(channel: &Channel, leader: &LeaderKey) {
    let request = ResignRequest {
        leader: Some(leader.clone()),
    };
    let resigned = ElectionClient::new(channel.clone()).resign(request).await;
    resigned.expect("it led, or did not");
}

/// Who leads, by lease and value.
async fn leader(channel: &Channel) -> Result<(i64, Bytes), Status> {
    let request = LeaderRequest { name: name() };
    let mut client = ElectionClient::new(channel.clone());
    let kv = client.leader(request).await?.into_inner().kv;
    let kv = kv.expect("a leader");
    Ok((kv.lease, kv.value))
}

#[tokio::test]
async fn a_leader_is_elected_proclaims_and_resigns() {
    let channel = start().await;
    let none = leader(&channel).await.expect_err("nobody stands");
    assert_eq!(
        (none.code(), none.message()),
        (Code::Unknown, "election: no leader")
    );
    for lease in [1, 2] {
        grant(&channel, lease, 100).await;
    }
    let first = campaign(channel.clone(), 1, "a").await.expect("elected");
    let expected = LeaderKey {
        name: name(),
        key: "election/1".into(),
        rev: 2,
        lease: 1,
    };
    assert_eq!(first, expected);
    let next = tokio::spawn(campaign(channel.clone(), 2, "b"));
    until_keys(&channel, 2).await;
    assert_eq!(leader(&channel).await.expect("one leads"), (1, "a".into()));
    assert!(proclaim(&channel, &first, "c").await.is_none());
    assert_eq!(leader(&channel).await.expect("one leads"), (1, "c".into()));
    // One that campaigns again announces another value.
    let again = campaign(channel.clone(), 1, "d").await.expect("elected");
    assert_eq!(again, expected);
    assert_eq!(leader(&channel).await.expect("one leads"), (1, "d".into()));
    resign(&channel, &first).await;
    let second = next.await.expect("no panic").expect("its turn");
    assert_eq!((second.lease, second.rev), (2, 3));
    resign(&channel, &first).await;
    let over = proclaim(&channel, &first, "e").await.expect("it is over");
    assert_eq!(
        (over.code(), over.message()),
        (Code::Unknown, "election: not leader")
    );
    assert_eq!(leader(&channel).await.expect("one leads"), (2, "b".into()));
}

#[tokio::test]
async fn who_stops_campaigning_leaves_no_key() {
    let channel = start().await;
    for lease in [1, 2] {
        grant(&channel, lease, 100).await;
    }
    let first = campaign(channel.clone(), 1, "a").await.expect("elected");
    let next = tokio::spawn(campaign(channel.clone(), 2, "b"));
    until_keys(&channel, 2).await;
    next.abort();
    until_keys(&channel, 1).await;
    assert_eq!(keys(&channel).await[0].key, first.key);
}

#[tokio::test]
async fn an_observer_is_told_of_every_leader_and_what_it_announces() {
    let channel = start().await;
    let mut client = ElectionClient::new(channel.clone());
    let request = LeaderRequest { name: name() };
    let observed = client.observe(request).await.expect("a stream");
    let mut observed = observed.into_inner();
    let mut next = async || {
        let leader = observed.message().await.expect("no error");
        let leader = leader.expect("more of them");
        let revision = leader.header.expect("a header").revision;
        let kv = leader.kv.expect("a leader");
        (kv.lease, kv.value, revision)
    };
    for lease in [1, 2] {
        grant(&channel, lease, 100).await;
    }
    let first = campaign(channel.clone(), 1, "a").await.expect("elected");
    assert_eq!(next().await, (1, "a".into(), 2));
    assert!(proclaim(&channel, &first, "b").await.is_none());
    assert_eq!(next().await, (1, "b".into(), 3));
    let second = tokio::spawn(campaign(channel.clone(), 2, "c"));
    until_keys(&channel, 2).await;
    revoke(&channel, 1).await;
    second.await.expect("no panic").expect("its turn");
    assert_eq!(next().await, (2, "c".into(), 5));
}

#[tokio::test]
async fn a_request_without_a_leader_gets_etcds_error() {
    let mut client = ElectionClient::new(start().await);
    let expected = (Code::Unknown, "\"leader\" field must be provided");
    let proclaimed = client.proclaim(ProclaimRequest::default()).await;
    let why = proclaimed.expect_err("no leader is given");
    assert_eq!((why.code(), why.message()), expected);
    let resigned = client.resign(ResignRequest::default()).await;
    let why = resigned.expect_err("no leader is given");
    assert_eq!((why.code(), why.message()), expected);
}
