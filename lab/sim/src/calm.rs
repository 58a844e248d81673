//! Clusters with the plain store in which nothing goes wrong and writes are measured: how long messages
//! take, and what machines count.

use crate::meter::Measured;
use crate::plan::Arrivals;
use crate::simulator::Simulator;
use crate::steady::{Offers, SPIKE_NS_MAX, Steady};
use clap::Args;
use quorate_core::{Durability, MICROS, MILLIS};
use std::collections::BTreeMap;

/// Time from an input's arrival to the turn that takes it, at most, where cores do not count.
const SERVICE_NS_MAX: u64 = 60 * MICROS;

/// What runs that measure something are asked alike.
#[derive(Args, Clone, Debug)]
pub(crate) struct Calm {
    /// The least time a message takes, in us
    #[arg(long, value_name = "US", default_value_t = 50)]
    pub(crate) delay_us: u64,

    /// What a message takes beyond that at most, evenly drawn, in us
    #[arg(long, value_name = "US", default_value_t = 50)]
    pub(crate) jitter_us: u64,

    /// Messages that take up to a millisecond more, of a thousand
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) late: u32,

    /// The seed of all runs
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,

    /// Runs at once; by default one per core
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
}

/// The replicas of a run.
#[derive(Clone, Debug)]
pub(crate) struct Cluster<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) replicas: usize,
    pub(crate) durability: Durability,
    pub(crate) params: BTreeMap<String, String>,
}

impl Calm {
    /// What is asked for where nothing else is said, of another seed, one run at a time.
    pub(crate) fn usual(seed: u64) -> Calm {
        Calm {
            delay_us: 50,
            jitter_us: 50,
            late: 5,
            seed,
            jobs: Some(1),
        }
    }

    /// A run whose writes come like this.
    ///
    /// # Errors
    /// What is wrong with the options.
    pub(crate) fn simulator(
        &self,
        cluster: &Cluster<'_>,
        arrivals: Arrivals,
        offers: Offers,
    ) -> Result<Simulator, String> {
        let params = cluster.params.iter();
        let params: Vec<(&str, &str)> = params
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        let steady = Steady {
            delay_ns: self.delay_us * MICROS,
            // The mean of what is drawn evenly.
            jitter_ns: self.jitter_us * MICROS / 2,
            spike: f64::from(self.late) / 1000.0,
            service_max_ns: match offers.cores {
                Some(_) => 0,
                None => SERVICE_NS_MAX,
            },
            arrivals,
            offers: Some(offers),
            ..Steady::default()
        };
        let Cluster {
            protocol,
            replicas,
            durability,
            ..
        } = cluster;
        Simulator::steady(protocol, *replicas, *durability, &params, steady)
    }

    /// Runs it, and gives what was measured.
    ///
    /// # Errors
    /// The promise that the run broke.
    pub(crate) fn measure(&self, simulator: &Simulator) -> Result<Measured, String> {
        let report = simulator.seed(self.seed);
        if let Some(violation) = report.violation {
            return Err(violation.to_string());
        }
        report
            .measured
            .ok_or_else(|| "nothing was measured".to_owned())
    }

    /// How long messages take, in words.
    pub(crate) fn words(&self) -> String {
        format!(
            "a message takes {} us and up to {} us more, {} of a thousand up to {} ms more",
            self.delay_us,
            self.jitter_us,
            self.late,
            SPIKE_NS_MAX / MILLIS
        )
    }
}

/// What machines have counted of the paths that entries took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths {
    fast: f64,
    slow: f64,
    released: f64,
    held_us: f64,
}

impl Paths {
    /// What machines counted while it was measured.
    pub(crate) fn of(measured: &Measured) -> Paths {
        let figure = |name: &str| measured.figures.get(name).copied().unwrap_or(0) as f64;
        Paths {
            fast: figure("answered_fast_total"),
            slow: figure("answered_slowly_total"),
            released: figure("released_total"),
            held_us: figure("held_us_total"),
        }
    }

    /// Entries of either path.
    pub(crate) fn entries(self) -> f64 {
        self.fast + self.slow
    }

    /// How many of them took the fast one, percent.
    pub(crate) fn fast_percent(self) -> f64 {
        100.0 * self.fast / self.entries().max(1.0)
    }

    /// How long a replica held an entry, in the mean, us.
    pub(crate) fn held_us(self) -> f64 {
        self.held_us / self.released.max(1.0)
    }
}
