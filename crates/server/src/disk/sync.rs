//! Syncs log and fragment store at once.
//!
//! One after the other they would take twice as long, for the second waits for the disk's cache as the
//! first did (`docs/decisions/0010-bulk.md`).

use super::DiskError;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{io, thread};

/// Files to be synced, with their paths.
type Files = Vec<(PathBuf, Arc<File>)>;

/// Syncs files on two threads; the second one starts when it is needed first.
#[derive(Debug, Default)]
pub(super) struct Syncer {
    helper: Option<Helper>,
}

#[derive(Debug)]
struct Helper {
    files: Sender<Files>,
    done: Receiver<Result<(), DiskError>>,
}

impl Syncer {
    /// Puts everything that was written to these files on stable storage.
    pub(super) fn sync(&mut self, log: Files, fragments: Files) -> Result<(), DiskError> {
        if log.is_empty() || fragments.is_empty() {
            return sync_all(&log).and_then(|()| sync_all(&fragments));
        }
        let helper = match &mut self.helper {
            Some(helper) => helper,
            none => match Helper::start() {
                Ok(helper) => none.insert(helper),
                // Without a second thread they are synced one after the other.
                Err(_) => return sync_all(&log).and_then(|()| sync_all(&fragments)),
            },
        };
        let gone = || DiskError::new("sync", &fragments[0].0, &io::ErrorKind::BrokenPipe.into());
        helper.files.send(fragments.clone()).map_err(|_| gone())?;
        let synced = sync_all(&log);
        // Also after an error: nothing may be under way when this returns.
        let also_synced = helper.done.recv().map_err(|_| gone())?;
        synced.and(also_synced)
    }
}

impl Helper {
    /// Starts the thread; it ends with this.
    fn start() -> io::Result<Self> {
        let (files, taken) = channel::<Files>();
        let (report, done) = channel();
        let work = move || {
            while let Ok(files) = taken.recv() {
                // Who waits for it may have ended.
                let _ = report.send(sync_all(&files));
            }
        };
        thread::Builder::new().name("sync".into()).spawn(work)?;
        Ok(Helper { files, done })
    }
}

fn sync_all(files: &Files) -> Result<(), DiskError> {
    for (path, file) in files {
        let synced = file.sync_data();
        synced.map_err(|error| DiskError::new("sync", path, &error))?;
    }
    Ok(())
}
