//! What a real etcd did, kept in a file, so that a test needs no etcd.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::step::Outcome;

/// What a reference did for some seeds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Recording {
    /// What the reference is.
    pub(crate) of: String,
    /// Steps of each sequence.
    pub(crate) steps: u64,
    /// The recorded sequences, in the order of their seeds.
    pub(crate) sequences: Vec<Sequence>,
}

/// What a reference did for one seed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sequence {
    pub(crate) seed: u64,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Recording {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Recording, String> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        serde_json::from_str(&text)
            .map_err(|error| format!("{} is not a recording: {error}", path.display()))
    }

    /// Writes a file, with a line for each outcome.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        // Within a text quotes are escaped.
        let text = text.replace("},{\"", "},\n{\"") + "\n";
        fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}
