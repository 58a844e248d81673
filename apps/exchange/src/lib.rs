//! A fair-access exchange, as a program on the `quorate` crate.
//!
//! [`book`] is the matching engine of one symbol: no clock, no floats, no order of hashing. The time it knows is handed
//! to it, so that replicas which are told the same come to the same. [`exchange`] is the state machine of many symbols
//! that replicas run.
//! [`feed`] is what everybody sees of it, and [`entry`] what a participant and the exchange say to each other, which
//! [`fix`] does in the shape that trading programs know.
//! [`fair`] gives all participants the same access, and [`simulated`] runs all of it in virtual time. In [`live`] it
//! runs as processes, which say to each other what is in [`link`].

pub mod book;
pub mod entry;
pub mod exchange;
pub mod fair;
pub mod feed;
pub mod fix;
#[cfg(test)]
mod fuzz;
mod histogram;
pub mod link;
pub mod live;
pub mod simulated;
mod wire;

pub use histogram::Histogram;
pub use wire::WireError;
