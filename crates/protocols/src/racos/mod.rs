//! Racos: leaderless replication of values in segments (Zarnstorff et al., SPAA'24).
//!
//! Whoever takes a long value cuts it into segments, any `k` of which rebuild it, and spreads them, one to
//! each member. Once `k + f` have theirs on their disks the value is a *candidate*: its manifest, an entry
//! without its payloads, goes to all, and Weak-MVC orders it as Rabia orders batches. Nobody leads, and every
//! replica writes `1/k` of what it stores. Small values travel whole within batches, as in Rabia.
//!
//! The slots are `crate::rabia::weak_mvc`'s, with one lane for each origin, so that origins do not compete; idle
//! lanes cost no message (its documentation). This machine has one of those within it and does what is left:
//! segments, acknowledgements, and what becomes of both.
//!
//! # Why it is safe
//!
//! All that `crate::rabia::weak_mvc` argues for slots (I1 to I10) stands: a candidate is a batch to it, and
//! `k + f` is none of its thresholds. `README.md` beside this file maps the paper to the functions.
//!
//! - C1: what is proposed had `k + f` durable holders first. An acknowledgement is sent behind the record of
//!   the segment (`segments.rs`); an origin counts each member once, and itself once its own record is
//!   durable (`Replica::announce_if_held`, which asserts the number). Nothing else makes a candidate: a
//!   manifest that came with a segment has no candidate bit, and after a restart only what has one is given
//!   to Weak-MVC (`recover.rs`).
//! - C1, continued: acknowledgements of a member count until it loses its disk. `losses.rs` argues why an
//!   origin learns of that in time, and `rejoin.rs` why the member votes again only when it holds what
//!   may count on it.
//! - C2: a value that is decided and live keeps `k + f` holders, less those that are lost: a holder lets go
//!   only of what its origin's [`Message::Roster`] leaves out, and an origin leaves out only what it never
//!   announced (C5). Everything else is the host's: decided and superseded, or of an epoch that is over.
//! - With `merged` a proposal says what a candidate does otherwise: its sender has its segment on its disk. So `T`
//!   is `k + f` at least, and whatever is decided had so many holders (C1). Nobody lets go of what may have been
//!   proposed, unless the log made it void, from which on it is skipped by all (C7, `voids.rs`).
//! - C4: the host checks digests when it rebuilds.
//! - C6: reads ask for marks as Rabia's do; a candidate is a request with `T` proposers like any other.
//! - C7, C8, C9: what is undecided is void with its epoch (the host's seal), and applied prefixes are equal.
//!
//! # Flushes
//!
//! In sequence, for a value that is spread: the segments; that it was announced, together with the own
//! proposal; the proposals of the others. With `merged` there is one: the segments together with the proposals
//! that they stand for. One more of votes if those do not decide at once.

mod adapt;
mod check;
mod config;
mod describe;
mod figures;
mod life;
mod losses;
mod messages;
mod mutants;
mod protocol;
mod recover;
mod rejoin;
mod replica;
mod roster;
mod segments;
mod spread;
#[cfg(test)]
mod tests;
mod voids;
mod wire;

pub use config::{Config, Thresholds};
pub use life::Life;
pub use messages::{Manifest, Message, Record, SegAck, Spread, Timer, Undecided};
pub use mutants::Fault;
pub use protocol::Racos;
pub use replica::Replica;
