//! The leader that members name to clients: all of them the same one, under a term that grows.

use crate::support::{Client, Home, Up, channel, eventually, metric, signal};
use quorate_etcd_api::etcdserverpb::{MoveLeaderRequest, StatusRequest};
use quorate_face_etcd::client::MaintenanceClient;
use rustix::process::Signal;
use std::collections::BTreeSet;
use tonic::{Code, Status};

/// The leader that a member names, and its term.
async fn named(url: &str) -> Option<(u64, u64)> {
    Client::try_connect(url).await?;
    let mut maintenance = MaintenanceClient::new(channel(url).await);
    let status = maintenance.status(StatusRequest {}).await.ok()?;
    let status = status.into_inner();
    Some((status.leader, status.raft_term))
}

/// Waits until all of these members name the same leader, which is one of `expected`, under a term beyond `after`.
async fn agreed(urls: &[String], expected: &[u64], after: u64) -> (u64, u64) {
    eventually("all name the same leader", || async {
        let mut all = BTreeSet::new();
        for url in urls {
            all.insert(named(url).await?);
        }
        let first = all.pop_first()?;
        let is_meant = expected.contains(&first.0) && first.1 > after;
        (all.is_empty() && is_meant).then_some(first)
    })
    .await
}

async fn move_leader(url: &str, target_id: u64) -> Result<(), Status> {
    let mut maintenance = MaintenanceClient::new(channel(url).await);
    let moved = maintenance
        .move_leader(MoveLeaderRequest { target_id })
        .await;
    moved.map(drop)
}

fn kill(up: &Up, id: u16) {
    signal(up.pids[&id], Signal::KILL);
}

/// Scenario: the leader is named, moved, and lost; who was lost comes back and leads no more.
#[tokio::test]
async fn a_leader_is_named_where_the_protocol_has_none() {
    let home = Home::new();
    let mut up = home.start(&[]);
    let (first, term) = agreed(&up.urls, &[1, 2, 3], 1).await;
    let not_leader = up.urls[first as usize % 3].as_str();
    let refused = move_leader(not_leader, 2).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: not leader");
    let leader = up.urls[first as usize - 1].as_str();
    let refused = move_leader(leader, 9).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (
            Code::FailedPrecondition,
            "etcdserver: bad leader transferee"
        )
    );
    move_leader(leader, first).await.unwrap();
    let second = first % 3 + 1;
    move_leader(leader, second).await.unwrap();
    let (_, term) = agreed(&up.urls, &[second], term).await;
    for (url, id) in up.urls.iter().zip(1..) {
        let is_leader = f64::from(u8::from(id == second));
        assert_eq!(metric(url, "etcd_server_is_leader").await, is_leader);
    }

    kill(&up, second as u16);
    up.wait_for("replica ");
    let others: Vec<u64> = (1..=3).filter(|id| *id != second).collect();
    let at = |id: &u64| up.urls[*id as usize - 1].clone();
    let urls: Vec<String> = others.iter().map(at).collect();
    let (third, term) = agreed(&urls, &others, term).await;
    let back = Up::start(&home.dir, &["--only", &second.to_string()]);
    let (after, same) = agreed(&up.urls, &[third], term - 1).await;
    assert_eq!((after, same), (third, term), "nothing changes");
    drop(back);
}

/// Scenario: the replica that leads by the protocol is the one that all name; it is moved, and the one it was moved to
/// leads and stays named; then that one is killed.
async fn the_leader_of_a_protocol_is_named_and_moved(protocol: &str) {
    let home = Home::new();
    let up = home.start(&["--protocol", protocol]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "1").await.unwrap();
    let (before, term) = agreed(&up.urls, &[1, 2, 3], 1).await;
    let leader = up.urls[before as usize - 1].as_str();
    let target = before % 3 + 1;
    move_leader(leader, target).await.unwrap();
    let (first, term) = agreed(&up.urls, &[target], term).await;
    eventually("the one that is named leads, alone", || async {
        for (url, id) in up.urls.iter().zip(1..) {
            let leads = metric(url, "quorate_protocol{figure=\"leads\"}").await;
            (leads == f64::from(u8::from(id == target))).then_some(())?;
        }
        Some(())
    })
    .await;
    client.put("a", "moved").await.unwrap();
    assert_eq!(agreed(&up.urls, &[target], 1).await, (first, term));
    another_leads_after_a_kill(up, first, term).await;
}

/// Kills the leader of a term; the others take writes, and name one of themselves.
async fn another_leads_after_a_kill(mut up: Up, leader: u64, term: u64) {
    kill(&up, leader as u16);
    up.wait_for("replica ");
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    let at = |id: &u64| up.urls[*id as usize - 1].clone();
    let urls: Vec<String> = others.iter().map(at).collect();
    // Who waits for something notices that the leader is gone.
    eventually("another one takes writes", || async {
        let mut client = Client::try_connect(&urls[0]).await?;
        client.put("a", "2").await.ok()
    })
    .await;
    agreed(&urls, &others, term).await;
}

#[tokio::test]
async fn the_leader_of_multi_paxos_is_named_and_moved() {
    the_leader_of_a_protocol_is_named_and_moved("multi-paxos").await;
}

#[tokio::test]
async fn the_leader_of_raft_is_named_and_moved() {
    the_leader_of_a_protocol_is_named_and_moved("raft").await;
}

/// Scenario: the replica that leads by the protocol is the one that all name, also after it was killed; the protocol
/// chooses the next one, whoever is asked for.
#[tokio::test]
async fn the_leader_of_a_protocol_that_chooses_it_is_named() {
    let home = Home::new();
    let up = home.start(&["--protocol", "nezha"]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "1").await.unwrap();
    let (first, term) = agreed(&up.urls, &[1, 2, 3], 1).await;
    let leader = up.urls[first as usize - 1].as_str();
    let refused = move_leader(leader, first % 3 + 1).await.unwrap_err();
    let why = "nezha chooses its leader by itself";
    assert!(refused.message().contains(why), "{refused}");
    another_leads_after_a_kill(up, first, term).await;
}
