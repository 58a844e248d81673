//! What is made from files, and made anew when these change.

use crate::error::TlsError;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_millis(200);

type Load<T> = Box<dyn Fn() -> Result<T, TlsError> + Send + Sync>;

/// Something that is made from files. A change of them is noticed when it is asked for; one that makes no sense is
/// told in the log, and what was made before stays.
pub(crate) struct Watched<T> {
    paths: Vec<PathBuf>,
    load: Load<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    made: Arc<T>,
    stamps: Vec<Stamp>,
    looked_at: Instant,
    /// What was wrong when the files were read last.
    complaint: Option<String>,
}

/// What differs between a file and another one in its place.
#[derive(PartialEq, Eq, Debug)]
struct Stamp(Option<(u64, u64, i64, i64)>);

impl Stamp {
    fn of(path: &Path) -> Stamp {
        let found = std::fs::metadata(path).ok();
        Stamp(found.map(|found| (found.ino(), found.len(), found.mtime(), found.mtime_nsec())))
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl<T> Watched<T> {
    pub(crate) fn new(
        paths: Vec<PathBuf>,
        load: impl Fn() -> Result<T, TlsError> + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let stamps = paths.iter().map(|path| Stamp::of(path)).collect();
        let state = State {
            made: Arc::new(load()?),
            stamps,
            looked_at: Instant::now(),
            complaint: None,
        };
        Ok(Watched {
            paths,
            load: Box::new(load),
            state: Mutex::new(state),
        })
    }

    /// What the files say now, as far as that makes sense.
    pub(crate) fn present(&self) -> Arc<T> {
        let mut state = self.state();
        if state.looked_at.elapsed() >= LOOK_EVERY {
            state.looked_at = Instant::now();
            self.look(&mut state);
        }
        Arc::clone(&state.made)
    }

    fn look(&self, state: &mut State<T>) {
        let stamps: Vec<Stamp> = self.paths.iter().map(|path| Stamp::of(path)).collect();
        if stamps == state.stamps {
            return;
        }
        match (self.load)() {
            Ok(made) => {
                state.made = Arc::new(made);
                (state.stamps, state.complaint) = (stamps, None);
                tracing::info!(files = ?self.paths, "certificates were read again, since their files have changed");
            }
            // The next look tries again: one of two files may be replaced by now.
            Err(error) => {
                let why = error.to_string();
                if state.complaint.as_ref() != Some(&why) {
                    tracing::warn!(
                        "certificates that were read before stay in use, since new ones cannot be: {why}"
                    );
                    state.complaint = Some(why);
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
