//! Chora: replication in synchronous rounds.
//!
//! In every view the slots of the log are dealt to a set of proposers. Every message is a proposal
//! and a cumulative acknowledgement at once, and all hear it, so that nobody needs to be told what
//! is committed. Safety depends on no round, clock or mode.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it;
//! invariants are numbered as there. `check.rs` asserts what one replica can see, the tests
//! watch the rest:
//!
//! - J1: one value per slot and view. A proposer never goes back within a view (`propose.rs`), and
//!   proposes in none that it may have proposed in before it started (`recover.rs`).
//! - J2: one initiator per view: [`Record::View`] is durable before a vote is said.
//! - J3, J4: the main log has no gaps, its views do not decrease, and equal entries have equal
//!   pasts (`log.rs`): what is above a hole waits in `pending`, and nothing gets into the log but in
//!   order (`normal.rs`).
//! - J5: `last_commit <= last_ack <= last_append`, the clamp included.
//! - J6: what is committed is in the log of every later initiator (`view.rs`).
//! - J7: nothing committed is cut: the log here begins behind it.
//! - J8: an acknowledgement speaks of what is durable.
//! - J9: nobody proposes in another's slot, nor before VIEW-INIT is committed here.
//! - J12: an entry takes effect once: proposed twice, it is a no-op in its second slot (`DecidedSet`).
//!
//! # Silence
//!
//! There are no heartbeats. Who waits for something asks, and gives the view up when nothing moves;
//! a cluster where nobody waits arms no timer.

mod campaign;
mod check;
mod config;
mod delays;
mod describe;
mod disk;
mod figures;
mod load;
mod log;
mod loss_recovery;
mod messages;
mod mutants;
mod network;
mod normal;
mod offers;
mod pattern;
mod plan;
mod policy;
mod propose;
mod protocol;
mod reads;
mod recover;
mod rejoin;
mod replica;
mod role;
mod rounds;
#[cfg(test)]
mod tests;
mod traffic;
mod verify;
mod view;
mod waits;
mod wire;

pub use config::{Config, ModeRule, Thresholds};
pub use log::Position;
pub use messages::{Header, Logged, Message, Proposal, Pulse, Reason, Record, Timer, Value};
pub use mutants::Fault;
pub use pattern::{Segment, ViewInit};
pub use protocol::Chora;
pub use replica::Replica;
