//! Replicate your own state machine.
//!
//! Write what a command does to a state ([`StateMachine`]: two methods for commands and queries, two for snapshots),
//! start a [`Node`] in each of three processes, and [`Node::submit`] to any of them. Consensus, disk, network,
//! snapshots, changes of members and of protocol are inside.
//!
//! ```no_run
//! use quorate::{Applied, Node, StateMachine};
//!
//! #[derive(Default)]
//! struct Counter(u64);
//!
//! impl StateMachine for Counter {
//!     type Command = u64;
//!     type Reply = u64;
//!     type Query = ();
//!     type Answer = u64;
//!
//!     fn apply(&mut self, _: &Applied, add: u64) -> u64 {
//!         self.0 += add;
//!         self.0
//!     }
//!
//!     fn query(&self, (): &()) -> u64 {
//!         self.0
//!     }
//!
//!     fn save(&self) -> Vec<u8> {
//!         self.0.to_le_bytes().to_vec()
//!     }
//!
//!     fn load(bytes: &[u8]) -> Result<Self, String> {
//!         let bytes = bytes.try_into().map_err(|_| "a counter has 8 bytes")?;
//!         Ok(Counter(u64::from_le_bytes(bytes)))
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::<Counter>::builder("counter", 1)
//!     .members([(1, "10.0.0.1:7001"), (2, "10.0.0.2:7001"), (3, "10.0.0.3:7001")])
//!     .folder("data")
//!     .start()
//!     .await?;
//! let now = node.submit(1).await?;
//! assert!(node.query(()).await? >= now);
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! | to | use |
//! |---|---|
//! | say what is replicated | [`StateMachine`], [`Applied`], [`Snapshot`], [`Timer`] |
//! | say what is sent | [`Message`]: whatever serde writes; [`Raw`] for bytes |
//! | write a state with serde | [`encode`], [`decode`], [`FormatError`] |
//! | set a node up | [`Node::builder`], [`NodeBuilder`], [`Protocol`], [`Durability`], [`Clock`] |
//! | reach the others | [`Transport`], [`Rings`], [`Tls`] |
//! | bring a protocol | [`NodeBuilder::own_protocol`] |
//! | run it | [`Node`], [`Status`], [`MemberStatus`], [`StartError`] |
//! | ask | [`Node::submit`], [`Node::query`], [`Freshness`], [`Error`] |
//! | ask again without doing it twice | [`Client`], [`ClientId`], [`RequestId`] |
//! | ask without being a member | [`Gateway`], [`GatewayBuilder`] |
//! | see what happens | [`Node::watch_effects`], [`Effects`], [`Effect`] |
//! | run a cluster in a test | [`Cluster`] |
//! | run it on other things than nodes | [`Replicated`], [`Cut`] |
//!
//! # Once, at most once, again
//!
//! [`Node::submit`] sends a command once. An [`Error`] says what may be done about it: after [`Error::Retry`] and
//! [`Error::Refused`] nothing was done; after [`Error::Unknown`] it may have been. A [`Client`] has a name from the log
//! and numbers its requests, so that it may send one again, through any node, until it knows.
//!
//! # What holds
//!
//! Commands and queries of [`Node::query`] are linearizable. What was answered survives the loss of any minority of the
//! nodes, and with [`Durability::Disk`] a crash of them all. A node that lost its folder asks the others before it
//! says a word, and comes back as a new member. Replicas compare digests of their snapshots: one whose state machine
//! is not deterministic is found and stops, or an alarm is raised where nobody knows who is right.

#![allow(
    clippy::disallowed_methods,
    reason = "nodes are of the outer ring, which knows clocks"
)]

mod begin;
mod builder;
mod client;
mod cluster;
mod effects;
mod envelope;
mod error;
mod format;
mod gateway;
mod message;
mod node;
mod options;
mod orders;
mod replicated;
mod security;
mod sessions;
mod state_machine;

pub use builder::NodeBuilder;
pub use bytes::Bytes;
pub use client::Client;
pub use cluster::Cluster;
pub use effects::{Effect, Effects};
pub use error::{Error, StartError};
pub use format::{FormatError, decode, encode};
pub use gateway::{Gateway, GatewayBuilder};
pub use message::{Message, Raw};
pub use node::{MemberStatus, Node, Status};
pub use options::{Clock, Durability, Freshness, Protocol, Tls, Transport};
pub use quorate_server::Rings;
pub use replicated::{Cut, Replicated};
pub use state_machine::{Applied, ClientId, RequestId, Snapshot, StateMachine, Timer};
