//! The runs, and what they came to.

use super::cost::Cost;
use super::lab::{self, Run, Seen, Wiring};
use super::trouble::Trouble;
use crate::figures::FiguresOptions;
use crate::figures::points::Failure;
use crate::parallel;
use quorate_core::{MICROS, MILLIS, SECONDS};
use std::ops::Range;

/// What a message takes: two hops, and a little more.
pub(super) const WIRING: Wiring = Wiring {
    least_ns: 20 * MICROS,
    range_ns: MICROS,
};
/// Lengths of rounds, us.
pub(super) const ROUNDS_US: [u64; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50];
/// How much delays vary where synchrony is varied, in the time a pulse takes its receiver: the paper's 10,
/// 3,000 and 6,000, in ns, of its 0.2 us.
pub(super) const RANGES: [f64; 3] = [0.05, 15.0, 30.0];
/// Of the load that saturates a setting, percent.
pub(super) const LOADS: [u64; 9] = [10, 25, 40, 55, 70, 80, 90, 95, 98];
/// Nothing before is measured.
const FROM_NS: u64 = 5 * MILLIS;
/// When a replica stops, and how finely time is seen then.
pub(super) const CRASH_NS: u64 = 15 * MILLIS;
pub(super) const BIN_NS: u64 = MILLIS / 4;
const CRASH_UNTIL_NS: u64 = 35 * MILLIS;
/// Crashes that are tried.
const CRASHES: u64 = 9;
/// Of the throughput afterwards, what counts as resumed, percent.
pub(super) const RESUMED_PERCENT: u64 = 90;

/// All that was measured.
pub(crate) struct Figures {
    pub(super) options: FiguresOptions,
    pub(super) cost: Cost,
    /// Full load over the length of rounds, and without rounds.
    pub(super) lengths: Vec<Point>,
    pub(super) responsive: Vec<Point>,
    /// The same on three replicas, with delays that vary more and more.
    pub(super) levels: Vec<Point>,
    /// Growing load, in rounds of the best length and without.
    pub(super) loads: Vec<Point>,
    pub(super) crashes: Vec<Point>,
}

/// One run.
#[derive(Clone)]
pub(crate) struct Point {
    pub(super) replicas: usize,
    /// `None` without rounds.
    pub(super) round_us: Option<u64>,
    /// How much delays vary, in the time a pulse takes its receiver.
    pub(super) range: f64,
    /// Of the load that saturates, percent.
    pub(super) load: Option<u64>,
    run: Run,
    pub(super) seen: Seen,
}

impl Figures {
    /// Runs everything; each part `ms` long.
    pub(super) fn measure(options: &FiguresOptions, ms: u64) -> Result<Figures, Failure> {
        let cost = Cost::read(options.cost.as_deref()).map_err(Failure::Usage)?;
        let maker = Maker { options, cost, ms };
        let sizes = &options.replicas;
        let over_lengths = |n: usize, range: f64| {
            let lengths = ROUNDS_US.into_iter();
            lengths.map(move |us| maker.point(n, Some(us), range))
        };
        let lengths = sizes.iter().flat_map(|n| over_lengths(*n, 0.0));
        let lengths = maker.run(lengths.collect())?;
        let responsive = sizes.iter().map(|n| maker.point(*n, None, 0.0));
        let responsive = maker.run(responsive.collect())?;
        let levels = RANGES.into_iter().flat_map(|range| over_lengths(3, range));
        let levels = maker.run(levels.collect())?;
        let mut loads = Vec::new();
        for n in sizes {
            for full in [
                best(&lengths, *n),
                responsive.iter().find(|point| point.replicas == *n),
            ] {
                let full = full.ok_or_else(|| Failure::Usage("--replicas: none".into()))?;
                loads.extend(LOADS.map(|percent| maker.loaded(full, percent)));
            }
        }
        let loads = maker.run(loads)?;
        let crashes = match best(&lengths, sizes[0]) {
            Some(full) => (0..CRASHES).map(|at| maker.crash(full, at)).collect(),
            None => Vec::new(),
        };
        let crashes = maker.run(crashes)?;
        Ok(Figures {
            options: options.clone(),
            cost,
            lengths,
            responsive,
            levels,
            loads,
            crashes,
        })
    }
}

/// The point of most throughput among those of so many replicas.
pub(super) fn best(points: &[Point], replicas: usize) -> Option<&Point> {
    let own = points.iter().filter(|point| point.replicas == replicas);
    own.max_by(|a, b| a.per_second().total_cmp(&b.per_second()))
}

/// Makes points, and runs them.
#[derive(Clone, Copy)]
struct Maker<'a> {
    options: &'a FiguresOptions,
    cost: Cost,
    ms: u64,
}

