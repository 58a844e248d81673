//! Runs the laboratory's program, which runs `quorate` beside it.

#![allow(
    clippy::disallowed_methods,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a module of each test file, which uses a part of it; a test may have threads"
)]

use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use quorate_tooling::children::signal;
use rustix::process::Signal;

/// Longer than anything takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program, without options from the environment of whoever runs the tests.
pub fn lab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate-lab"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("QUORATE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs the program to its end, which must come soon.
pub fn output(command: &mut Command) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    match finished.recv_timeout(PATIENCE) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            signal(id, Signal::KILL);
            panic!("the program did not end: {command:?}");
        }
    }
}
