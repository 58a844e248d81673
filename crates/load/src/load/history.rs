//! The history clients saw, as JSON lines for outside checkers.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// A history being written.
#[derive(Debug)]
pub(super) struct History {
    file: Mutex<BufWriter<File>>,
}

/// One operation as its client saw it.
#[derive(Debug, Serialize)]
pub(super) struct Operation<'a> {
    /// The client; it has one operation at a time.
    pub client: u32,
    /// `put` or `get`.
    pub op: &'static str,
    /// The key that was asked for.
    pub key: &'a str,
    /// What was written or read: the part of the value that names its write; null for nothing.
    pub value: Option<String>,
    /// Sent, in nanoseconds since the run began.
    pub start_ns: u64,
    /// Answered, or given up.
    pub end_ns: u64,
    /// `ok`, or `unknown` when it may or may not have happened.
    pub result: &'static str,
    /// The store's revision in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Whether a read was allowed to be stale.
    #[serde(skip_serializing_if = "is_false")]
    pub serializable: bool,
    /// The endpoint asked.
    pub endpoint: &'a str,
    /// Why the result is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

impl History {
    /// Creates the file.
    pub(super) fn create(path: &Path) -> Result<History, String> {
        let file = File::create(path)
            .map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(History {
            file: Mutex::new(BufWriter::with_capacity(1 << 20, file)),
        })
    }

    /// Appends one line.
    pub(super) fn record(&self, operation: &Operation<'_>) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_writer(&mut *file, operation)?;
        file.write_all(b"\n")
    }

    /// Writes out what is still in memory.
    pub(super) fn finish(&self) -> io::Result<()> {
        self.file
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .flush()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}
