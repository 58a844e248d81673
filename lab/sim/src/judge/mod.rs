//! Judges what clients and watchers of an etcd-like store were told, whoever ran it: the
//! simulator, or tools that hurt real processes.
//!
//! # The witness
//!
//! Every change of such a store has a revision of its own, and every answer carries the revision
//! it was given at. So nobody has to search for an order that explains a history: the answers
//! name one. A [`Journal`] holds the changes of every revision, as watchers or an export of the log
//! tell them, and the state at any revision follows. [`check`] then holds everything against it:
//!
//! - An answer given at revision `r` is what the request comes to on the state at `r`; one that
//!   changed something, on the state at `r - 1`, and its changes are exactly those of `r`.
//! - Real time: `r` is no less than any revision acknowledged before the request was sent, and
//!   greater if the request changed something.
//! - Every revision is the work of one request that was sent, once, or the end of a lease.
//!   Requests without an answer may have taken a revision each, or none.
//!
//! Ordering all requests by revision, changes before reads, then by the time they were sent, is a
//! linearization exactly if this holds: the check is exact, and takes time linear in the history but
//! for sorting. Nothing in the journal is believed that the answers contradict.
//!
//! A read that may be stale is held against the state at its revision, too, and may not go back
//! within one life of the replica that gave it.
//!
//! Where users are changed meanwhile, by one of the clients, everything above is judged with their
//! rights (`rights`): no answer, and no revision, to who had no right to it.
//!
//! [`Stream`] holds what one watch was told against the journal.

mod check;
mod eval;
mod journal;
mod op;
mod place;
mod rights;
mod stream;

pub use check::{Summary, check, check_with_sights};
pub use journal::{Journal, covers};
pub use op::{Op, Refusal, Request, Response, Returned};
pub use quorate_etcd_store::Asker;
pub use rights::Sight;
pub(crate) use rights::{ROOT, Users};
pub use stream::Stream;

#[cfg(test)]
mod tests;
