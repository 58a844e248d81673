//! When clients send: as soon as the last answer came, or by a clock that waits for nobody.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::pace::{Arrivals, Pace};

/// A stretch of load with an end: filling, warming up or measuring.
#[derive(Debug)]
pub(super) struct Phase {
    pub started: Instant,
    duration: Option<Duration>,
    total: u64,
    next: AtomicU64,
    pace: Option<Pace>,
}

/// Leave to send one operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// The operation's number within the phase.
    pub number: u64,
    /// When it should be sent. Latency counts from here, so that an operation which a stalled
    /// server keeps from being sent is not left out of the figures (coordinated omission).
    pub intended: Instant,
}

impl Phase {
    /// A phase that ends after `duration` or after `total` turns, at so many turns per second or
    /// as fast as clients come back.
    pub(super) fn start(
        duration: Option<Duration>,
        total: u64,
        rate: Option<(f64, Arrivals)>,
    ) -> Phase {
        Phase {
            started: Instant::now(),
            duration,
            total,
            next: AtomicU64::new(0),
            pace: rate.map(|(rate, arrivals)| Pace::new(rate, arrivals)),
        }
    }

    /// Whether no more turns will be given.
    pub(super) fn over(&self) -> bool {
        self.next.load(Relaxed) >= self.total || self.too_late(Instant::now())
    }

    /// Waits for a turn; `None` when the phase is over.
    pub(super) async fn turn(&self) -> Option<Turn> {
        if let Some(pace) = &self.pace {
            pace.wait().await;
        }
        let now = Instant::now();
        if self.too_late(now) {
            return None;
        }
        let intended = match &self.pace {
            Some(pace) => pace.take()?,
            None => now,
        };
        let number = self.next.fetch_add(1, Relaxed);
        (number < self.total).then_some(Turn { number, intended })
    }

    /// Turns that fell due and that no client was free to take.
    pub(super) fn unsent(&self) -> u64 {
        self.pace.as_ref().map_or(0, Pace::left)
    }

    /// Gives out turns when they fall due; returns when all are given. A phase without a rate
    /// needs none of this.
    pub(super) async fn drive(&self, clients: usize) -> io::Result<()> {
        if let Some(pace) = &self.pace {
            let end = self.duration.map(|duration| self.started + duration);
            pace.drive(self.started, end, self.total).await?;
            // Clients waiting for a turn find that the phase is over.
            pace.end(clients);
        }
        Ok(())
    }

    fn too_late(&self, now: Instant) -> bool {
        self.duration
            .is_some_and(|duration| now.saturating_duration_since(self.started) >= duration)
    }
}

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
            let phase = Phase::start(None, 4, Some((1000.0, Arrivals::Even)));
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
            let phase = Phase::start(
                Some(Duration::from_millis(5)),
                u64::MAX,
                Some((1000.0, Arrivals::Even)),
            );
            phase.drive(0).await.expect("a timer");
            assert_eq!(phase.unsent(), 5);
        });
    }
}
