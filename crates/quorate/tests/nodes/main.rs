//! Nodes of one process, by memory and by sockets.

mod options;
mod own_protocol;
#[path = "../../examples/protocol/sequencer/mod.rs"]
mod sequencer;

use quorate::{
    Applied, Cluster, Effect, Error, Freshness, Node, NodeBuilder, Protocol, StateMachine,
    Transport, decode, encode,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;
use tokio::time::timeout;

/// What takes longer never happens.
const PATIENCE: Duration = Duration::from_secs(30);

/// A number for each name.
#[derive(Default, Serialize, Deserialize)]
struct Counters(BTreeMap<String, u64>);

#[derive(Clone, Serialize, Deserialize)]
struct Add {
    name: String,
    by: u64,
}

impl StateMachine for Counters {
    type Command = Add;
    type Reply = u64;
    type Query = String;
    type Answer = Option<u64>;

    fn apply(&mut self, _: &Applied, command: Add) -> u64 {
        let counter = self.0.entry(command.name).or_default();
        *counter += command.by;
        *counter
    }

    fn query(&self, name: &String) -> Option<u64> {
        self.0.get(name).copied()
    }

    fn save(&self) -> Vec<u8> {
        encode(self).expect("names and numbers")
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        decode(bytes).map_err(|error| error.to_string())
    }
}

fn add(by: u64) -> Add {
    Add {
        name: "n".to_owned(),
        by,
    }
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("no end in time")
}

/// Scenario: every node is asked; one stops, the others go on, and it starts again and has what it missed.
async fn goes_on_without_one(
    protocol: Protocol,
    options: fn(NodeBuilder<Counters>) -> NodeBuilder<Counters>,
) {
    let home = tempfile::tempdir().unwrap();
    let options = |node| options(node).protocol(protocol);
    let started = Cluster::<Counters>::start(3, home.path(), options).await;
    let mut cluster = started.unwrap();
    for id in 1..=3 {
        let node = cluster.node(id).unwrap();
        assert_eq!(in_time(node.submit(add(1))).await, Ok(u64::from(id)));
        let read = in_time(node.query("n".to_owned())).await;
        assert_eq!(read, Ok(Some(u64::from(id))));
    }
    cluster.stop_node(3).await.unwrap();
    assert!(cluster.node(3).is_none());
    for n in 4..=20 {
        let node = cluster.node(1 + n as u16 % 2).unwrap();
        assert_eq!(in_time(node.submit(add(1))).await, Ok(n));
    }
    cluster.start_node(3).await.unwrap();
    let (first, third) = (cluster.node(1).unwrap(), cluster.node(3).unwrap());
    let applied = in_time(first.status()).await.unwrap().applied;
    in_time(third.applied(applied)).await.unwrap();
    let local = in_time(third.query_at("n".to_owned(), Freshness::Local)).await;
    assert_eq!(local, Ok(Some(20)));
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn multi_paxos_goes_on_without_one() {
    goes_on_without_one(Protocol::MultiPaxos, |node| node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabia_goes_on_without_one_on_a_runtime_of_several_threads() {
    goes_on_without_one(Protocol::Rabia, |node| node.on_this_runtime()).await;
}

#[tokio::test]
async fn a_request_that_is_sent_again_elsewhere_is_applied_once() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Cluster::<Counters>::start(3, home.path(), |node| node)
        .await
        .unwrap();
    let (first, second) = (cluster.node(1).unwrap(), cluster.node(2).unwrap());
    let mut client = in_time(first.client()).await.unwrap();
    assert_eq!(in_time(client.submit(&add(5))).await, Ok(5));
    let last = client.next() - 1;
    let mut again = second.resume(client.id(), last);
    assert_eq!(in_time(again.submit(&add(5))).await, Ok(5));
    assert_eq!(in_time(again.submit(&add(5))).await, Ok(10));
    // The first one knows nothing of that.
    let overtaken = in_time(first.resume(client.id(), last).submit(&add(5))).await;
    assert!(matches!(overtaken, Err(Error::Unknown(_))), "{overtaken:?}");
    assert_eq!(in_time(first.query("n".to_owned())).await, Ok(Some(10)));
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn effects_are_seen_on_every_node_in_one_order_with_growing_tokens() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Cluster::<Counters>::start(3, home.path(), |node| node)
        .await
        .unwrap();
    let mut seen = Vec::new();
    let mut watches: Vec<_> = (1..=3)
        .map(|id| cluster.node(id).unwrap().watch_effects())
        .collect();
    for n in 1..=10 {
        let node = cluster.node(1 + n % 3).unwrap();
        in_time(node.submit_as(u32::from(n), add(1))).await.unwrap();
    }
    for watch in &mut watches {
        let mut effects = Vec::new();
        for _ in 1..=10 {
            match in_time(watch.next()).await.unwrap() {
                Some(Effect::Applied(at, reply)) => effects.push((at, reply)),
                other => panic!("{other:?}"),
            }
        }
        seen.push(effects);
    }
    assert!(seen.iter().all(|effects| *effects == seen[0]));
    assert!(seen[0].is_sorted_by(|(one, _), (two, _)| one.token < two.token));
    assert!(seen[0].is_sorted_by(|(one, _), (two, _)| one.time_ns <= two.time_ns));
    assert!(
        seen[0]
            .iter()
            .all(|(at, reply)| u64::from(at.who) == *reply)
    );
    cluster.stop().await.unwrap();
    let ended = in_time(async {
        loop {
            match watches[0].next().await {
                Ok(None) => return,
                Ok(Some(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    ended.await;
}

/// Addresses that nobody listens at, each with the port that keeps it until the node takes it.
fn addresses() -> Vec<(u16, String)> {
    let ports: Vec<_> = (1..=4)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let address = |port: &TcpListener| port.local_addr().unwrap().to_string();
    (1..).zip(ports.iter().map(address)).collect()
}

fn by_sockets(
    home: &tempfile::TempDir,
    id: u16,
    members: &[(u16, String)],
) -> NodeBuilder<Counters> {
    Node::builder("sockets", id)
        .members(members.iter().cloned())
        .folder(home.path().join(id.to_string()))
}

async fn started(builders: Vec<NodeBuilder<Counters>>) -> Vec<Node<Counters>> {
    let starting: Vec<_> = builders
        .into_iter()
        .map(|node| tokio::spawn(node.start()))
        .collect();
    let mut nodes = Vec::new();
    for node in starting {
        nodes.push(in_time(node).await.unwrap().unwrap());
    }
    nodes
}

#[tokio::test]
async fn nodes_meet_by_sockets_change_the_protocol_and_take_in_a_fourth() {
    let home = tempfile::tempdir().unwrap();
    let addresses = addresses();
    let three = &addresses[..3];
    let builders = (1..=3).map(|id| by_sockets(&home, id, three).transport(Transport::Udp));
    let nodes = started(builders.collect()).await;
    assert_eq!(in_time(nodes[2].submit(add(2))).await, Ok(2));
    let changed = nodes[0].change_protocol(Protocol::Rabia, BTreeMap::new());
    assert_eq!(in_time(changed).await, Ok(()));
    assert_eq!(in_time(nodes[1].submit(add(2))).await, Ok(4));
    let (id, address) = &addresses[3];
    assert_eq!(in_time(nodes[0].add_member(*id, address)).await, Ok(()));
    let fourth = by_sockets(&home, 4, &addresses)
        .joins()
        .transport(Transport::Udp);
    let fourth = in_time(fourth.start()).await.unwrap();
    assert_eq!(in_time(fourth.query("n".to_owned())).await, Ok(Some(4)));
    let status = in_time(fourth.status()).await.unwrap();
    assert_eq!((status.id, status.protocol.as_str()), (4, "rabia"));
    assert_eq!(status.members.len(), 4);
    for node in nodes.into_iter().chain([fourth]) {
        node.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_node_that_is_no_member_does_not_start() {
    let home = tempfile::tempdir().unwrap();
    let node = by_sockets(&home, 9, &addresses()).start().await;
    let error = node.unwrap_err().to_string();
    assert!(error.contains("node 9 is not among the members"), "{error}");
}
