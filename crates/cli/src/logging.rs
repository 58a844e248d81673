//! Where logs go, for people or for machines.

use crate::Failure;
use crate::modes::LogFormat;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

/// What is logged, and how.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct LogOptions {
    /// error, warn, info, debug, trace, or a filter such as info,quorate_server=debug [default: info]
    #[arg(long, env = "QUORATE_LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<String>,

    /// How logs are written [default: text]
    #[arg(long, env = "QUORATE_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    /// Where logs go: stderr, stdout, or paths of files that are appended to, with commas [default: stderr]
    #[arg(
        long,
        env = "QUORATE_LOG_OUTPUTS",
        value_name = "LIST",
        value_delimiter = ','
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    log_outputs: Vec<String>,
}

impl LogOptions {
    /// Fills in defaults.
    pub(crate) fn resolve(self) -> LogSettings {
        LogSettings {
            level: self.log_level.unwrap_or_else(|| "info".to_owned()),
            format: self.log_format.unwrap_or(LogFormat::Text),
            outputs: self.log_outputs,
        }
    }
}

/// What is logged, and how, with defaults for what was not given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogSettings {
    /// A level, or a filter such as `info,quorate_server=debug`.
    pub(crate) level: String,
    pub(crate) format: LogFormat,
    /// `stderr`, `stdout`, or paths; none for standard error.
    pub(crate) outputs: Vec<String>,
}

impl LogSettings {
    /// Settings of a log that goes to standard error.
    pub(crate) fn on_stderr(level: &str, format: LogFormat) -> LogSettings {
        LogSettings {
            level: level.to_owned(),
            format,
            outputs: Vec::new(),
        }
    }
}

/// Starts the log of this process.
pub(crate) fn start(settings: &LogSettings) -> Result<(), Failure> {
    let level = &settings.level;
    let filter = filter(level).ok_or_else(|| {
        Failure::Usage(format!(
            "--log-level {level:?} is neither a level (off, error, warn, info, debug, trace) nor a list of \
             them for crates, as in info,quorate_server=debug"
        ))
    })?;
    let outputs = Outputs::open(&settings.outputs).map_err(Failure::Failed)?;
    let is_colourful = outputs.are_terminals();
    let lines = fmt::layer().with_writer(outputs);
    let lines = match settings.format {
        LogFormat::Text => lines.with_ansi(is_colourful).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    registry().with(lines).with(filter).init();
    Ok(())
}

/// The filter that a level, or a list of levels for crates, stands for; `None` for anything else.
fn filter(level: &str) -> Option<Targets> {
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let mut words = level
        .split(',')
        .map(|word| word.rsplit('=').next().unwrap_or(word));
    words.all(is_level).then(|| level.parse().ok()).flatten()
}

/// Where a line goes.
#[derive(Clone, Debug)]
enum Output {
    Stderr,
    Stdout,
    File(Arc<File>),
}

/// Everywhere a line goes.
#[derive(Clone, Debug)]
struct Outputs(Vec<Output>);

impl Outputs {
    /// Opens what is named; standard error if nothing is.
    fn open(names: &[String]) -> Result<Outputs, String> {
        let mut outputs = Vec::new();
        for name in names.iter().map(|name| name.trim()) {
            outputs.push(match name {
                "" => continue,
                "stderr" => Output::Stderr,
                "stdout" => Output::Stdout,
                path => Output::File(Arc::new(append_to(path)?)),
            });
        }
        if outputs.is_empty() {
            outputs.push(Output::Stderr);
        }
        Ok(Outputs(outputs))
    }

    fn are_terminals(&self) -> bool {
        self.0.iter().all(|output| match output {
            Output::Stderr => stderr().is_terminal(),
            Output::Stdout => stdout().is_terminal(),
            Output::File(_) => false,
        })
    }
}

fn append_to(path: &str) -> Result<File, String> {
    let mut options = File::options();
    options.append(true).create(true).mode(0o600);
    let file = options.open(path);
    file.map_err(|error| format!("--log-outputs: cannot open {path}: {error}"))
}

impl<'a> MakeWriter<'a> for Outputs {
    type Writer = &'a Outputs;

    fn make_writer(&'a self) -> &'a Outputs {
        self
    }
}

/// An output that fails does not keep a line from the others, and nobody could be told.
impl Write for &Outputs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        for output in &self.0 {
            let _ = match output {
                Output::Stderr => stderr().write_all(line),
                Output::Stdout => stdout().write_all(line),
                Output::File(file) => file.as_ref().write_all(line),
            };
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_levels_of_crates_are_filters_and_other_words_are_not() {
        for level in ["info", "off", "warn,quorate_server=debug"] {
            assert!(filter(level).is_some(), "{level}");
        }
        for level in ["loud", "", "info,quorate_server", "quorate_server=loud"] {
            assert!(filter(level).is_none(), "{level}");
        }
    }

    #[test]
    fn a_line_goes_to_every_file_and_what_was_there_stays() {
        let home = tempfile::tempdir().unwrap();
        let names = ["a", "b"].map(|name| home.path().join(name).display().to_string());
        for line in ["one\n", "two\n"] {
            let outputs = Outputs::open(&names).unwrap();
            outputs.make_writer().write_all(line.as_bytes()).unwrap();
        }
        for name in &names {
            assert_eq!(std::fs::read_to_string(name).unwrap(), "one\ntwo\n");
        }
        let error = Outputs::open(&[home.path().display().to_string()]).unwrap_err();
        assert!(error.contains("--log-outputs: cannot open"), "{error}");
    }
}
