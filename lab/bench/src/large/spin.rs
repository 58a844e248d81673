//! A process that uses as much CPU time as it is told, in place of something that does work.

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use quorate_tooling::children::{self, Tethered};

/// The hidden `spin` subcommand.
#[derive(Debug, Clone, Args)]
pub struct SpinArgs {
    /// The process that starts this one.
    parent: u32,
    /// The share of a core to use.
    share: f64,
}

/// Uses its share of a core until the process that started it ends; returns only if it cannot.
pub(crate) fn spin(args: &SpinArgs) -> std::io::Error {
    if let Err(error) = children::tie_to_parent(args.parent, Signal::KILL) {
        return error;
    }
    let began = Instant::now();
    let mut counter = 0u64;
    loop {
        if used() >= began.elapsed().mul_f64(args.share) {
            std::thread::sleep(NAP);
            continue;
        }
        for _ in 0..ROUNDS {
            counter = black_box(counter.wrapping_add(1));
        }
    }
}

fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Starts as many processes as it takes to use so many cores.
pub(super) fn start(cores: f64) -> std::io::Result<Vec<Tethered>> {
    let me = std::process::id().to_string();
    let share = |share: f64| Tethered::of_self(["spin", &me, &share.to_string()]);
    shares(cores).into_iter().map(share).collect()
}

/// Equal shares of as few cores as will do.
fn shares(cores: f64) -> Vec<f64> {
    let count = cores.max(0.0).ceil() as usize;
    vec![cores / count.max(1) as f64; count]
}

/// Shorter than a large put keeps a core.
const NAP: Duration = Duration::from_millis(1);
/// About ten microseconds.
const ROUNDS: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_and_no_more_than_a_core() {
        assert_eq!(shares(1.5), [0.75, 0.75]);
        assert_eq!(shares(1.0), [1.0]);
        assert_eq!(shares(0.0), Vec::<f64>::new());
    }
}
