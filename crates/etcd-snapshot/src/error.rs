//! What can be wrong with a file of etcd's.

use std::fmt;
use std::io;

/// Why a file cannot be read or written.
#[derive(Debug)]
pub enum FileError {
    /// The operating system said no.
    Io(io::Error),
    /// The content is not what etcd writes; says where and in what way.
    Damaged(String),
}

impl FileError {
    /// A file that is damaged in this way.
    pub(crate) fn damaged(what: impl fmt::Display) -> Self {
        FileError::Damaged(what.to_string())
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        FileError::Io(error)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Io(error) => error.fmt(f),
            FileError::Damaged(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for FileError {}
