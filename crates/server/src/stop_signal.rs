//! The signals by which a process is told to stop.

use rustix::process::{Signal, getpid, kill_process};
use std::fmt;
use std::future::Future;
use std::io;

/// A signal by which a process is told to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopSignal {
    /// SIGTERM, as service managers send it.
    Terminate,
    /// SIGINT, as a terminal sends it.
    Interrupt,
}

impl StopSignal {
    /// Ends this process by the signal, as one ends that does not handle it: whoever waits for it learns why it ended.
    /// Process 1 of a container is not ended by its own signals; there, this returns.
    #[allow(
        unsafe_code,
        reason = "rustix leaves signal handlers to the C library, and no safe crate restores the default one"
    )]
    pub fn end_process(self) {
        let (number, signal) = match self {
            StopSignal::Terminate => (libc::SIGTERM, Signal::TERM),
            StopSignal::Interrupt => (libc::SIGINT, Signal::INT),
        };
        // SAFETY: no function of this program is installed, only the kernel's own action; the handler that tokio had
        // installed is not needed any more, and whether it runs once more makes no difference.
        unsafe { libc::signal(number, libc::SIG_DFL) };
        // Where that fails the process ends as any other does, with its exit code.
        let _ = kill_process(getpid(), signal);
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopSignal::Terminate => "SIGTERM",
            StopSignal::Interrupt => "SIGINT",
        })
    }
}

/// Completes with the signal that says stop; never in a build without the feature `signals`.
#[cfg(feature = "signals")]
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = StopSignal>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => StopSignal::Terminate,
            _ = interrupt.recv() => StopSignal::Interrupt,
        }
    })
}

/// Completes never: this build leaves signals to the program that it is a part of.
#[cfg(not(feature = "signals"))]
#[allow(
    clippy::unnecessary_wraps,
    reason = "a build with signals may fail here"
)]
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = StopSignal>> {
    Ok(std::future::pending())
}
