//! Real processes under load and faults, round after round, and everything that clients were told, checked.
//!
//! One engine and two plans of faults. The engine has what both share: the clients of a round and what they are told
//! ([`session`], [`client`], [`requests`]), stretches of load ([`stage`]), questions to the replicas ([`state`]), and
//! the rounds of a run with their violations ([`series`]). The plans are
//!
//! - [`rounds`]: in each round of a kind the same happens to the cluster, and how long clients wait is measured;
//! - [`chaos`]: one or two faults are drawn of all that this machine allows, and all answers and watches are held
//!   against the order that the replicas executed;
//! - [`redis`]: the face of Redis, with clients and a checker of its own.

mod args;
pub mod chaos;
mod client;
mod guest;
mod operators;
pub mod redis;
mod requests;
pub mod rounds;
mod series;
mod session;
mod stage;
mod state;