impl Maker<'_> {
    /// Full load.
    fn point(&self, replicas: usize, round_us: Option<u64>, range: f64) -> Point {
        let varies_ns = (range * self.cost.pulse_ns() as f64) as u64;
        let wiring = Wiring {
            range_ns: WIRING.range_ns.max(varies_ns),
            ..WIRING
        };
        let rtt_us = 2 * (wiring.least_ns + wiring.range_ns) / MICROS;
        let mut params = vec![
            ("batch_commands", "1".to_owned()),
            ("rtt_us", rtt_us.to_string()),
            ("stall_ms", "1".to_owned()),
        ];
        match round_us {
            Some(us) => params.extend([("mode", "pulsing".into()), ("round_us", us.to_string())]),
            None => params.extend([("mode", "responsive".into()), ("outstanding", "64".into())]),
        }
        let params = params.into_iter();
        let run = Run {
            replicas,
            params: params
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            wiring,
            cost: self.cost,
            every_ns: None,
            from_ns: FROM_NS,
            until_ns: FROM_NS + self.ms * MILLIS,
            troubles: Vec::new(),
            look_ns: None,
            seed: self.options.seed,
        };
        Point {
            replicas,
            round_us,
            range,
            load: None,
            run,
            seen: Seen::default(),
        }
    }

    /// The same with less load.
    fn loaded(&self, full: &Point, percent: u64) -> Point {
        let rate = full.per_second() * percent as f64 / 100.0 / full.replicas as f64;
        let mut point = full.clone();
        point.load = Some(percent);
        point.run.every_ns = Some((SECONDS as f64 / rate.max(1.0)) as u64);
        point
    }

    /// The same with a replica that stops.
    fn crash(&self, full: &Point, at: u64) -> Point {
        let mut point = full.clone();
        point.run.troubles = vec![Trouble::Stop {
            node: full.replicas - 1,
            at_ns: CRASH_NS,
        }];
        point.run.until_ns = CRASH_UNTIL_NS;
        point.run.seed = self.options.seed + at;
        point
    }

    fn run(&self, points: Vec<Point>) -> Result<Vec<Point>, Failure> {
        let all = parallel::run_all(&points, self.options.jobs, |point| lab::run(&point.run));
        let results = points.into_iter().zip(all).map(|(point, seen)| {
            let run = &point.run;
            let seen = seen.map_err(|why| Failure::Violated(format!("{why}: {run:?}")))?;
            Ok(Point { seen, ..point })
        });
        results.collect()
    }
}

impl Point {
    fn lasted_s(&self) -> f64 {
        (self.run.until_ns - self.run.from_ns) as f64 / SECONDS as f64
    }

    /// Commands committed a second.
    pub(super) fn per_second(&self) -> f64 {
        self.seen.committed_ns.len() as f64 / self.lasted_s()
    }

    pub(super) fn multicasts_per_commit(&self) -> f64 {
        self.seen.multicasts as f64 / self.seen.committed_ns.len().max(1) as f64
    }

    /// How long a round was in the mean, us.
    pub(super) fn round_mean_us(&self) -> f64 {
        self.lasted_s() * 1e6 / self.seen.rounds.max(1.0)
    }

    /// `alpha`: of the time of a round, what all pulses of one cost.
    pub(super) fn efficiency(&self) -> f64 {
        self.run.cost.round_ns(self.replicas) as f64 / 1e3 / self.round_mean_us()
    }

    /// `beta`: of the commands that rounds have places for, those committed.
    pub(super) fn effectiveness(&self) -> f64 {
        let places = self.seen.rounds.max(1.0) * self.replicas as f64;
        self.seen.committed_ns.len() as f64 / places
    }

    /// `S^x`: what a pulse costs is always the same.
    pub(super) fn synchrony(&self, share: f64) -> f64 {
        let delays = &self.seen.delays_ns;
        let mean = mean(delays);
        let tail = quantile(delays, share) as f64 - mean;
        let pulse = self.run.cost.pulse_ns() as f64;
        pulse / (tail.max(0.0) + pulse)
    }

    pub(super) fn latency_mean_us(&self) -> f64 {
        mean(&self.seen.latencies_ns) / 1e3
    }

    pub(super) fn latency_us(&self, share: f64) -> f64 {
        quantile(&self.seen.latencies_ns, share) as f64 / 1e3
    }

    /// Commands committed a second within a time, ns.
    pub(super) fn per_second_in(&self, time: Range<u64>) -> f64 {
        let times = self.seen.committed_ns.iter();
        let count = times.filter(|at| time.contains(at)).count();
        count as f64 * SECONDS as f64 / (time.end - time.start) as f64
    }

    /// Commands a second, before the crash and in the end.
    pub(super) fn before_and_after(&self) -> (f64, f64) {
        let end = self.run.until_ns;
        let last = end - 10 * MILLIS..end;
        (
            self.per_second_in(FROM_NS..CRASH_NS),
            self.per_second_in(last),
        )
    }

    /// By time from the crash on, ms: commands a second.
    pub(super) fn bins(&self) -> Vec<(f64, f64)> {
        let starts = (FROM_NS..self.run.until_ns).step_by(BIN_NS as usize);
        let bin = |at: u64| {
            let since_ms = (at as f64 - CRASH_NS as f64) / MILLIS as f64;
            (since_ms, self.per_second_in(at..at + BIN_NS))
        };
        starts.map(bin).collect()
    }

    /// From the crash until as much is committed as in the end, nearly, ms.
    pub(super) fn resumed_after_ms(&self) -> Option<f64> {
        let enough = self.before_and_after().1 * RESUMED_PERCENT as f64 / 100.0;
        let bins = self.bins();
        let mut after = bins.iter().filter(|(at, _)| *at > 0.0);
        // What was under way is committed in the first of them.
        let is_out = |rate: f64| rate < enough;
        let out = after.find(|(_, rate)| is_out(*rate))?.0;
        after
            .find(|(_, rate)| !is_out(*rate))
            .map(|(at, _)| at.max(out))
    }
}

fn mean(sorted: &[u64]) -> f64 {
    sorted.iter().sum::<u64>() as f64 / sorted.len().max(1) as f64
}

fn quantile(sorted: &[u64], share: f64) -> u64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index).or(sorted.last()).copied().unwrap_or(0)
}
