//! Open loops: operations fall due by a clock that waits for nobody.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Semaphore;

/// How operations of an open loop are spread over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Arrivals {
    /// One after each interval
    #[default]
    Even,
    /// Each independent of all others (a Poisson process), as those of many users are
    Poisson,
}

/// An open loop.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    arrivals: Arrivals,
    /// When those were due that nobody took yet.
    waiting: Mutex<VecDeque<Instant>>,
    due: Semaphore,
}

impl Pace {
    /// A pace of `rate` operations a second.
    pub(super) fn new(rate: f64, arrivals: Arrivals) -> Pace {
        Pace {
            interval: Duration::from_secs_f64(1.0 / rate),
            arrivals,
            waiting: Mutex::default(),
            due: Semaphore::new(0),
        }
    }

    /// Waits until an operation is due, or all were.
    pub(super) async fn wait(&self) {
        if let Ok(permit) = self.due.acquire().await {
            permit.forget();
        }
    }

    /// When the next one was due; `None` when all were taken.
    pub(super) fn take(&self) -> Option<Instant> {
        self.waiting().pop_front()
    }

    /// Operations that fell due and that no client took.
    pub(super) fn left(&self) -> u64 {
        self.waiting().len() as u64
    }

    /// Lets operations fall due from one time on, until another or until there were so many.
    pub(super) async fn drive(
        &self,
        started: Instant,
        end: Option<Instant>,
        total: u64,
    ) -> io::Result<()> {
        // The runtime's timers count milliseconds; a kernel timer is a hundred times finer.
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        // A runtime knows no timers from outside, but reads one like any pipe.
        let mut timer = Receiver::from_owned_fd_unchecked(timer)?;
        let mut random = fastrand::Rng::new();
        let (mut next, mut given) = (started, 0);
        let is_left = |next: Instant, given| given < total && end.is_none_or(|end| next < end);
        while is_left(next, given) {
            let (now, before) = (Instant::now(), given);
            while is_left(next, given) && next <= now {
                self.waiting().push_back(next);
                next += self.gap(&mut random);
                given += 1;
            }
            self.due.add_permits((given - before) as usize);
            let wait = next.saturating_duration_since(Instant::now());
            if is_left(next, given) {
                sleep(&mut timer, wait.max(WAIT_MIN)).await?;
            }
        }
        Ok(())
    }

    /// Nothing falls due any more: so many that wait find that out.
    pub(super) fn end(&self, waiting: usize) {
        self.due.add_permits(waiting);
    }

    fn gap(&self, random: &mut fastrand::Rng) -> Duration {
        match self.arrivals {
            Arrivals::Even => self.interval,
            Arrivals::Poisson => self.interval.mul_f64(-(1.0 - random.f64()).ln()),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Instant>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sleep(timer: &mut Receiver, wait: Duration) -> io::Result<()> {
    let zero = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let value = Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: wait.subsec_nanos().into(),
    };
    let once = Itimerspec {
        it_interval: zero,
        it_value: value,
    };
    timerfd_settime(&*timer, TimerfdTimerFlags::empty(), &once)?;
    // What is read is the number of expirations since the last read: one.
    timer.read_u64().await?;
    Ok(())
}

/// Operations due closer together than this fall due in groups.
const WAIT_MIN: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    /// The gaps of a Poisson process have a mean, and are longer than it with a chance of 1/e.
    #[test]
    fn arrivals_are_as_far_apart_as_asked_or_by_chance() {
        let gaps = |arrivals| {
            let pace = Pace::new(1000.0, arrivals);
            let mut random = fastrand::Rng::with_seed(1);
            (0..10_000)
                .map(|_| pace.gap(&mut random).as_secs_f64() * 1e3)
                .collect::<Vec<f64>>()
        };
        assert!(gaps(Arrivals::Even).iter().all(|gap| *gap == 1.0));
        let gaps = gaps(Arrivals::Poisson);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let longer = gaps.iter().filter(|gap| **gap > 1.0).count();
        assert!((0.97..1.03).contains(&mean), "{mean}");
        assert!((3_500..3_860).contains(&longer), "{longer}");
    }
}
