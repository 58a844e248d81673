//! A timer that is not rounded to milliseconds, as those of the runtime are.

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Goes off after a time in ns.
#[derive(Debug)]
pub(crate) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// A timer that is not set.
    pub(crate) fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[allow(
            deprecated,
            reason = "its successor is unsafe for the sake of types that give their descriptor \
                      away; an OwnedFd keeps it"
        )]
        AsyncFd::with_interest(timer, Interest::READABLE).map(Timer)
    }

    /// Goes off after so many ns, in the place of what was set before; never where there are none.
    pub(crate) fn set(&self, after_ns: Option<u64>) -> io::Result<()> {
        // Zero would disarm it.
        let ns = after_ns.map_or(0, |ns| ns.max(1));
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let setting = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: (ns % 1_000_000_000).cast_signed(),
            },
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }

    /// Waits until the timer goes off.
    pub(crate) async fn wait(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let mut expirations = [0; 8];
            let read = rustix::io::read(ready.get_inner(), &mut expirations);
            match read {
                Ok(_) => return Ok(()),
                // It was set anew after it went off.
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
