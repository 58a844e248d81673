//! RS-Paxos (Mu et al., HPDC'14); [`crate::multi_paxos`] is the same machine with `X = 1`, where a
//! fragment is the whole value.
//!
//! One replica leads. It got promises for all slots at once from a read quorum, proposes an entry
//! per slot, and a write quorum of accepts chooses it. The others send it the entries they form.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it.
//! `Machine::check` asserts what one replica can see, the tests watch the rest:
//!
//! - I1: one value per slot and ballot. A ballot is led once: [`Record::Candidacy`] is durable
//!   before it is used, and the next life takes a higher one. A leader proposes once per slot.
//! - I2: one value chosen per slot. Any `QR` promises meet any `QW` accepts (`quorum.rs`), and the
//!   value they show is proposed again (`decide.rs`).
//! - I3: a chosen value can be rebuilt by every read quorum. Its accepts count by code, and `QW(X)`
//!   under one code choose it (`Replica::check_proposal`); whoever said so holds its fragment on its
//!   disk, and keeps it as long as the slot may be decided for that value (`Replica::store`).
//! - I4: nothing is accepted in a ballot above the one promised (`Replica::check_all`).
//! - I5: promises survive: [`Record::Promise`] is durable before the promise is said, and an
//!   accept is a promise too.
//! - I6: what is claimed to be chosen is (`learner.rs`): a claim covers only slots whose choice
//!   its leader has counted, and only accepts of that leader's ballot.
//! - I8: while a lease runs nobody else leads (`lease.rs`).
//! - I9: nothing new is proposed `window` slots beyond the first one not delivered.
//! - I10: a read sees every write completed before it began (`reads.rs`).
//! - I12: an entry takes effect once: proposed by two leaders it may get two slots, and the second
//!   is a no-op everywhere alike (`DecidedSet`).
//!
//! # Whose accepts a choice counts
//!
//! A peer's accept is durable when it is said. The leader's own counts once `Input::Durable` has
//! confirmed it. Its Accept messages leave before: they promise nothing, and peers write while the
//! leader does.
//!
//! # Silence
//!
//! There are no heartbeats. Who waits for something asks the leader for a sign of life, and gives
//! it up when there is none (`election.rs`); a cluster where nobody waits arms no timer. A link
//! that goes down is a hint to hurry.
//!
//! # Lost promises
//!
//! A replica that lost its promises accepts and promises nothing: it learns, forwards and reads,
//! and is one of the `F` that may fail. It votes again in a new life (`rejoin.rs`), once enough
//! members know of it that what its former life said is counted nowhere any more (I13).

mod acceptor;
mod check;
mod codes;
mod coding;
mod config;
mod decide;
pub(crate) mod describe;
mod election;
mod fragments;
mod leader;
mod learner;
mod lease;
mod led;
mod messages;
mod mutants;
mod offers;
mod presence;
mod protocol;
mod quorum;
mod reads;
mod recover;
mod rejoin;
mod repair;
mod replica;
mod role;
mod spread;
#[cfg(test)]
mod tests;
mod wire;

pub use crate::shared::ballot::Ballot;
pub use crate::shared::timers::Timer;
pub(crate) use coding::Coding;
pub use config::{Config, Thresholds};
pub(crate) use config::{failures_survived, known, params};
pub use fragments::Fragments;
pub use messages::{Accept, Claim, Lead, Message, Promise, Record, SlotVote};
pub use mutants::Fault;
pub(crate) use protocol::BRANCHES;
pub use protocol::RsPaxos;
pub use quorum::{Quorums, Row, table};
pub use replica::Replica;
