//! Nodes that run a protocol of the program's own.

use super::{Counters, add, addresses, by_sockets, in_time, started};
use crate::sequencer::{FixedSequencer, Sequencer};
use quorate::{Cluster, Error, Protocol};
use quorate_core::{Epoch, Seat};
use quorate_protocols::Protocol as OwnProtocol;
use std::collections::BTreeMap;

/// A protocol that takes the name of one that comes with the library.
struct Impostor;

impl OwnProtocol for Impostor {
    const NAME: &'static str = "raft";
    type Machine = Sequencer;

    fn config(seat: &Seat) -> Result<Seat, String> {
        Ok(seat.clone())
    }

    fn failures_survived(_: &Epoch) -> usize {
        0
    }
}

/// Scenario: three nodes by sockets; one of them is away for a while.
#[tokio::test]
async fn nodes_of_ones_own_protocol_order_commands_by_sockets() {
    let home = tempfile::tempdir().unwrap();
    let addresses = addresses();
    let node = |id| by_sockets(&home, id, &addresses[..3]).own_protocol::<FixedSequencer>();
    let mut nodes = started((1..=3).map(node).collect()).await;
    assert_eq!(in_time(nodes[0].submit(add(1))).await, Ok(1));
    let status = in_time(nodes[0].status()).await.unwrap();
    assert_eq!(
        (status.protocol.as_str(), status.leader),
        ("fixed-sequencer", Some(1))
    );
    in_time(nodes.remove(2).stop()).await.unwrap();
    assert_eq!(in_time(nodes[0].submit(add(1))).await, Ok(2));
    let third = in_time(node(3).start()).await.unwrap();
    let applied = in_time(nodes[0].status()).await.unwrap().applied;
    in_time(third.applied(applied)).await.unwrap();
    let refused = nodes[0].change_protocol(Protocol::Raft, BTreeMap::new());
    let refused = in_time(refused).await;
    assert!(
        matches!(&refused, Err(Error::Refused(why)) if why.contains("there is: fixed-sequencer")),
        "{refused:?}"
    );
    for node in nodes.into_iter().chain([third]) {
        in_time(node.stop()).await.unwrap();
    }
}

#[tokio::test]
async fn a_folder_of_ones_own_protocol_starts_under_no_other() {
    let home = tempfile::tempdir().unwrap();
    let own =
        Cluster::<Counters>::start(1, home.path(), |node| node.own_protocol::<FixedSequencer>());
    let cluster = own.await.unwrap();
    let node = cluster.node(1).unwrap();
    assert_eq!(in_time(node.submit(add(7))).await, Ok(7));
    cluster.stop().await.unwrap();
    let other = Cluster::<Counters>::start(1, home.path(), |node| node.protocol(Protocol::Raft));
    let why = other.await.unwrap_err().to_string();
    assert!(
        why.contains("there is no protocol \"fixed-sequencer\""),
        "{why}"
    );
}

#[tokio::test]
async fn ones_own_protocol_has_a_name_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let impostor =
        Cluster::<Counters>::start(1, home.path(), |node| node.own_protocol::<Impostor>());
    let why = impostor.await.unwrap_err().to_string();
    assert!(
        why.contains("\"raft\" is a protocol of the library"),
        "{why}"
    );
}
