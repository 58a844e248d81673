//! Runs that have nothing to do with each other, several at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What `run` makes of each item, in their order; by default one job per core.
pub(super) fn run_all<T: Sync, R: Send>(
    items: &[T],
    jobs: Option<usize>,
    run: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return;
            };
            let result = run(item);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.insert(at, result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.unwrap_or(cores).max(1) {
            scope.spawn(work);
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_values().collect()
}
