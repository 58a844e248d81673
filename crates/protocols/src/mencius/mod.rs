//! Mencius (Mao, Junqueira and Marzullo, OSDI'08), with lanes that are taken over whole.
//!
//! The slots of the log are dealt to the members in turn: each owns a lane. An owner suggests entries in its own slots
//! at ballot 0, without a phase 1; everybody else may only bring about that a slot holds none. So "I skip", said by an
//! owner, decides at once, and idle members hold up nobody. Where an owner is silent, another member takes its
//! lane over by one phase 1 for all slots from one on, and fills it by phase 2 alone until the owner is back (after
//! Cui, Charapko and others, SRDS'24, of which we know the idea and not the text).
//!
//! It is a yardstick: safe, to be compared with, and neither tuned nor whole.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it. `Machine::check`
//! (`check.rs`) asserts what one replica can see, the tests watch the rest:
//!
//! - M1: at ballot 0 there is the owner's entry alone, one per slot: an own slot is used once and `OwnLane::next`
//!   never falls, nor across starts (`Replica::restore`).
//! - M2: an entry in a slot was formed by the slot's owner: acceptors take no other (`Replica::on_suggest`), and who
//!   takes a lane over proposes what promises showed, or no-ops (`Replica::fill`).
//! - M3: no slot has two values. Per slot this is Paxos: a value is chosen when a majority has accepted it at one
//!   ballot, and a phase 1 that hears from a majority proposes the accepted value of the highest ballot. What a
//!   member has delivered it shows no more; nothing is proposed in slots before the furthest of those
//!   (`Replica::lead`). Skipping adds one way to decide, and M4 and M2 say why it agrees: in a slot in which its
//!   owner has never suggested anything, and never will, nobody can propose anything but a no-op, at any ballot.
//! - M4: what an owner skips, and what it ever suggested or will, are disjoint, across starts. Skips name what was
//!   suggested (`OwnLane::skips`), they speak only of slots from `OwnLane::from` on, which no earlier start reserved,
//!   and the reservation is durable before anybody hears of them, the replica itself included (`Replica::say`,
//!   `Replica::settle_skips`).
//! - M5: what a member promised for a lane never falls, covers all its slots, and outlives crashes
//!   (`Replica::raise`). A ballot is promised by its own maker, durably, before anybody hears of it, so that no
//!   later start uses it again.
//! - M6: slots are delivered in order, without gaps (`Replica::deliver_all`).
//! - M7: an entry that was suggested again, because its slot was thought lost, takes effect in the first of its
//!   slots alone (`Replica::deliver`, [`crate::DecidedSet`]).
//!
//! An acceptor may forget, at a restart, that it accepted an entry in a slot, if that entry is decided in an
//! earlier one: the host drops such records. The slot then may come to hold a no-op where others have the entry a
//! second time. Both are delivered as a no-op (M7).
//!
//! # Silence
//!
//! There are no heartbeats. A replica that waits for slots others have to fill asks them, which makes idle owners
//! skip, and suspects those it does not hear. A cluster where nobody waits arms no timer.
//!
//! # Lost promises
//!
//! A replica that lost its promises accepts, promises, suggests and skips nothing, and answers for nothing: it learns,
//! and is one of those that may fail, until an epoch replaces it (`recover.rs`).

mod acceptor;
mod check;
mod clients;
mod config;
mod describe;
mod lanes;
mod learner;
mod messages;
mod mutants;
mod owner;
mod protocol;
mod reads;
mod recover;
mod replica;
mod state;
mod takeover;
#[cfg(test)]
mod tests;
mod waits;
mod wire;

pub use config::{Acks, Config, Delays, Thresholds};
pub use lanes::Span;
pub use messages::{Header, Learned, Message, Record, Shown, Skips, Timer};
pub use mutants::Fault;
pub use protocol::Mencius;
pub use replica::Replica;
