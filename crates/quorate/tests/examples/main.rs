//! The examples as programs: the counter of the guide, in three processes of which one is killed, and the services.

#![allow(
    clippy::disallowed_methods,
    reason = "the test reads what processes say on threads of its own"
)]

mod api;
mod services;

use quorate_tooling::ports::free_ports;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// What takes longer never happens.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most lines of the example that are neither blank nor comments.
const LINES_MAX: usize = 60;

fn source() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/counter.rs");
    std::fs::read_to_string(path).unwrap()
}

/// The example as `cargo test` builds it beside the tests.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap();
    let program = folder.join("examples").join(name);
    assert!(program.exists(), "cargo build -p quorate --example {name}");
    program
}

struct Counter {
    process: Child,
    input: ChildStdin,
    output: Receiver<String>,
}

impl Counter {
    fn start(folder: &Path, id: u16, port: u16) -> Counter {
        let mut process = Command::new(program("counter"))
            .args([id.to_string(), port.to_string()])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Counter {
            input: process.stdin.take().unwrap(),
            output,
            process,
        }
    }

    fn says(&mut self) -> String {
        let line = self.output.recv_timeout(PATIENCE);
        line.expect("it says nothing more")
    }

    fn asked(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").unwrap();
        self.says()
    }

    fn kill(&mut self) {
        // SIGKILL, on Unix.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_count_goes_on_without_a_process_that_was_killed_and_it_catches_up() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(4).unwrap();
    let start = |id| Counter::start(folder.path(), id, port);
    let mut counters = [start(1), start(2), start(3)];
    for (id, counter) in (1..).zip(&mut counters) {
        assert_eq!(counter.says(), format!("node {id} runs"));
    }
    for (value, counter) in (1..).zip(&mut counters) {
        assert_eq!(counter.asked("1"), value.to_string());
    }
    counters[1].kill();
    for value in 4..=10_u64 {
        assert_eq!(
            counters[value as usize % 2 * 2].asked("1"),
            value.to_string()
        );
    }
    counters[1] = start(2);
    assert_eq!(counters[1].says(), "node 2 runs");
    assert_eq!(counters[1].asked(""), "10");
    // Without another one, so that it has to have everything itself.
    counters[0].kill();
    assert_eq!(counters[1].asked("1"), "11");
}

#[test]
fn the_example_is_short() {
    let source = source();
    let lines = source.lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    let count = code.count();
    assert!(count <= LINES_MAX, "{count} lines");
}

#[test]
fn the_guide_prints_the_example() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/embed.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let printed = format!("```rust\n{}```\n", source());
    assert!(
        guide.contains(&printed),
        "print examples/counter.rs in docs/guide/embed.md again"
    );
}
