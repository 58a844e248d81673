//! What can go wrong with a server process.

use crate::version::{Flavour, ServerVersion};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A server process that cannot be had. The text says what an operator can do.
#[derive(Debug)]
pub enum ProcessError {
    /// No program has one of the names that were looked for.
    NotFound,
    /// A program could not be asked for its version.
    Unusable {
        /// The path of the program.
        path: PathBuf,
        /// What happened when it was run.
        why: String,
    },
    /// A program is too old.
    TooOld {
        /// The path of the program.
        path: PathBuf,
        /// The family it belongs to.
        flavour: Flavour,
        /// The version that it says it has.
        version: ServerVersion,
    },
    /// A file of settings cannot be used.
    Settings {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it, with the line.
        why: String,
    },
    /// A file of users cannot be used.
    Users {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it, with the line.
        why: String,
    },
    /// The folder of a server could not be made.
    Folder {
        /// The path of the folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The process ended before it served.
    Ended {
        /// How it ended, with the last line it printed.
        how: String,
    },
    /// The process did not serve in time.
    Late {
        /// What was waited for.
        what: &'static str,
    },
    /// A server answered at the socket that is not what was started.
    NotOurs {
        /// The difference from what was started.
        why: String,
    },
    /// The connection to a server failed.
    Socket(io::Error),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessError::NotFound => f.write_str(
                "no valkey-server and no redis-server in PATH: install one (as with: apt install redis-server), or \
                 say where one is with --redis-server PATH",
            ),
            ProcessError::Unusable { path, why } => {
                write!(f, "{} is no server that can be run: {why}", path.display())
            }
            ProcessError::TooOld {
                path,
                flavour,
                version,
            } => write!(
                f,
                "{} is {} {version}, and {} or newer is needed",
                path.display(),
                flavour.name(),
                flavour.oldest()
            ),
            ProcessError::Settings { path, why } | ProcessError::Users { path, why } => {
                write!(f, "{}: {why}", path.display())
            }
            ProcessError::Folder { path, error } => {
                write!(f, "the server's folder {}: {error}", path.display())
            }
            ProcessError::Ended { how } => write!(f, "the server ended before it served: {how}"),
            ProcessError::Late { what } => write!(f, "the server was killed: {what}"),
            ProcessError::NotOurs { why } => write!(f, "the server was killed: {why}"),
            ProcessError::Socket(error) => write!(f, "the server's socket: {error}"),
        }
    }
}

impl std::error::Error for ProcessError {}

impl From<io::Error> for ProcessError {
    fn from(error: io::Error) -> ProcessError {
        ProcessError::Socket(error)
    }
}
