//! The next segment, prepared ahead: filled with zeros and synced before its first use, because
//! overwriting written blocks syncs twice as fast as filling new ones. Where writes are long that is
//! little of what they take, and its blocks are only reserved. A segment that was released is as good,
//! and costs nothing. Where neither is there in time, one whose blocks are reserved has to do: its
//! flushes take longer, and nobody waits for it.

use super::blocks::{SLICE_BYTES, fill, reserve};
use super::error::is_full;
use super::pool::Pool;
use super::space;
use super::turnover::Turnover;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const SPARE_FILE: &str = "spare.tmp";
/// Below everything else this replica does.
const NICENESS: i32 = 10;
/// While nobody waits for it a slice takes so long, for the log's own flushes share the disk, as those of
/// others may; less if segments were used up in less time than this takes twice.
const SLICE_DURATION: Duration = Duration::from_millis(60);
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a replica that serves waits for a preparation under way: its thread may get no time, and the
/// disk may be behind.
const PATIENCE: Duration = Duration::from_millis(20);

/// Segment files that wait for their number: one that was prepared, and those that were released.
#[derive(Debug)]
pub(super) struct Preallocator {
    path: PathBuf,
    pool: Pool,
    /// Size of the segments asked for so far, and of those prepared ahead.
    size: u64,
    /// Whether what is written is so long that blocks need not have been written before.
    are_long: bool,
    /// How long to wait for a preparation under way, before a segment is used that was only reserved.
    patience: Duration,
    /// When the last one was asked for.
    taken: Option<Instant>,
    /// Why there was no space for the preparation before the one that is under way.
    short: Option<String>,
    state: Arc<(Mutex<Preparation>, Condvar)>,
    turnover: Arc<Turnover>,
}

#[derive(Debug)]
enum Preparation {
    None,
    Preparing,
    /// A segment is being prepared, and somebody waits for it.
    Awaited,
    Ready(u64),
    Failed {
        why: String,
        full: bool,
        at: Instant,
    },
}

