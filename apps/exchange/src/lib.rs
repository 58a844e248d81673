//! A fair-access exchange, as a program on the `quorate` crate.
//!
//! [`book`] is the matching engine of one symbol: no clock, no floats, no order of hashing. The time it knows is handed
//! to it, so that replicas which are told the same come to the same.

pub mod book;
mod wire;

pub use wire::WireError;
