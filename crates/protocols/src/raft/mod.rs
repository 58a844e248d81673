//! Raft (Ongaro and Ousterhout, USENIX ATC'14; Ongaro's thesis, 2014).
//!
//! One replica leads a term, by the votes of a majority. It appends entries to its log and sends them on; an
//! entry that a majority has, with one of the leader's own term at or behind it, is committed. The others
//! send the leader the entries they form.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it.
//! `Machine::check` asserts what one replica can see, the tests watch the rest:
//!
//! - R1: one leader per term. A vote is durable before it is said, and the own one before it counts.
//! - R2: a leader never changes its own log; it appends.
//! - R3: logs that have an entry of one term in a slot are equal before it (`Replica::on_append`).
//! - R4: what is committed is in the log of every later leader (`Replica::may_lead`, `Replica::commit`).
//! - R5: delivered slots are equal everywhere.
//! - R6: nothing delivered is ever cut off: the log holds only what is not.
//! - R7: term and vote survive: [`Record::Vote`] is durable before what rests on it, and an entry's record
//!   says in which term it was written.
//! - R8: what is committed is on the disks of a majority. The leader's own end counts once
//!   `Input::Durable` has confirmed it; its messages leave before, for they promise nothing.
//! - R9: a read sees every write completed before it began (`reads.rs`).
//! - R10: an entry takes effect once: appended by two leaders it may get two slots, and the second is a no-op
//!   everywhere alike (`DecidedSet`).
//!
//! # Decided slots
//!
//! The decided log is the host's, so the log here begins behind it, and there is no snapshot to install: a
//! follower that lacks decided slots gets them from a peer's host. The terms of such slots are not known to
//! it, nor after a restart. Then it votes only for who has delivered as much (`Replica::may_lead`).
//!
//! # Silence
//!
//! There are no heartbeats. Who waits for something asks the leader for a sign of life, and gives it up when
//! there is none (`election.rs`); a leader that hears no majority while something waits steps down. A cluster
//! where nobody waits arms no timer. A link that goes down is a hint to hurry.
//!
//! # Lost promises
//!
//! A replica that lost its promises appends nothing and votes for nobody: it learns, forwards, and is one of
//! those that may fail. It votes again in a new life (`rejoin.rs`), once enough members know of it that what
//! its former life said is counted nowhere any more.

mod check;
mod config;
mod describe;
mod election;
mod follower;
mod leader;
mod led;
mod log;
mod messages;
mod mutants;
mod offers;
mod protocol;
mod reads;
mod recover;
mod rejoin;
mod repair;
mod replica;
mod role;
#[cfg(test)]
mod tests;
mod wire;

pub use crate::shared::question::QuestionName;
pub use crate::shared::timers::Timer;
pub use config::{Config, Thresholds};
pub use messages::{Append, Behind, LogEnd, LogEntry, Message, Record};
pub use mutants::Fault;
pub use protocol::Raft;
pub use replica::Replica;