impl Preallocator {
    /// Begins with what a former process left, as far as it is whole. So many released segments are kept
    /// to be used again.
    pub(super) fn open(dir: &Path, kept_max: usize) -> io::Result<Self> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Preallocator::new(dir, kept_max));
            }
            entries => entries?,
        };
        let preallocator = Preallocator::new(dir, kept_max);
        for entry in entries {
            let path = entry?.path();
            let is_left = path.extension().is_some_and(|found| found == "tmp");
            // One that was begun is filled on.
            if is_left && !preallocator.pool.adopt(&path)? && path != preallocator.path {
                fs::remove_file(path)?;
            }
        }
        Ok(preallocator)
    }

    fn new(dir: &Path, kept_max: usize) -> Self {
        let turnover = Arc::<Turnover>::default();
        Preallocator {
            path: dir.join(SPARE_FILE),
            pool: Pool::new(dir, kept_max, Arc::clone(&turnover)),
            size: 0,
            are_long: false,
            patience: PATIENCE,
            taken: None,
            short: None,
            state: Arc::new((Mutex::new(Preparation::None), Condvar::new())),
            turnover,
        }
    }

    /// Puts a file of `size` written bytes at `path` and begins to prepare the next one; where writes are long, so that
    /// to write its blocks twice would cost more than it gains, they are only reserved. The caller syncs the folder.
    pub(super) fn take(&mut self, path: &Path, size: u64, are_long: bool) -> io::Result<()> {
        // A larger record gets a segment of its own; the usual size is the smallest seen.
        let usual = self.size == 0 || size <= self.size;
        if !usual && reserve(path, size).is_ok() {
            return Ok(());
        }
        if !usual {
            let own = path.with_extension("tmp");
            fill(&own, size, &self.turnover, |_| ())?;
            return fs::rename(own, path);
        }
        (self.size, self.are_long) = (size, are_long);
        let lasted = self.taken.replace(Instant::now()).map(|at| at.elapsed());
        if let Some(released) = self.pool.take(size) {
            fs::rename(released, path)?;
            self.turnover.reused();
            if self.pool.is_empty() && !self.is_ready() {
                self.prepare(lasted, None);
            }
            return Ok(());
        }
        if !self.is_done_within(self.patience) && reserve(path, size).is_ok() {
            tracing::debug!(path = %path.display(), "no segment was prepared in time");
            self.slow_down();
            return Ok(());
        }
        if !matches!(self.wait(), Preparation::Ready(ready) if ready == size) {
            let filled = fill(&self.path, size, &self.turnover, |_| ());
            filled.inspect_err(|error| *lock(&self.state.0) = Preparation::failed(error))?;
        }
        fs::rename(&self.path, path)?;
        self.prepare(lasted, None);
        Ok(())
    }

    /// Begins to prepare a segment of the usual size before one is asked for.
    pub(super) fn expect(&mut self, size: u64) {
        self.size = size;
        if self.pool.is_empty() {
            self.prepare(None, None);
        }
    }

    /// The pool that released segments go to.
    pub(super) fn pool(&self) -> Pool {
        self.pool.clone()
    }

    /// What became of segments so far.
    pub(super) fn turnover(&self) -> &Turnover {
        &self.turnover
    }

    /// Why the disk refused the last attempt for want of space, also while the next attempt is under way.
    pub(super) fn trouble(&self) -> Option<String> {
        if !self.pool.is_empty() {
            return None;
        }
        match &*lock(&self.state.0) {
            Preparation::Failed {
                why, full: true, ..
            } => Some(why.clone()),
            state if state.is_under_way() => self.short.clone(),
            _ => None,
        }
    }

    /// Whether a preparation is under way.
    pub(super) fn is_preparing(&self) -> bool {
        lock(&self.state.0).is_under_way()
    }

    /// Prepares again what failed a while ago.
    pub(super) fn retry(&mut self) {
        let failed = match &*lock(&self.state.0) {
            Preparation::Failed { why, full, at } if at.elapsed() >= RETRY_AFTER => {
                Some(full.then(|| why.clone()))
            }
            _ => None,
        };
        if let Some(short) = failed {
            self.prepare(None, short);
        }
    }

    /// Whether no preparation is under way after at most so long.
    fn is_done_within(&self, patience: Duration) -> bool {
        let (_, changed) = &*self.state;
        let state = self.speed_up();
        let is_under_way = |state: &mut Preparation| state.is_under_way();
        let waited = changed.wait_timeout_while(state, patience, is_under_way);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.is_under_way()
    }

    /// Waits for a preparation under way and takes its result.
    fn wait(&self) -> Preparation {
        let (_, changed) = &*self.state;
        let mut state = self.speed_up();
        while state.is_under_way() {
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::replace(&mut state, Preparation::None)
    }

    /// A preparation under way does not rest any more.
    fn speed_up(&self) -> MutexGuard<'_, Preparation> {
        let (state, changed) = &*self.state;
        let mut state = lock(state);
        if matches!(*state, Preparation::Preparing) {
            *state = Preparation::Awaited;
            changed.notify_all();
        }
        state
    }

    /// Nobody waits for a preparation under way any more.
    fn slow_down(&self) {
        let mut state = lock(&self.state.0);
        if matches!(*state, Preparation::Awaited) {
            *state = Preparation::Preparing;
        }
    }

    /// Whether one is prepared, or about to be.
    fn is_ready(&self) -> bool {
        let state = lock(&self.state.0);
        state.is_under_way() || matches!(*state, Preparation::Ready(_))
    }

    /// The last segment lasted so long, if that is known; the last attempt failed for want of space, if it did, as
    /// `short` says.
    fn prepare(&mut self, lasted: Option<Duration>, short: Option<String>) {
        let is_retry = short.is_some();
        self.short = short;
        *lock(&self.state.0) = Preparation::Preparing;
        let (shared, path, size) = (Arc::clone(&self.state), self.path.clone(), self.size);
        let turnover = Arc::clone(&self.turnover);
        let slice_duration = slice_duration(size, lasted);
        let are_long = self.are_long;
        let work = move || {
            // Only a courtesy to other threads: refused, it changes nothing.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            // Where space was short, what little there is is not taken from others again and again.
            let has_space = !is_retry || space::has_free(&path, size);
            let written = || {
                fill(&path, size, &turnover, |took| {
                    pause(&shared, slice_duration.saturating_sub(took));
                })
            };
            let result = match has_space {
                // Not every file system can reserve blocks.
                true if are_long => reserve(&path, size).or_else(|_| written()),
                true => written(),
                false => Err(io::ErrorKind::StorageFull.into()),
            };
            match &result {
                Err(error) if !is_retry => tracing::warn!(
                    path = %path.display(),
                    "cannot prepare the next log segment: {error}; without space on this disk \
                     writes are refused and reads go on"
                ),
                Err(error) => {
                    tracing::debug!("there is no space for the next segment yet: {error}")
                }
                Ok(()) => {}
            }
            let (state, changed) = &*shared;
            *lock(state) = Preparation::after(size, result);
            changed.notify_all();
        };
        if let Err(error) = thread::Builder::new()
            .name("spare-segment".into())
            .spawn(work)
        {
            *lock(&self.state.0) = Preparation::after(self.size, Err(error));
        }
    }
}

