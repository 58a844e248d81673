//! Fast Paxos (Lamport, Distributed Computing 19, 2006), as replication of a log: the baseline of Nezha's paper.
//!
//! A gateway sends its entry to all members, and each gives it the next slot that is free there and says so to the
//! leader. Where a fast quorum did the same, the leader among them, the entry is decided two message delays after it
//! left the gateway. Where entries collided, the leader asks for its own value in the same ballot, which takes two
//! more. Members that hear entries in different orders collide, so that this is slow exactly under load.
//!
//! It is a yardstick: safe, to be compared with, and neither tuned nor whole.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it. `Machine::check`
//! (`check.rs`) asserts what one replica can see, the tests watch the rest. Per slot this is Paxos; a vote of a fast
//! round is a vote of its ballot like any other.
//!
//! - F1: one value is chosen in a slot and ballot. What a leader asks for by itself is its own vote, and what a fast
//!   round chooses too (F2, F3); so members may replace their votes of the same ballot by it (`Replica::accept`). What
//!   promises show that may have been chosen in a lower ballot is asked for again, and the fast round begins behind
//!   it (`Replica::lead`, `decide.rs`).
//! - F2: a leader votes once in a slot of its ballot (`Replica::cast`), and leads no ballot twice, nor after a start:
//!   it promises each durably before anybody hears of it (`Replica::campaign`).
//! - F3: a fast round chooses nothing without the durable vote of its leader (`Replica::chosen`).
//! - F4: the votes of a member in a slot ascend, by ballot, and within one from the fast round's to what its leader
//!   asked for; none is below what it promised. All survive crashes: records of votes are durable before anybody
//!   hears of them, and say themselves which one counts (`Replica::restore`).
//! - F5: an entry takes effect once. It may get votes in two slots, and be chosen in both; the second holds nothing,
//!   everywhere alike (`Replica::deliver_all`, [`crate::DecidedSet`]).
//!
//! Only the leader counts. What it says is decided is so whatever the ballot, and named entry by entry: a member may
//! have voted for something else, and that it did says nothing.
//!
//! # Silence
//!
//! There are no heartbeats. A replica that waits for something asks the leader, and gives it up when it hears nothing;
//! whoever heard of an entry waits until that is decided, so that entries whose gateway is gone are, too. A cluster
//! where nobody waits arms no timer.
//!
//! # Lost promises
//!
//! A replica that lost its promises votes for nothing and answers for nothing: it learns, and is one of those that may
//! fail, until an epoch replaces it (`recover.rs`).

mod acceptor;
mod check;
mod clients;
mod config;
mod decide;
mod describe;
mod election;
mod leader;
mod learner;
mod messages;
mod mutants;
mod protocol;
mod reads;
mod recover;
mod replica;
mod state;
#[cfg(test)]
mod tests;
mod waits;
mod wire;

pub use config::{Config, Thresholds};
pub use messages::{Accept, Commit, FastVote, Known, Message, Promise, Record, Shown, Timer, Vote};
pub use mutants::Fault;
pub use protocol::FastPaxos;
pub use replica::Replica;
