//! Fuzzing of decoders with what stable Rust has.
//!
//! A [`Fuzz`] begins with real encodings and the inputs kept in its corpus, and mutates them. Every
//! input goes through the decoder, which must not panic, must not allocate more than its [`Limits`]
//! say, and must be done in time; then a check of what came out, such as that it encodes to the same
//! bytes again. Inputs that make the decoder say something it has not said before are mutated
//! further, so that the search gets deeper into the format.
//!
//! Without coverage from the compiler that is weaker per input than a guided fuzzer, and it runs
//! where tests run: a fixed number of inputs from a fixed seed within `cargo test`, and for as long
//! as wanted with `scripts/fuzz.sh --long`.
//!
//! What fails is shrunk, and kept in the corpus: a text file with one input a line, in hexadecimal,
//! behind it what it is about.
#![allow(
    clippy::disallowed_methods,
    reason = "how long a search runs, and how long an input takes, is measured here"
)]

mod corpus;
mod judge;
mod mutate;
mod recorded;
mod run;

pub use judge::Limits;
pub use mutate::mutate;
pub use recorded::{check_recorded, check_recorded_wire, is_to_be_recorded};
pub use run::{Fuzz, rounds};
