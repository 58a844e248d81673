//! When clients send: as soon as the last answer came, or by a clock that waits for nobody.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Semaphore;

/// A stretch of load with an end: filling, warming up or measuring.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) started: Instant,
    duration: Option<Duration>,
    total: u64,
    next: AtomicU64,
    pace: Option<Pace>,
}

/// Leave to send one operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// Its number within the phase.
    pub(crate) number: u64,
    /// When it should be sent. Latency counts from here, so that an operation which a stalled
    /// server keeps from being sent is not left out of the figures (coordinated omission).
    pub(crate) intended: Instant,
}

/// An open loop: one turn per interval, whatever the clients are doing.
#[derive(Debug)]
struct Pace {
    interval: Duration,
    due: Semaphore,
}

impl Phase {
    /// A phase that ends after `duration` or after `total` turns, at `rate` turns per second or
    /// as fast as clients come back.
    pub(crate) fn start(duration: Option<Duration>, total: u64, rate: Option<f64>) -> Phase {
        let pace = rate.map(|rate| Pace {
            interval: Duration::from_secs_f64(1.0 / rate),
            due: Semaphore::new(0),
        });
        let by_rate = |(duration, rate): (Duration, f64)| (duration.as_secs_f64() * rate) as u64;
        let total = duration
            .zip(rate)
            .map_or(total, |both| total.min(by_rate(both)));
        Phase {
            started: Instant::now(),
            duration,
            total,
            next: AtomicU64::new(0),
            pace,
        }
    }

    /// Whether no more turns will be given.
    pub(crate) fn over(&self) -> bool {
        self.next.load(Relaxed) >= self.total || self.too_late(Instant::now())
    }

    /// Waits for a turn; `None` when the phase is over.
    pub(crate) async fn turn(&self) -> Option<Turn> {
        if let Some(pace) = &self.pace {
            pace.due.acquire().await.ok()?.forget();
        }
        let now = Instant::now();
        if self.too_late(now) {
            return None;
        }
        let number = self.next.fetch_add(1, Relaxed);
        let intended = self
            .pace
            .as_ref()
            .map_or(now, |pace| self.due_at(pace, number));
        (number < self.total).then_some(Turn { number, intended })
    }

    /// Turns that fell due and that no client was free to take.
    pub(crate) fn unsent(&self) -> u64 {
        let taken = self.next.load(Relaxed).min(self.total);
        self.pace
            .as_ref()
            .map_or(0, |pace| self.due_by(pace, Instant::now()) - taken)
    }

    /// Gives out turns when they fall due; returns when all are given. A phase without a rate
    /// needs none of this.
    pub(crate) async fn drive(&self, clients: usize) -> io::Result<()> {
        let Some(pace) = &self.pace else {
            return Ok(());
        };
        // The runtime's timers count milliseconds; a kernel timer is a hundred times finer.
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        // A runtime knows no timers from outside, but reads one like any pipe.
        let mut timer = Receiver::from_owned_fd_unchecked(timer)?;
        let mut given = 0;
        while given < self.total {
            let due = self.due_by(pace, Instant::now());
            pace.due.add_permits((due - given) as usize);
            given = due;
            let wait = self
                .due_at(pace, given)
                .saturating_duration_since(Instant::now());
            sleep(&mut timer, wait.max(WAIT_MIN)).await?;
        }
        // One more each, so that clients waiting for a turn find that the phase is over.
        pace.due.add_permits(clients);
        Ok(())
    }

    fn due_at(&self, pace: &Pace, number: u64) -> Instant {
        let nanos = pace.interval.as_nanos() * u128::from(number);
        self.started + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn due_by(&self, pace: &Pace, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.started).as_nanos();
        let due = passed / pace.interval.as_nanos().max(1) + 1;
        u64::try_from(due).unwrap_or(u64::MAX).min(self.total)
    }

    fn too_late(&self, now: Instant) -> bool {
        self.duration
            .is_some_and(|duration| now.saturating_duration_since(self.started) >= duration)
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

/// Turns closer together than this are given out in groups.
const WAIT_MIN: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn a_closed_loop_gives_exactly_the_turns_asked_for() {
        block_on(async {
            let phase = Phase::start(None, 3, None);
            let mut numbers = Vec::new();
            while let Some(turn) = phase.turn().await {
                numbers.push(turn.number);
            }
            assert_eq!(numbers, [0, 1, 2]);
            assert!(phase.over());
            assert_eq!(phase.unsent(), 0);
        });
    }

    #[test]
    fn an_open_loop_dates_late_turns_back_to_when_they_were_due() {
        block_on(async {
            let phase = Phase::start(None, 4, Some(1000.0));
            phase.drive(1).await.expect("a timer");
            // All four turns are taken now, but were due a millisecond apart.
            let mut intended = Vec::new();
            while let Some(turn) = phase.turn().await {
                intended.push(turn.intended.duration_since(phase.started).as_millis());
            }
            assert_eq!(intended, [0, 1, 2, 3]);
        });
    }

    #[test]
    fn turns_nobody_took_are_counted() {
        block_on(async {
            let phase = Phase::start(Some(Duration::from_millis(5)), u64::MAX, Some(1000.0));
            phase.drive(0).await.expect("a timer");
            assert_eq!(phase.unsent(), 5);
        });
    }
}
