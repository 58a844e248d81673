//! Runs of the simulator, and of a few hosts whose every frame a test holds in its hand.
//!
//! One program for all of it: each more would hold every protocol once more, and be built as long.

mod chora;
mod cluster;
mod deposed;
mod domino;
mod epaxos;
mod epochs;
mod fast_paxos;
mod mencius;
mod multi_paxos;
mod nezha;
mod nopaxos;
mod picture;
mod racos;
mod raft;
mod regressions;
mod rs_paxos;
mod runs;
mod seeds;