impl Preparation {
    fn is_under_way(&self) -> bool {
        matches!(self, Preparation::Preparing | Preparation::Awaited)
    }

    fn after(size: u64, result: io::Result<()>) -> Preparation {
        match result {
            Ok(()) => Preparation::Ready(size),
            Err(error) => Preparation::failed(&error),
        }
    }

    fn failed(error: &io::Error) -> Preparation {
        Preparation::Failed {
            why: error.to_string(),
            full: is_full(error),
            at: Instant::now(),
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked while holding it left a value all the same.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a slice may take, so that the whole is there in half the time that the last segment lasted.
fn slice_duration(size: u64, lasted: Option<Duration>) -> Duration {
    let slices = u32::try_from(size.div_ceil(SLICE_BYTES)).unwrap_or(u32::MAX);
    lasted.map_or(SLICE_DURATION, |lasted| {
        (lasted / 2 / slices.max(1)).min(SLICE_DURATION)
    })
}

/// Lets the disk rest, unless somebody waits.
fn pause((state, changed): &(Mutex<Preparation>, Condvar), pause: Duration) {
    let is_at_leisure = |state: &mut Preparation| matches!(state, Preparation::Preparing);
    let _ = changed.wait_timeout_while(lock(state), pause, is_at_leisure);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn size(path: &Path) -> u64 {
        fs::metadata(path).unwrap().len()
    }

    #[test]
    fn segments_come_from_the_spare_and_odd_sizes_do_not_disturb_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut preallocator = Preallocator::new(dir.path(), 2);
        for (name, bytes) in [("1", 4096), ("2", 4096), ("3", 3 << 20), ("4", 4096)] {
            let path = dir.path().join(name);
            preallocator.take(&path, bytes, false).unwrap();
            assert_eq!(size(&path), bytes);
        }
        assert!(matches!(preallocator.wait(), Preparation::Ready(4096)));
        assert_eq!(size(&dir.path().join(SPARE_FILE)), 4096);
        assert_eq!(preallocator.trouble(), None);
    }

    #[test]
    fn a_segment_that_was_expected_is_there_when_it_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut preallocator = Preallocator::new(dir.path(), 2);
        preallocator.expect(8192);
        let prepared = preallocator.wait();
        assert!(matches!(prepared, Preparation::Ready(8192)));
        *lock(&preallocator.state.0) = prepared;
        preallocator
            .take(&dir.path().join("large"), 3 << 20, false)
            .unwrap();
        assert!(
            matches!(*lock(&preallocator.state.0), Preparation::Ready(8192)),
            "not for that one"
        );
        preallocator
            .take(&dir.path().join("1"), 8192, false)
            .unwrap();
        assert_eq!(size(&dir.path().join("1")), 8192);
        assert!(
            matches!(preallocator.wait(), Preparation::Ready(8192)),
            "the next one"
        );
    }

    #[test]
    fn nobody_waits_for_a_segment_that_is_not_prepared_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut preallocator = Preallocator::new(dir.path(), 2);
        preallocator
            .take(&dir.path().join("1.seg"), 8192, false)
            .unwrap();
        preallocator.wait();
        // As if the thread that prepares it never ran.
        *lock(&preallocator.state.0) = Preparation::Preparing;
        let second = dir.path().join("2.seg");
        preallocator.take(&second, 8192, false).unwrap();
        assert_eq!(fs::read(&second).unwrap(), [0; 8192]);
        assert!(matches!(
            *lock(&preallocator.state.0),
            Preparation::Preparing
        ));
    }

