//! Runs a program to its end, as tests of this one and of the laboratory's do.

#![allow(
    clippy::disallowed_methods,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a module of each test file, which uses a part of it"
)]

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longer than anything takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A program, without options from the environment of whoever runs the tests.
pub fn program(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(path);
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

/// Sends a signal to a process of ours, which may have ended already.
pub fn signal(id: u32, signal: Signal) {
    let pid = Pid::from_raw(id.cast_signed()).unwrap();
    let _ = kill_process(pid, signal);
}
