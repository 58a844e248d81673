//! What the kernel knows of its own clock: how far it is off at most, by the word of the daemon that keeps
//! it in step (NTP, PTP), and by how much that has grown since.

use quorate_core::MICROS;
use std::io;

/// What the kernel says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Discipline {
    /// Whether a daemon keeps the clock in step.
    pub(super) is_synchronised: bool,
    /// How far off it is at most, ns. Grows by itself until the daemon speaks again.
    pub(super) max_error_ns: u64,
    /// How far off the daemon thinks it is, ns.
    pub(super) estimated_error_ns: u64,
}

/// Asks the kernel, which takes less than a microsecond and no privilege.
///
/// # Errors
/// That of the operating system: some sandboxes forbid the question.
#[cfg(target_os = "linux")]
#[allow(
    unsafe_code,
    reason = "neither rustix nor nix wraps adjtimex(2), and the crates that do belong to daemons that \
              set clocks"
)]
pub(super) fn ask() -> io::Result<Discipline> {
    // SAFETY: `timex` is integers through and through, so all zeros are a value of it. `modes` 0 means that
    // nothing is set: the kernel only writes into the struct, which is ours alone and as long as the C library
    // declares it.
    let (state, timex) = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut timex), timex)
    };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    let micros = |us: libc::c_long| u64::try_from(us).unwrap_or(0).saturating_mul(MICROS);
    let is_bad = state == libc::TIME_ERROR || timex.status & libc::STA_UNSYNC != 0;
    Ok(Discipline {
        is_synchronised: !is_bad,
        max_error_ns: micros(timex.maxerror),
        estimated_error_ns: micros(timex.esterror),
    })
}

/// Nobody to ask.
#[cfg(not(target_os = "linux"))]
pub(super) fn ask() -> io::Result<Discipline> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_or_says_why_not() {
        match ask() {
            // The kernel takes a clock for lost at 16 s.
            Ok(discipline) if discipline.is_synchronised => {
                assert!(discipline.max_error_ns < 16_000_000_000, "{discipline:?}");
            }
            Ok(_) => {}
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }
}
