//! Runs the laboratory's program, which runs `quorate` beside it.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a module of each test file, which uses a part of it"
)]

#[path = "../../../../crates/cli/tests/cli/support/program.rs"]
pub mod program;

use program::program;
use std::process::Command;

/// The program, without options from the environment of whoever runs the tests.
pub fn lab() -> Command {
    program(env!("CARGO_BIN_EXE_quorate-lab"))
}
