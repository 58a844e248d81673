//! Programs that commands and benches start: with which arguments, where their output goes, and the line
//! that says that they are ready.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::children::{Tether, Tethered, lines};

/// How a program is started, each time.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The executable of the program.
    pub program: PathBuf,
    /// The arguments behind the program's name.
    pub arguments: Vec<String>,
    /// The file that standard error is appended to.
    pub log: PathBuf,
    /// Where standard output goes.
    pub output: StandardOutput,
    /// What ties the process to this one.
    pub tether: Tether,
}

/// Where the standard output of a program goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardOutput {
    /// Nobody reads the output.
    Discarded,
    /// The output is appended to the program's log.
    Logged,
    /// The output is read line by line, by [`Running::wait_for`].
    Read,
}

/// A program that was started. Dropped, it is killed and waited for.
#[derive(Debug)]
pub struct Running {
    process: Tethered,
    /// The lines of its output, where that is read.
    lines: Option<Receiver<String>>,
}

impl Launch {
    /// A program whose output is discarded and that is asked to end when this process ends.
    pub fn new(program: &Path, arguments: Vec<String>, log: PathBuf) -> Launch {
        Launch {
            program: program.to_owned(),
            arguments,
            log,
            output: StandardOutput::Discarded,
            tether: Tether::default(),
        }
    }

    /// Starts the program.
    ///
    /// # Errors
    ///
    /// A message for people that names the program.
    pub fn start(&self) -> Result<Running, String> {
        self.start_with(|_| {})
    }

    /// Starts the program after `prepare` changed its environment or directory.
    ///
    /// # Errors
    ///
    /// A message for people that names the program.
    pub fn start_with(&self, prepare: impl FnOnce(&mut Command)) -> Result<Running, String> {
        let started = self.spawn(prepare);
        started.map_err(|error| format!("cannot start {}: {error}", self.program.display()))
    }

    fn spawn(&self, prepare: impl FnOnce(&mut Command)) -> io::Result<Running> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let output = match self.output {
            StandardOutput::Discarded => Stdio::null(),
            StandardOutput::Logged => log.try_clone()?.into(),
            StandardOutput::Read => Stdio::piped(),
        };
        let program = self.program.as_os_str();
        let mut process = Tethered::program(program, &self.arguments, &self.tether, |command| {
            command.stdin(Stdio::null()).stdout(output).stderr(log);
            prepare(command);
        })?;
        let lines = process.child().stdout.take().map(lines);
        Ok(Running { process, lines })
    }
}

impl Running {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether the process has ended, and how.
    pub fn ended(&mut self) -> Option<String> {
        self.process.ended()
    }

    /// Asks the process to end, waits up to `patience`, then kills it.
    pub fn stop(&mut self, patience: Duration) {
        self.process.stop(patience);
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Errors
    ///
    /// A message without a subject, when the process has not ended after `patience`.
    pub fn wait_ended(&mut self, patience: Duration) -> Result<(), String> {
        let deadline = Instant::now() + patience;
        while self.ended().is_none() {
            if Instant::now() > deadline {
                return Err("did not end in time".to_owned());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Reads lines of output until `find` makes something of one, and returns that.
    ///
    /// # Errors
    ///
    /// A message without a subject, when the deadline has passed or the output has ended before.
    pub fn wait_for<T>(
        &mut self,
        deadline: Instant,
        mut find: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, String> {
        let lines = self.lines.as_ref().ok_or("has no output to read")?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(found) = find(line.trim()) {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err("did not serve in time".to_owned()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("ended without serving".to_owned());
                }
            }
        }
    }
}

/// Takes the options of `quorate` out of the environment of a command: they are meant for whoever runs
/// this process.
pub fn without_options(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("QUORATE_") {
            command.env_remove(name);
        }
    }
}

/// The last lines of a file; nothing if it cannot be read.
pub fn last_lines(path: &Path, count: usize) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let end = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
    let text = String::from_utf8_lossy(end);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(count)..].join("\n")
}

const POLL: Duration = Duration::from_millis(2);
const TAIL_BYTES: usize = 64 << 10;
