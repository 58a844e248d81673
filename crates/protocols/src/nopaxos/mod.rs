//! NOPaxos (Li, Michael, Sharma, Szekeres and Ports, OSDI'16), with a sequencer in software.
//!
//! A sequencer stamps entries with the numbers of its session and passes them on to all replicas, which place them in
//! that order and reply to the gateway: no replica waits for another as long as no message is lost. One replica
//! leads: it alone executes ahead, and it decides what becomes of a number that did not come. The sequencer of a
//! session is one of the members; it keeps nothing, and is replaced like a leader, by a view change.
//!
//! It is a yardstick: safe, to be compared with, and neither tuned nor whole.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it. `Machine::check`
//! (`check.rs`) asserts what one replica can see, the tests watch the rest:
//!
//! - N1: a slot that is committed in a view has one value. A gateway counts replies of one view, the leader's among
//!   them (`Replica::count`). Whoever replied to an entry in a slot had all slots before it, so that the leader's
//!   results stand on what a majority has, too: the leader places nothing behind a gap that no majority has yet
//!   (`Replica::may_place`).
//! - N2: a slot that is decided never changes. A majority has the leader's log up to it, durably
//!   (`Replica::count_log`), and every later view starts with the log of the newest view that any of a majority took
//!   part in (`change.rs`).
//! - N3: within a view and session one offset leads from numbers to slots, and no number belongs to two entries. One
//!   start of one process stamps in a session (`sequencer.rs`).
//! - N4: a view has one beginning. Its leader makes the log once (`Replica::on_view_change`), and a leader that
//!   starts again leaves its view (`Replica::resume`). Whoever is late gets the leader's log as it is by then: what a
//!   follower in the view would have by now.
//! - N5: a no-op never takes the place of an entry that was committed in the same view: the leader gives up what it
//!   has not got, and never a slot that it has filled (`Replica::give_up`). Elsewhere no-ops win over entries, for
//!   what the leader gave up it has not replied to (`change.rs`).
//! - N6: the numbers of views only grow, at every replica, across starts. Two views of which none covers the other do
//!   not both start: somebody would have left each for the other. So views that started are in one order.
//!
//! # Durability
//!
//! A follower's reply waits for its record of the slot, the leader's too, and a word on a view for the record of that
//! view. A view's log is written before the record that says the view has begun: without that, what was written of it
//! counts for nothing (`Replica::enter`, `Replica::restore`).
//!
//! # Silence
//!
//! There are no heartbeats. Timers run while something is undecided or unanswered; a cluster where nobody waits arms
//! none.
//!
//! # Lost promises
//!
//! A replica that lost its promises places, replies to and stamps nothing, and takes part in no view: it learns, and
//! is one of those that may fail, until an epoch replaces it (`recover.rs`).

mod change;
mod check;
mod config;
mod describe;
mod gaps;
mod gateway;
mod log;
mod messages;
mod mutants;
mod normal;
mod protocol;
mod reads;
mod recover;
mod replica;
mod sequencer;
mod sync;
#[cfg(test)]
mod tests;
mod waits;
mod wire;

pub use config::{Config, Delays, Thresholds};
pub use messages::{Message, Record, Reply, StartView, Sync, Timer, Value, View, ViewChange};
pub use mutants::Fault;
pub use protocol::NoPaxos;
pub use replica::Replica;
