//! Errors of the system that say nothing about a file: for a moment there are no descriptors or no memory left.

use rustix::io::Errno;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that a thread retries a transient failure, and the pause between attempts.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

const TRANSIENT: [Errno; 6] = [
    Errno::MFILE,
    Errno::NFILE,
    Errno::NOMEM,
    Errno::NOBUFS,
    Errno::AGAIN,
    Errno::INTR,
];

/// Whether the same may succeed soon, and the file is as it was.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    TRANSIENT
        .iter()
        .any(|known| Some(known.raw_os_error()) == code)
}

/// Tries until it succeeds, fails for another reason, or has failed for long.
pub(crate) fn retry_transient<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_transient(&error) && began.elapsed() < PATIENCE => {
                thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let mut errors = vec![Errno::IO, Errno::NFILE, Errno::MFILE];
        let result: io::Result<()> =
            retry_transient(|| Err(errors.pop().expect("one more").into()));
        assert_eq!(
            result.unwrap_err().raw_os_error(),
            Some(Errno::IO.raw_os_error())
        );
        assert!(errors.is_empty());
        assert!(!is_transient(&io::ErrorKind::StorageFull.into()));
    }
}
