//! Multi-Paxos: one leader, a majority of accepts, values whole.
//!
//! It is [`crate::rs_paxos`] with `X = 1`, where a fragment is the whole value: machine, messages, records
//! and tests are there. Here is what makes it Multi-Paxos: its quorums and parameters, and what breaks it.
//! `README.md` beside this file says where each of the paper's steps is.

mod config;
mod mutants;
mod protocol;

pub use protocol::MultiPaxos;
