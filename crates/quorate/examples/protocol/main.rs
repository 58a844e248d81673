//! A counter under a protocol of the program's own: a fixed sequencer ([`sequencer`] says what it does not survive).
//!
//! `protocol FOLDER` runs three nodes in this process, takes one away, goes on, and starts all of them again.

mod sequencer;

use quorate::{Applied, Cluster, StateMachine, decode, encode};
use sequencer::FixedSequencer;
use std::path::Path;

/// The node that the protocol has order everything.
const SEQUENCER: u16 = 1;

#[derive(Default)]
struct Counter(u64);

impl StateMachine for Counter {
    type Command = u64;
    type Reply = u64;
    type Query = ();
    type Answer = u64;

    fn apply(&mut self, _: &Applied, add: u64) -> u64 {
        self.0 += add;
        self.0
    }

    fn query(&self, (): &()) -> u64 {
        self.0
    }

    fn save(&self) -> Vec<u8> {
        encode(&self.0).expect("a number always has a form")
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        decode(bytes).map(Counter).map_err(|why| why.to_string())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: protocol FOLDER")?;
    let start = || {
        Cluster::<Counter>::start(3, Path::new(&folder), |node| {
            node.own_protocol::<FixedSequencer>()
        })
    };
    let mut cluster = start().await?;
    let node = cluster.node(SEQUENCER).ok_or("no sequencer")?;
    println!("{} runs", node.status().await?.protocol);
    println!("with three: {}", node.submit(1).await?);
    cluster.stop_node(3).await?;
    let node = cluster.node(SEQUENCER).ok_or("no sequencer")?;
    println!("with two: {}", node.submit(1).await?);
    let applied = node.status().await?.applied;
    cluster.start_node(3).await?;
    let third = cluster.node(3).ok_or("no third node")?;
    third.applied(applied).await?;
    let of_third = third.query_at((), quorate::Freshness::Local).await?;
    println!("the third has caught up: {of_third}");
    cluster.stop().await?;
    let cluster = start().await?;
    let node = cluster.node(SEQUENCER).ok_or("no sequencer")?;
    println!("after a restart of all: {}", node.query(()).await?);
    Ok(cluster.stop().await?)
}
