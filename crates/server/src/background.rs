//! Work that takes seconds, on a thread of its own, behind everything that somebody waits for.

use std::{io, thread};
use tokio::sync::oneshot;

/// Behind the threads that do long work for the core.
const NICENESS: i32 = 10;

/// Does something on a thread of its own, which gets what of the cores nobody else wants. The receiver has its result;
/// it is closed without one if the work panicked.
///
/// # Errors
/// The system has no thread to give.
pub fn in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (report, done) = oneshot::channel();
    let run = move || {
        // Only a courtesy to other threads: refused, it changes nothing.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        // Nobody may wait for it any more.
        let _ = report.send(work());
    };
    thread::Builder::new().name(name.into()).spawn(run)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_work_is_behind_the_thread_that_asked_for_it() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let done = in_background("test", niceness).unwrap();
        assert!(done.blocking_recv().unwrap() >= niceness().max(NICENESS));
        let panicked = in_background("test", || panic!("on purpose")).unwrap();
        assert!(panicked.blocking_recv().is_err());
    }
}
