//! A client program: told what to put on its standard input, and what became of it read from its output.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use clap::Args;

use quorate_tooling::children::{Tether, Tethered, lines};
use quorate_tooling::units;

/// A program and its name in tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) name: String,
    /// The program and its arguments; the endpoints follow.
    command: Vec<String>,
}

impl Spec {
    pub(super) fn parse(text: &str) -> Result<Spec, String> {
        let (name, command) = text.split_once('=').ok_or(SHAPE)?;
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if name.is_empty() || command.is_empty() {
            return Err(SHAPE.to_owned());
        }
        let name = name.to_owned();
        Ok(Spec { name, command })
    }
}

const SHAPE: &str = "must be a name and a command, as in \"go 3.6=target/clients/go-3.6\"";

/// When the puts of a batch begin, and how long each may take.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Pace {
    /// The puts of a batch begin at random moments within so long
    #[arg(long, default_value = "2s", value_parser = units::duration)]
    spread: Duration,
    /// The shortest deadline of a put
    #[arg(long, default_value = "500ms", value_parser = units::duration)]
    deadline_min: Duration,
    /// The longest deadline of a put
    #[arg(long, default_value = "800ms", value_parser = units::duration)]
    deadline_max: Duration,
}

impl Pace {
    /// How long a batch may last.
    pub(super) fn whole(self) -> Duration {
        self.spread + self.deadline_max
    }

    pub(super) fn check(self) -> Result<(), String> {
        match self.deadline_min <= self.deadline_max {
            true => Ok(()),
            false => Err("--deadline-min is longer than --deadline-max".to_owned()),
        }
    }
}

/// How many puts ended in which way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally(pub(super) BTreeMap<String, u32>);

impl Tally {
    /// Puts that were acknowledged.
    pub(super) fn acknowledged(&self) -> u32 {
        self.0.get("ok").copied().unwrap_or(0)
    }

    /// The number of puts, however they ended.
    pub(super) fn puts(&self) -> u32 {
        self.0.values().sum()
    }

    /// Takes a line: a count, a tab, and a way to end.
    fn add(&mut self, line: &str) -> Result<(), String> {
        let (count, outcome) = line.split_once('\t').ok_or_else(|| odd(line))?;
        let count: u32 = count.parse().map_err(|_| odd(line))?;
        *self.0.entry(outcome.to_owned()).or_default() += count;
        Ok(())
    }
}

fn odd(line: &str) -> String {
    format!("the client printed {line:?}, and not how many puts ended in which way")
}

/// A program that runs.
#[derive(Debug)]
pub(super) struct Client {
    name: String,
    input: ChildStdin,
    output: Receiver<String>,
    _process: Tethered,
}

impl Client {
    /// Starts it for these endpoints.
    pub(super) fn start(spec: &Spec, endpoints: &[String]) -> Result<Client, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot start {}: {error}", spec.name);
        let (program, arguments) = spec.command.split_first().ok_or(SHAPE)?;
        let endpoints = endpoints.join(",");
        let arguments = arguments.iter().chain([&endpoints]);
        let mut process = Tethered::program(
            OsStr::new(program),
            arguments,
            &Tether::default(),
            |command| {
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
            },
        )
        .map_err(|error| failed(&error))?;
        let input = process.child().stdin.take();
        let output = process.child().stdout.take();
        Ok(Client {
            name: spec.name.clone(),
            input: input.ok_or_else(|| failed(&"no standard input"))?,
            output: lines(output.ok_or_else(|| failed(&"no standard output"))?),
            _process: process,
        })
    }

    /// Has it put `count` keys whose names begin with `prefix`.
    pub(super) fn begin(&mut self, prefix: &str, count: u32, pace: Pace) -> Result<(), String> {
        let times = [pace.spread, pace.deadline_min, pace.deadline_max];
        let [spread, least, most] = times.map(|time| time.as_millis());
        writeln!(self.input, "{prefix} {count} {spread} {least} {most}")
            .map_err(|error| format!("{} has ended: {error}", self.name))
    }

    /// Waits until every put of the batch has ended.
    pub(super) fn end(&mut self, tally: &mut Tally) -> Result<(), String> {
        let deadline = Instant::now() + BATCH_PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.output.recv_timeout(left);
            let line = line.map_err(|_| format!("{}: no end of a batch", self.name))?;
            if line.is_empty() {
                return Ok(());
            }
            tally.add(&line)?;
        }
    }
}

/// Longer than a library goes on with a put by itself.
const BATCH_PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_a_name_and_a_command() {
        let spec = Spec::parse("go 3.6=target/go --fast").unwrap();
        assert_eq!(spec.name, "go 3.6");
        assert_eq!(spec.command, ["target/go", "--fast"]);
        for text in ["go", "=x", "go=", "go= "] {
            assert!(Spec::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_program_is_told_a_batch_and_its_output_is_counted() {
        let mut tally = Tally::default();
        for line in ["3\tok", "2\tUNAVAILABLE x", "1\tok"] {
            tally.add(line).unwrap();
        }
        assert_eq!((tally.acknowledged(), tally.puts()), (4, 6));
        for line in ["ok", "x\tok", "-1\tok"] {
            assert!(tally.add(line).is_err(), "{line:?}");
        }
    }
}
