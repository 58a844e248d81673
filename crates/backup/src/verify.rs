//! Whether a backup is whole.

use crate::error::BackupError;
use crate::folder::{Folder, check_full};
use crate::segment::SegmentReader;
use std::path::PathBuf;

/// Revisions any of which can be restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The first of them.
    pub first: i64,
    /// The last of them.
    pub last: i64,
}

/// What was found in a backup all of whose files were read.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verified {
    /// How many full snapshots there are that are whole.
    pub fulls: usize,
    /// How many changes there are.
    pub changes: u64,
    /// The revisions that can be restored, ascending.
    pub ranges: Vec<Range>,
    /// The segments whose last record was never written whole: a machine stopped there. Nothing is wrong with them.
    pub torn: Vec<PathBuf>,
    /// What is damaged, in words.
    pub damaged: Vec<String>,
}

impl Folder {
    /// Reads every file, and says what can be restored.
    ///
    /// # Errors
    /// What the operating system says of the folder. What is wrong with files is among what was found.
    pub fn verify(&self) -> Result<Verified, BackupError> {
        let mut found = Verified::default();
        // From a revision on there are all changes, before another one.
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for segment in self.segments()? {
            let next = match SegmentReader::open(&segment.path, segment.first) {
                Ok(reader) => found.read(reader, segment.path),
                Err(why) => found.note(&why, segment.first),
            };
            found.changes += next.abs_diff(segment.first);
            match runs.last_mut() {
                Some((_, end)) if segment.first <= *end => *end = next.max(*end),
                _ => runs.push((segment.first, next)),
            }
        }
        for full in self.fulls()? {
            match check_full(&full.path) {
                Ok(revision) if revision == full.revision => found.fulls += 1,
                Ok(revision) => {
                    let what = format!("it has revision {revision}, and its name says another");
                    found.note(&BackupError::new(&full.path, what), 0);
                    continue;
                }
                Err(why) => {
                    found.note(&why, 0);
                    continue;
                }
            }
            let after = full.revision + 1;
            let run = runs
                .iter()
                .find(|(first, next)| (*first..*next).contains(&after));
            let last = run.map_or(full.revision, |(_, next)| next - 1);
            found.add(Range {
                first: full.revision,
                last,
            });
        }
        Ok(found)
    }
}

impl Verified {
    /// Reads a segment to its end; returns the revision after its last change.
    fn read(&mut self, mut reader: SegmentReader, path: PathBuf) -> i64 {
        loop {
            match reader.next_change() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(why) => return self.note(&why, reader.next()),
            }
        }
        if reader.is_torn() {
            self.torn.push(path);
        }
        reader.next()
    }

    fn note(&mut self, why: &BackupError, next: i64) -> i64 {
        self.damaged.push(why.to_string());
        next
    }

    fn add(&mut self, range: Range) {
        match self.ranges.last_mut() {
            Some(last) if range.first <= last.last + 1 => last.last = range.last.max(last.last),
            _ => self.ranges.push(range),
        }
    }
}
