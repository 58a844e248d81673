//! A fair-access exchange, as a program on the `quorate` crate.
//!
//! [`book`] is the matching engine of one symbol: no clock, no floats, no order of hashing. The time it knows is handed
//! to it, so that replicas which are told the same come to the same. [`exchange`] is the state machine of many symbols
//! that replicas run.

pub mod book;
pub mod exchange;
mod wire;

pub use wire::WireError;
