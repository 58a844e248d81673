//! Clusters in which nothing goes wrong and something is measured: how long messages take, and what machines count.

use super::faults::{LATE_NS_MAX, Weather};
use super::world::World;
use clap::Args;
use quorate_core::{MICROS, MILLIS};

/// Before figures count.
pub(super) const WARM_UP_NS: u64 = 250 * MILLIS;

/// What runs that measure something are asked alike.
#[derive(Args, Clone, Debug)]
pub(super) struct Calm {
    /// The least time a message takes, in us
    #[arg(long, value_name = "US", default_value_t = 50)]
    pub(super) delay_us: u64,

    /// What a message takes beyond that at most, evenly drawn, in us
    #[arg(long, value_name = "US", default_value_t = 50)]
    pub(super) jitter_us: u64,

    /// Messages that take up to a millisecond more, of a thousand
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) late: u32,

    /// The seed of all runs
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,

    /// Runs at once; by default one per core
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<usize>,
}

impl Calm {
    pub(super) fn weather(&self) -> Weather {
        let (delay_ns, jitter_ns) = (self.delay_us * MICROS, self.jitter_us * MICROS);
        Weather::steady(delay_ns, jitter_ns, self.late)
    }

    /// How long messages take, in words.
    pub(super) fn words(&self) -> String {
        format!(
            "a message takes {} us and up to {} us more, {} of a thousand up to {} ms more",
            self.delay_us,
            self.jitter_us,
            self.late,
            LATE_NS_MAX / MILLIS
        )
    }
}

/// What machines have counted of the paths that entries took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paths {
    fast: f64,
    slow: f64,
    released: f64,
    held_us: f64,
}

impl Paths {
    /// What machines have counted until now.
    pub(super) fn of(world: &World) -> Paths {
        Paths {
            fast: world.figure("answered_fast_total"),
            slow: world.figure("answered_slowly_total"),
            released: world.figure("released_total"),
            held_us: world.figure("held_us_total"),
        }
    }

    /// Since an earlier moment.
    pub(super) fn since(self, before: Paths) -> Paths {
        Paths {
            fast: self.fast - before.fast,
            slow: self.slow - before.slow,
            released: self.released - before.released,
            held_us: self.held_us - before.held_us,
        }
    }

    /// Entries of either path.
    pub(super) fn entries(self) -> f64 {
        self.fast + self.slow
    }

    /// How many of them took the fast one, percent.
    pub(super) fn fast_percent(self) -> f64 {
        100.0 * self.fast / self.entries().max(1.0)
    }

    /// How long a replica held an entry, in the mean, us.
    pub(super) fn held_us(self) -> f64 {
        self.held_us / self.released.max(1.0)
    }
}
