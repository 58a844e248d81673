//! A cluster in memory for tests of protocols.
//!
//! [`Cluster`] performs what machines want done: it carries their messages, writes their records,
//! keeps their timers and their decided logs. Nothing happens by itself: a test delivers packets,
//! fires timers, flushes, crashes and restarts, in the order that its schedule or its random
//! numbers say. What a test adds, to watch or to break something, is a [`Watch`]. [`walk`] draws such an order.
//!
//! Replicas are counted from 0 here; replica `index` has the id `index + 1`.

mod cluster;
mod lives;
mod network;
mod node;
mod packet;
mod perform;
mod seat;
mod walk;

pub use cluster::{Cluster, Disagreement, Watch};
pub use node::Node;
pub use packet::{Body, Packet};
pub use seat::{epoch, id, index, seat};
pub use walk::{Losers, Walked, walk};
