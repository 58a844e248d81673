//! Rules about the source text that neither the compiler nor clippy checks.
//!
//! [`rules::all`] reads a [`Tree`] of files and returns [`Finding`]s. A [`Ledger`] holds the findings that were there
//! when a rule came, each with its size: they may shrink, and new ones fail the test. `cargo test -p quorate-tidy` runs
//! the rules over this repository; with `QUORATE_RECORD=1` it takes what has shrunk into the ledger, and writes
//! a ledger, or an order of modules, that is not there.

mod finding;
mod ledger;
pub mod rules;
mod rust;
mod tree;

pub use finding::Finding;
pub use ledger::Ledger;
pub use tree::{Tree, root};
