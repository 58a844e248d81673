//! Why there is no encrypted connection, or none at all.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// Why something about TLS does not work. The text says what is wrong, with whose certificate, and what to do.
#[derive(Debug)]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    File {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Settings that contradict each other or name what does not exist.
    Settings(String),
    /// A caller speaks no TLS, where that is required.
    Plain,
    /// Somebody else closed the connection during the handshake.
    Closed,
    /// The handshake did not end in time.
    Timeout,
    /// A certificate that is not taken, or that is missing.
    Certificate(String),
    /// A refusal by whoever is at the other end, or a TLS that is not allowed here.
    Refused(String),
    /// The connection failed.
    Io(io::Error),
}

impl TlsError {
    pub(crate) fn file(path: &Path, why: impl fmt::Display) -> TlsError {
        TlsError::File {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }

    /// The kind of trouble, for those who count.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            TlsError::File { .. } | TlsError::Settings(_) => "settings",
            TlsError::Plain => "plain",
            TlsError::Closed => "closed",
            TlsError::Timeout => "timeout",
            TlsError::Certificate(_) => "certificate",
            TlsError::Refused(_) => "refused",
            TlsError::Io(_) => "connection",
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::File { path, why } => write!(f, "{}: {why}", path.display()),
            TlsError::Plain => f.write_str("it speaks plain text, and this port wants TLS: use https://"),
            TlsError::Closed => f.write_str(
                "the connection was closed during the TLS handshake: does the other side speak TLS?",
            ),
            TlsError::Timeout => f.write_str("the TLS handshake did not end in time"),
            TlsError::Settings(why) | TlsError::Certificate(why) | TlsError::Refused(why) => {
                f.write_str(why)
            }
            TlsError::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for TlsError {}

impl From<io::Error> for TlsError {
    fn from(error: io::Error) -> TlsError {
        TlsError::Io(error)
    }
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> io::Error {
        match error {
            TlsError::Io(error) => error,
            TlsError::Timeout => io::Error::new(io::ErrorKind::TimedOut, error),
            TlsError::Closed => io::Error::new(io::ErrorKind::ConnectionReset, error),
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}
