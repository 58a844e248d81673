//! Whole groups in virtual time, and the server that they stand on compared with real ones.

#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time"
)]

mod conversation;
mod conversations;
mod real;
mod seeds;
