//! What builders of nodes are told, and what comes of it.

#![allow(clippy::disallowed_methods, reason = "a test measures real time")]

use super::{Counters, add, addresses, by_sockets, goes_on_without_one, in_time, started};
use quorate::{Clock, Cluster, Durability, Error, Protocol, Tls};
use quorate_certificates::{Authority, Validity};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What a loaded machine may take beyond a timeout.
const SLACK: Duration = Duration::from_millis(900);

#[tokio::test]
async fn nezha_goes_on_without_one_by_a_clock_that_the_program_vouches_for() {
    goes_on_without_one(Protocol::Nezha, |node| {
        node.clock(Clock::Within(Duration::from_millis(1)))
    })
    .await;
}

#[tokio::test]
async fn memory_alone_keeps_the_state_while_a_quorum_runs() {
    goes_on_without_one(Protocol::MultiPaxos, |node| {
        node.durability(Durability::Memory)
    })
    .await;
}

#[tokio::test]
async fn one_node_alone_has_everything_again_after_a_stop() {
    let home = tempfile::tempdir().unwrap();
    let one = &addresses()[..1];
    for round in 1..=3 {
        let node = in_time(by_sockets(&home, 1, one).start()).await.unwrap();
        assert_eq!(in_time(node.submit(add(1))).await, Ok(round));
        in_time(node.stop()).await.unwrap();
    }
}

#[tokio::test]
async fn nodes_show_certificates_also_to_one_that_is_added() {
    let home = tempfile::tempdir().unwrap();
    let authority = Authority::new(home.path(), "authority");
    let addresses = addresses();
    let node = |id: u16, members| {
        let issued = authority.issue(&format!("node-{id}"), &["127.0.0.1"], Validity::Usual);
        by_sockets(&home, id, members).tls(Tls {
            certificate: issued.certificate,
            key: issued.key,
            authorities: authority.path(),
        })
    };
    let nodes = started((1..=3).map(|id| node(id, &addresses[..3])).collect()).await;
    assert_eq!(in_time(nodes[2].submit(add(2))).await, Ok(2));
    let (id, address) = &addresses[3];
    assert_eq!(in_time(nodes[0].add_member(*id, address)).await, Ok(()));
    let fourth = in_time(node(4, &addresses).joins().start()).await.unwrap();
    assert_eq!(in_time(fourth.submit(add(2))).await, Ok(4));
    let members = in_time(nodes[0].status()).await.unwrap().members;
    let added = members.iter().find(|member| member.id == 4).unwrap();
    assert_eq!(added.address, format!("https://{address}"));
    for node in nodes.into_iter().chain([fourth]) {
        in_time(node.stop()).await.unwrap();
    }
}

#[tokio::test]
async fn nodes_with_one_secret_meet_and_a_short_one_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("secret");
    fs::write(&file, "a secret of many bytes\n").unwrap();
    let addresses = addresses();
    let node = |id| by_sockets(&home, id, &addresses[..3]).secret(&file);
    let nodes = started((1..=3).map(node).collect()).await;
    assert_eq!(in_time(nodes[1].submit(add(3))).await, Ok(3));
    for node in nodes {
        in_time(node.stop()).await.unwrap();
    }
    fs::write(&file, "short").unwrap();
    let error = node(1).start().await.unwrap_err().to_string();
    assert!(error.contains("the secret has 5 bytes"), "{error}");
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_ends_and_may_be_made_again() {
    let home = tempfile::tempdir().unwrap();
    let addresses = addresses();
    let node = |id| by_sockets(&home, id, &addresses[..3]);
    let (_, address) = &addresses[0];
    let mut alone = Box::pin(node(1).start());
    let listens = async {
        while TcpStream::connect(address).is_err() {
            tokio::task::yield_now().await;
        }
    };
    let begun = in_time(async {
        tokio::select! {
            node = &mut alone => node.map(drop).map_err(|error| error.to_string()),
            () = listens => Ok(()),
        }
    });
    assert_eq!(begun.await, Ok(()));
    drop(alone);
    in_time(async {
        while TcpListener::bind(address).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let nodes = started((1..=3).map(node).collect()).await;
    assert_eq!(in_time(nodes[0].submit(add(1))).await, Ok(1));
    for node in nodes {
        in_time(node.stop()).await.unwrap();
    }
}

#[tokio::test]
async fn a_folder_that_was_lost_is_not_begun_again() {
    let home = tempfile::tempdir().unwrap();
    let start = || Cluster::<Counters>::start(3, home.path(), |node| node);
    let mut cluster = start().await.unwrap();
    let submitted = cluster.node(1).unwrap().submit(add(1));
    assert_eq!(in_time(submitted).await, Ok(1));
    cluster.stop_node(3).await.unwrap();
    fs::remove_dir_all(home.path().join("3")).unwrap();
    let error = cluster.start_node(3).await.unwrap_err().to_string();
    assert!(error.contains("holds nothing of node 3"), "{error}");
    cluster.stop().await.unwrap();
    let error = start().await.unwrap_err().to_string();
    assert!(error.contains("holds nothing of node 3"), "{error}");
}

#[tokio::test]
async fn requests_end_at_their_timeout_without_a_quorum() {
    let home = tempfile::tempdir().unwrap();
    let limit = Duration::from_secs(1);
    let started =
        Cluster::<Counters>::start(3, home.path(), |node| node.timeout(Duration::from_secs(1)));
    let mut cluster = started.await.unwrap();
    for id in [2, 3] {
        let node = cluster.node(id).unwrap();
        assert!(in_time(node.submit(add(1))).await.is_ok());
    }
    let opened = in_time(cluster.node(1).unwrap().client()).await;
    let id = opened.unwrap().id();
    cluster.stop_node(2).await.unwrap();
    cluster.stop_node(3).await.unwrap();
    let node = cluster.node(1).unwrap();
    let began = Instant::now();
    let asked = in_time(node.query("n".to_owned())).await;
    assert!(matches!(asked, Err(Error::Retry(_))), "{asked:?}");
    let queried = began.elapsed();
    assert!(queried < limit + SLACK, "{queried:?}");
    let began = Instant::now();
    let submitted = in_time(node.resume(id, 1).submit(&add(1))).await;
    assert!(
        matches!(submitted, Err(Error::Retry(_) | Error::Unknown(_))),
        "{submitted:?}"
    );
    let submitted = began.elapsed();
    assert!(submitted < 2 * limit + SLACK, "{submitted:?}");
    cluster.stop().await.unwrap();
}
