//! Why a file cannot be used.

use std::fmt;
use std::io;

/// What is wrong with a file.
#[derive(Debug)]
pub enum Fault {
    /// The file could not be read or written.
    Io(io::Error),
    /// The file does not begin as an RDB does.
    NoRdb,
    /// The file was written by a newer server, in this format.
    Version(String),
    /// The file ends too early, or a length in it reaches beyond its end.
    Short,
    /// The bytes make no sense where they are.
    Damaged(&'static str),
    /// The checksum at the end is not that of the bytes before it.
    Checksum,
    /// The file holds something that cannot be taken over.
    Refused(&'static str),
}

/// What is wrong with a file, and where.
#[derive(Debug)]
pub struct RdbError {
    /// What is wrong.
    pub fault: Fault,
    /// The byte behind which it was found.
    pub at: u64,
    /// The key that was being read.
    pub key: Option<String>,
}

/// The bytes of a key that an error shows.
const SHOWN_BYTES: usize = 80;

impl RdbError {
    /// What is wrong with a key that was read up to a byte.
    #[must_use]
    pub fn of_key(fault: Fault, at: u64, key: Option<&[u8]>) -> RdbError {
        let shown = key.map(|key| {
            let shown = &key[..key.len().min(SHOWN_BYTES)];
            String::from_utf8_lossy(shown).into_owned()
        });
        RdbError {
            fault,
            at,
            key: shown,
        }
    }
}

impl fmt::Display for RdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = &self.key {
            write!(f, "key {key:?}: ")?;
        }
        match &self.fault {
            Fault::Io(error) => error.fmt(f),
            Fault::NoRdb => {
                f.write_str("it is no RDB file: it does not begin with REDIS or VALKEY")
            }
            Fault::Version(version) => write!(
                f,
                "its format {version} is newer than those that this program reads"
            ),
            Fault::Short => write!(
                f,
                "it is cut off or damaged: it ends too early, at byte {}",
                self.at
            ),
            Fault::Damaged(what) => write!(f, "it is damaged at byte {}: {what}", self.at),
            Fault::Checksum => f.write_str("it is damaged: its checksum is not that of its bytes"),
            Fault::Refused(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for RdbError {}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Fault::Short,
            _ => Fault::Io(error),
        }
    }
}