    #[test]
    fn released_segments_come_first_and_no_more_are_kept_than_needed() {
        let dir = tempfile::tempdir().unwrap();
        let mut preallocator = Preallocator {
            // However slow the disk is.
            patience: Duration::from_secs(600),
            ..Preallocator::new(dir.path(), 2)
        };
        let path = |name| dir.path().join(name);
        for name in ["1.seg", "2.seg", "3.seg", "4.seg"] {
            preallocator.take(&path(name), 8192, false).unwrap();
        }
        let prepared = preallocator.wait();
        *lock(&preallocator.state.0) = prepared;
        let pool = preallocator.pool();
        for name in ["1.seg", "2.seg", "3.seg"] {
            pool.free(&path(name));
        }
        let names = || {
            let mut names: Vec<_> = fs::read_dir(dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(), ["1.tmp", "2.tmp", "4.seg", "spare.tmp"]);
        for name in ["5.seg", "6.seg", "7.seg"] {
            preallocator.take(&path(name), 8192, false).unwrap();
        }
        preallocator.wait();
        assert_eq!(
            names(),
            ["4.seg", "5.seg", "6.seg", "7.seg", "spare.tmp"],
            "two were released, one was prepared"
        );
        let (filled, reused, removed) = preallocator.turnover().read();
        assert_eq!((filled, reused, removed), (6 * 8192, 2, 1));
        let mut next = Preallocator::open(dir.path(), 2).unwrap();
        assert_eq!(
            names(),
            ["4.seg", "5.seg", "6.seg", "7.seg", "former-1.tmp"],
            "what was prepared is used by the next process"
        );
        next.expect(8192);
        assert!(!next.is_ready(), "nothing has to be prepared");
        next.take(&path("8.seg"), 8192, false).unwrap();
        assert_eq!(next.turnover().read(), (0, 1, 0));
    }

    #[test]
    fn a_segment_is_filled_at_leisure_but_before_the_next_one_is_wanted() {
        let seconds = |s| Some(Duration::from_secs(s));
        assert_eq!(slice_duration(64 << 20, None), SLICE_DURATION);
        assert_eq!(slice_duration(64 << 20, seconds(3600)), SLICE_DURATION);
        assert_eq!(
            slice_duration(64 << 20, seconds(2)) * 64,
            Duration::from_secs(1)
        );
        assert_eq!(slice_duration(8192, seconds(0)), Duration::ZERO);
    }

    #[test]
    fn a_spare_that_was_begun_is_no_segment_and_is_filled_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SPARE_FILE);
        let begun = File::create(&path).unwrap();
        begun.set_len(1 << 20).unwrap();
        let mut preallocator = Preallocator::open(dir.path(), 2).unwrap();
        assert!(path.exists() && preallocator.pool.is_empty());
        preallocator.expect(1 << 20);
        assert!(matches!(preallocator.wait(), Preparation::Ready(_)));
        assert_eq!(preallocator.turnover().read().0, 1 << 20);
    }

    #[test]
    fn a_full_disk_is_noticed_before_the_segment_is_needed() {
        // Every write to /dev/full fails with ENOSPC; its length cannot be set, so fill is
        // bypassed and only the judgement is tested.
        let mut preallocator = Preallocator::new(Path::new("/nonexistent"), 2);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        *lock(&preallocator.state.0) = Preparation::after(1, Err(full));
        assert!(preallocator.trouble().is_some());
        if let Preparation::Failed { at, .. } = &mut *lock(&preallocator.state.0) {
            *at -= RETRY_AFTER;
        }
        preallocator.retry();
        preallocator.wait();
        *lock(&preallocator.state.0) = Preparation::Preparing;
        assert!(preallocator.trouble().is_some(), "while it is tried again");
        *lock(&preallocator.state.0) = Preparation::Ready(1);
        assert_eq!(preallocator.trouble(), None);
        let other = io::Error::from(io::ErrorKind::PermissionDenied);
        *lock(&preallocator.state.0) = Preparation::after(1, Err(other));
        assert_eq!(preallocator.trouble(), None);
    }
}
