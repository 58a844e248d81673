//! The one alarm of a replica.

use quorate_core::SECONDS;
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Wakes the core when its earliest timer is due, on the same clock that timers are set by and
/// without rounding to milliseconds.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    armed_ns: Option<u64>,
}

impl Alarm {
    /// An alarm that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        #[allow(
            deprecated,
            reason = "its successor is unsafe for the sake of types that give their descriptor \
                      away; an OwnedFd keeps it"
        )]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Alarm {
            timer,
            armed_ns: None,
        })
    }

    /// Goes off at `mono_ns` at the latest. An earlier setting is left alone: it costs one needless
    /// wake-up, where moving it with every timer would cost a system call each.
    pub(crate) fn set(&mut self, mono_ns: Option<u64>) -> io::Result<()> {
        match (mono_ns, self.armed_ns) {
            (None, _) => Ok(()),
            (Some(due), Some(armed)) if armed <= due => Ok(()),
            (Some(due), _) => self.arm(due),
        }
    }

    /// Waits until the alarm goes off.
    pub(crate) async fn wait(&mut self) -> io::Result<()> {
        let mut ready = self.timer.readable().await?;
        let mut expirations = [0; 8];
        match rustix::io::read(ready.get_inner(), &mut expirations) {
            Ok(_) => self.armed_ns = None,
            Err(error) if error == rustix::io::Errno::AGAIN => {}
            Err(error) => return Err(error.into()),
        }
        ready.clear_ready();
        Ok(())
    }

    fn arm(&mut self, due: u64) -> io::Result<()> {
        // Zero would disarm it.
        let due = due.max(1);
        let value = Timespec {
            tv_sec: i64::try_from(due / SECONDS).unwrap_or(i64::MAX),
            tv_nsec: (due % SECONDS).cast_signed(),
        };
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let setting = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &setting)?;
        self.armed_ns = Some(due);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ClockSource};
    use crate::test_source::TestSource;
    use quorate_core::MILLIS;

    #[tokio::test]
    async fn the_alarm_goes_off_at_the_earliest_setting_and_can_be_set_again() {
        let clock = Clock::new(ClockSource::default(), TestSource::default());
        let mut alarm = Alarm::new().unwrap();
        for _ in 0..2 {
            let start = clock.mono_ns();
            alarm.set(Some(start + 10_000 * SECONDS)).unwrap();
            alarm.set(Some(start + 5 * MILLIS)).unwrap();
            alarm.set(None).unwrap();
            alarm.wait().await.unwrap();
            let slept = clock.mono_ns() - start;
            assert!(slept >= 5 * MILLIS, "woke after {slept} ns");
        }
    }
}
