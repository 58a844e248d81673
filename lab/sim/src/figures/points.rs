//! The runs, and what they came to.

use super::FiguresOptions;
use crate::meter::{Measured, share_of};
use crate::parallel;
use crate::plan::Arrivals;
use crate::simulator::Simulator;
use crate::steady::Steady;
use quorate_core::{Durability, MICROS, MILLIS, SECONDS};
use quorate_protocols::{Paper, Protocol, Setting, Visitor, all_names, visit};
use serde_json::{Value, json};

/// What every message takes where delays are counted.
pub(super) const UNIT_NS: u64 = 125 * MICROS;
/// Requests one after the other, long after each is answered.
const APART_NS: u64 = 20 * MILLIS;
/// How many of them.
const ALONE: u64 = 500;
/// From this rate on, slots follow each other without a pause.
pub(super) const SLOTS_PER_SECOND: u64 = 2_000;
/// One message of so many is late.
pub(super) const LATE_ONE_IN: u64 = 1_000;
/// A replica's turn begins within this time.
pub(super) const TURN_NS: u64 = 20 * MICROS;
/// How far clocks are off.
pub(super) const CLOCK_NS: u64 = 100 * MICROS;

/// One run.
pub(crate) struct Point {
    pub(super) setting: &'static Setting,
    pub(super) replicas: usize,
    /// Requests offered a second.
    pub(super) rate: u64,
    pub(super) measured: Measured,
    pub(super) steady: Steady,
}

/// Why there are no figures.
pub(crate) enum Failure {
    /// The options make no sense.
    Usage(String),
    /// A run broke a promise.
    Violated(String),
}

impl Point {
    /// Requests one after the other, and nothing takes time but messages.
    pub(super) fn alone(setting: &'static Setting, replicas: usize) -> Point {
        let steady = Steady {
            delay_ns: UNIT_NS,
            arrivals: Arrivals::Every(APART_NS),
            requests: ALONE,
            ..Steady::default()
        };
        Point {
            setting,
            replicas,
            rate: SECONDS / APART_NS,
            measured: Measured::default(),
            steady,
        }
    }

    /// Requests at random, at so many a second.
    pub(super) fn loaded(
        setting: &'static Setting,
        replicas: usize,
        rate: u64,
        requests: u64,
        options: &FiguresOptions,
    ) -> Point {
        let steady = Steady {
            service_max_ns: TURN_NS,
            arrivals: Arrivals::About(SECONDS / rate),
            requests,
            ..links(options)
        };
        Point {
            setting,
            replicas,
            rate,
            measured: Measured::default(),
            steady,
        }
    }

    fn run(&self, options: &FiguresOptions) -> Result<Measured, Failure> {
        let durability = Durability::from(options.durability);
        let (setting, protocol) = (self.setting, &options.protocol);
        let simulator = Simulator::steady(
            protocol,
            self.replicas,
            durability,
            setting.params,
            self.steady,
        )
        .map_err(Failure::Usage)?;
        let report = simulator.seed(options.seed);
        if let Some(violation) = report.violation {
            let (n, rate) = (self.replicas, self.rate);
            let what = format!(
                "{}, {n} replicas, {rate} a second: {violation}",
                setting.name
            );
            return Err(Failure::Violated(what));
        }
        Ok(report.measured.unwrap_or_default())
    }

    /// A part of all decisions.
    pub(super) fn percent(&self, part: u64) -> f64 {
        part as f64 * 100.0 / self.measured.decided.max(1) as f64
    }

    /// Slots off the fast path.
    pub(super) fn slow_percent(&self) -> f64 {
        self.percent(self.measured.decided - self.measured.fast)
    }

    /// Slots for nothing.
    pub(super) fn noop_percent(&self) -> f64 {
        self.percent(self.measured.noops)
    }

    /// So many a second of what was counted.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 * SECONDS as f64 / self.measured.lasted_ns.max(1) as f64
    }

    /// The time a part of the requests took at most.
    pub(super) fn latency_ns(&self, share: f64) -> u64 {
        share_of(&self.measured.latencies_ns, share)
    }

    pub(super) fn as_json(&self) -> Value {
        let measured = &self.measured;
        let delays = measured.delays.iter();
        let delays = delays.map(|(delays, count)| (delays.to_string(), json!(count)));
        json!({
            "setting": self.setting.name,
            "replicas": self.replicas,
            "rate": self.rate,
            "answered": measured.latencies_ns.len(),
            "refused": measured.refused,
            "slots": measured.slots,
            "decided": measured.decided,
            "fast_percent": self.percent(measured.fast),
            "noop_percent": self.noop_percent(),
            "delays": delays.collect::<serde_json::Map<_, _>>(),
            "slots_per_second": self.per_second(measured.slots),
            "p50_us": self.latency_ns(0.5) / MICROS,
            "p99_us": self.latency_ns(0.99) / MICROS,
        })
    }
}

/// A network as the options say.
pub(super) fn links(options: &FiguresOptions) -> Steady {
    Steady {
        delay_ns: options.delay_us * MICROS,
        jitter_ns: options.jitter_us * MICROS,
        spike: 1.0 / LATE_ONE_IN as f64,
        ..Steady::default()
    }
}

/// Runs all points, several at once.
pub(super) fn run_all(points: &mut [Point], options: &FiguresOptions) -> Result<(), Failure> {
    let measured = parallel::run_all(points, options.jobs, |point| point.run(options));
    for (point, measured) in points.iter_mut().zip(measured) {
        point.measured = measured?;
    }
    Ok(())
}

/// What the protocol's paper says, if the protocol knows.
pub(super) fn paper_of(protocol: &str) -> Result<Option<&'static Paper>, String> {
    struct Find;

    impl Visitor for Find {
        type Output = Option<&'static Paper>;

        fn visit<P: Protocol>(self) -> Self::Output {
            P::paper()
        }
    }

    visit(protocol, Find).ok_or_else(|| {
        let known = all_names().join(", ");
        format!("unknown protocol {protocol}: known are {known}")
    })
}
