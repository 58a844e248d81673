//! Every schedule of small clusters.
//!
//! Machines run here as they ship, shrunk only through the parameters of their epoch; what their
//! hosts do is modelled ([`model`](self) says how). Two kinds of search:
//!
//! - The general one takes every step that any replica may take in every order: hear a message,
//!   be woken by a timer, finish a write, crash and come back, lose everything, be asked by a
//!   client, catch up. Messages that were sent stay, and may be heard at any time or never.
//! - Layer by layer, one instance of larger clusters: in each layer every replica hears what any
//!   set of the others has said so far.
//!
//! # What is checked
//!
//! - Agreement: what any replica, in any of its lives, decided in a slot is what all decide.
//! - Validity: only what clients asked for is decided; at most once; in the order of slots.
//! - Reads are fresh: the slot a read is answered at is behind everything decided when it began.
//! - Honesty: no replica finds that another broke the protocol.
//! - The protocol's lemmas ([`quorate_core::Machine::check`]) and its assertions.
//! - Layer by layer: some outcome of the coin leads everybody to the same value, whatever they hear.
//!
//! The first violation found is told as a schedule, step by step; in the general search no shorter
//! one exists.

mod equivalence;
#[cfg(test)]
mod fingerprint_test;
mod host_model;
mod interner;
mod kinds;
mod layers;
mod node;
mod options;
mod panics;
mod perform;
mod report;
mod runner;
mod scope;
mod search;
mod state_cache;
mod table;
mod tuples;
mod turns;

pub use options::ModelOptions;
pub use runner::run;
