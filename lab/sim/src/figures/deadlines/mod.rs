//! Requests that are ordered by deadlines: what a write costs, which path it takes and how long it is held,
//! by load, by what deadlines allow for, and by clocks that are wrong.

mod chart;
mod messages;
mod multicast;
mod page;

use super::points::{Failure, Point, UNIT_NS, run_all};
use super::{FiguresOptions, Report};
use crate::meter::WARM_UP_NS;
use crate::steady::WrongClock;
use multicast::Multicast;
use quorate_core::{MICROS, SECONDS};
use quorate_protocols::{Paper, Setting};
use serde_json::{Value, json};

/// Requests a second where only something else changes, as in the paper's figure 8.
const RATE: u64 = 20_000;
/// A run lasts at least about so long: a fifth of a second.
const RUNS_IN_A_SECOND: u64 = 5;
/// How far a clock is off, us.
const OFFSETS_US: [i64; 11] = [-1000, -300, -100, -50, -10, 0, 10, 50, 100, 300, 1000];
/// How much too fast a clock runs, parts per million: a clock that nobody keeps in step is off by some tens.
const DRIFTS_PPM: [i64; 6] = [-500, -200, -50, 50, 200, 500];
/// Drift takes time to show: such a run lasts so many times as long.
const DRIFT_LONGER: u64 = 4;

/// What deadlines allow for, of the delays that were measured.
static PERCENTILES: [Setting; 7] = [
    percentile("25", &[("hold", "100"), ("percentile", "25")]),
    percentile("50", &[("hold", "100"), ("percentile", "50")]),
    percentile("75", &[("hold", "100"), ("percentile", "75")]),
    percentile("90", &[("hold", "100"), ("percentile", "90")]),
    percentile("95", &[("hold", "100"), ("percentile", "95")]),
    percentile("99", &[("hold", "100"), ("percentile", "99")]),
    percentile("100", &[("hold", "100"), ("percentile", "100")]),
];

const fn percentile(
    name: &'static str,
    params: &'static [(&'static str, &'static str)],
) -> Setting {
    Setting {
        name,
        what: "a percentile",
        params,
        delays: 2,
    }
}

/// All that was measured.
pub(super) struct Deadlines {
    options: FiguresOptions,
    paper: &'static Paper,
    /// Requests one at a time, at one gateway.
    alone: Vec<Point>,
    /// Requests at growing rates.
    loaded: Vec<Point>,
    /// The same rate, other percentiles.
    percentiles: Vec<Point>,
    /// The same rate, one clock off.
    clocks: Vec<Point>,
    multicasts: Multicasts,
}

/// The experiments with multicast alone.
struct Multicasts {
    /// By rate, of two senders.
    rates: Vec<Multicast>,
    /// By number of senders.
    senders: Vec<Multicast>,
    /// By percentile, of ten senders.
    percentiles: Vec<Multicast>,
}

impl Deadlines {
    /// Runs everything.
    pub(super) fn measure(
        options: &FiguresOptions,
        paper: &'static Paper,
    ) -> Result<Deadlines, Failure> {
        let parts = [
            alone(options, paper),
            loaded(options, paper),
            percentiles(options),
            clocks(options, paper),
        ];
        let sizes = parts.each_ref().map(Vec::len);
        let mut points: Vec<Point> = parts.into_iter().flatten().collect();
        run_all(&mut points, options)?;
        let mut points = points.into_iter();
        let [alone, loaded, percentiles, clocks] =
            sizes.map(|size| points.by_ref().take(size).collect());
        Ok(Deadlines {
            options: options.clone(),
            paper,
            alone,
            loaded,
            percentiles,
            clocks,
            multicasts: Multicasts::run(options),
        })
    }
}

/// Every setting and size, with the gateway in a follower and in the leader: one request after the other, and
/// all messages counted.
fn alone(options: &FiguresOptions, paper: &'static Paper) -> Vec<Point> {
    let mut points = Vec::new();
    for replicas in &options.replicas {
        for setting in paper.settings {
            let gateways = [replicas - 1, 0].into_iter();
            points.extend(gateways.map(|gateway| {
                let mut point = Point::alone(setting, *replicas);
                point.steady.gateways = Some((gateway, 1));
                point.steady.counts_messages = true;
                point
            }));
        }
    }
    points
}

/// Every setting by load.
fn loaded(options: &FiguresOptions, paper: &'static Paper) -> Vec<Point> {
    let mut points = Vec::new();
    for replicas in sizes(options) {
        for setting in paper.settings {
            let rates = options.rates.iter();
            points.extend(rates.map(|rate| {
                let mut point = at_rate(setting, *replicas, *rate, 1, options);
                point.steady.counts_messages = true;
                point
            }));
        }
    }
    points
}

fn percentiles(options: &FiguresOptions) -> Vec<Point> {
    let sizes = sizes(options).iter();
    let points = sizes.flat_map(|replicas| {
        let settings = PERCENTILES.iter();
        settings.map(|setting| at_rate(setting, *replicas, RATE, 1, options))
    });
    points.collect()
}

/// Whose clock is off, and how, where deadlines are as in the paper or found out.
fn clocks(options: &FiguresOptions, paper: &'static Paper) -> Vec<Point> {
    let settings = paper.settings.iter();
    let settings = settings.filter(|setting| ["paper", "default"].contains(&setting.name));
    let mut points = Vec::new();
    let Some(replicas) = sizes(options).last().copied() else {
        return points;
    };
    for setting in settings {
        for replica in [0, replicas - 1] {
            let wrong = |offset_us: i64, drift_ppm| WrongClock {
                replica,
                offset_ns: offset_us * MICROS as i64,
                drift_ppm,
            };
            let offsets = OFFSETS_US.iter().map(|offset_us| (wrong(*offset_us, 0), 1));
            let drifts = DRIFTS_PPM.iter().map(|ppm| (wrong(0, *ppm), DRIFT_LONGER));
            points.extend(offsets.chain(drifts).map(|(wrong, times)| {
                let mut point = at_rate(setting, replicas, RATE, times, options);
                point.steady.wrong = Some(wrong);
                point
            }));
        }
    }
    points
}

/// The first two sizes are put under load.
fn sizes(options: &FiguresOptions) -> &[usize] {
    &options.replicas[..options.replicas.len().min(2)]
}

/// A run of so many times the usual length, and what is not measured at its beginning.
fn at_rate(
    setting: &'static Setting,
    replicas: usize,
    rate: u64,
    times: u64,
    options: &FiguresOptions,
) -> Point {
    let warm_up = rate * WARM_UP_NS / SECONDS;
    let requests = warm_up + options.slots.max(rate / RUNS_IN_A_SECOND) * times;
    Point::loaded(setting, replicas, rate, requests, options)
}

impl Multicasts {
    fn run(options: &FiguresOptions) -> Multicasts {
        let run = |senders, rate, percentile| Multicast::run(options, senders, rate, percentile);
        let rates = [100, 1_000, 3_000, 10_000, 30_000].into_iter();
        Multicasts {
            rates: rates.map(|rate| run(2, rate, 50)).collect(),
            senders: [1, 2, 4, 10, 20]
                .map(|senders| run(senders, 10_000, 50))
                .into(),
            percentiles: [50, 75, 90, 95]
                .map(|percentile| run(10, 10_000, percentile))
                .into(),
        }
    }
}

impl Point {
    fn branch(&self, name: &str) -> u64 {
        self.measured.branches.get(name).copied().unwrap_or(0)
    }

    fn figure(&self, name: &str) -> f64 {
        self.measured.figures.get(name).copied().unwrap_or(0) as f64
    }

    /// Entries answered.
    fn entries(&self) -> u64 {
        self.branch("committed fast") + self.branch("committed slowly")
    }

    /// Which part of them took the fast path (FCR), percent.
    fn fast_percent(&self) -> f64 {
        self.branch("committed fast") as f64 * 100.0 / self.entries().max(1) as f64
    }

    /// How long a replica held a request for its deadline, in the mean, us.
    fn held_us(&self) -> f64 {
        self.figure("held_us_total") / self.figure("released_total").max(1.0)
    }

    /// How many message delays the median answer took.
    fn delays(&self) -> f64 {
        self.latency_ns(0.5) as f64 / UNIT_NS as f64
    }

    fn more_json(&self) -> Value {
        let mut json = self.as_json();
        let messages = self.measured.messages.iter();
        let messages = messages.map(|((from, to, kind), count)| {
            json!({"from": from + 1, "to": to + 1, "kind": kind, "count": count})
        });
        json["entries"] = self.entries().into();
        json["fast_commit_percent"] = self.fast_percent().into();
        json["held_us"] = self.held_us().into();
        json["gateway"] = self.steady.gateways.map(|(first, _)| first + 1).into();
        json["wrong_clock"] = self.steady.wrong.map_or(Value::Null, |wrong| {
            json!({
                "replica": wrong.replica + 1,
                "offset_us": wrong.offset_ns / MICROS as i64,
                "drift_ppm": wrong.drift_ppm,
            })
        });
        json["messages"] = messages.collect::<Vec<_>>().into();
        json
    }
}

impl Report for Deadlines {
    fn text(&self) -> String {
        page::text(self)
    }

    fn as_json(&self) -> Value {
        let points = |points: &[Point]| points.iter().map(Point::more_json).collect::<Vec<_>>();
        let multicasts = |all: &[Multicast]| all.iter().map(Multicast::as_json).collect::<Vec<_>>();
        json!({
            "protocol": self.options.protocol,
            "durability": self.options.durability.name(),
            "seed": self.options.seed,
            "unit_us": UNIT_NS / MICROS,
            "alone": points(&self.alone),
            "loaded": points(&self.loaded),
            "percentiles": points(&self.percentiles),
            "clocks": points(&self.clocks),
            "multicast_by_rate": multicasts(&self.multicasts.rates),
            "multicast_by_senders": multicasts(&self.multicasts.senders),
            "multicast_by_percentile": multicasts(&self.multicasts.percentiles),
        })
    }

    fn picture(&self) -> String {
        chart::render(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::points::paper_of;

    fn nezha(flags: &str) -> (FiguresOptions, &'static Paper) {
        let options = crate::parse(&format!("--protocol nezha {flags}")).unwrap();
        (options, paper_of("nezha").unwrap().unwrap())
    }

    fn run(points: &mut [Point], options: &FiguresOptions) {
        match run_all(points, options) {
            Ok(()) => {}
            Err(Failure::Usage(why) | Failure::Violated(why)) => panic!("{why}"),
        }
    }

    /// What each role sends and receives, and how many delays an answer takes.
    #[test]
    fn a_write_costs_what_it_does_in_theory() {
        let (options, paper) = nezha("--replicas 3,5");
        let mut points = alone(&options, paper);
        run(&mut points, &options);
        for point in &points {
            let n = point.replicas as f64;
            let is_paper = point.setting.name == "paper";
            let at_follower = point.steady.gateways.is_some_and(|(first, _)| first > 0);
            if is_paper && at_follower {
                let rows = messages::ROWS.iter();
                let counts = rows.map(|row| (row.what, (row.count)(&messages::Costs(point))));
                for (what, count) in counts {
                    let expected = match what {
                        "sends request" | "receives fast-reply" => n,
                        "receives synced" => n - 1.0,
                        // Once with the entry and once with the commit-point.
                        "sends log-mod" => 2.0 * (n - 1.0),
                        "receives log-mod" | "sends synced" => 2.0,
                        "send anything else" => 0.0,
                        _ => 1.0,
                    };
                    assert!((count - expected).abs() < 0.05, "{n} {what}: {count}");
                }
            }
            // A gateway within the slow quorum needs no third delay.
            let delays = match (point.setting.delays, at_follower, point.replicas) {
                (3, true, 5..) => 3.0,
                _ => 2.0,
            };
            assert!((point.delays() - delays).abs() < 0.01, "{}", point.delays());
        }
    }

    #[test]
    fn a_wrong_clock_costs_time_and_the_page_the_json_and_the_picture_tell_the_same() {
        let (options, paper) = nezha("--replicas 3 --rates 2000 --slots 200 --plot figures.svg");
        let mut clocks = clocks(&options, paper);
        clocks.retain(|point| {
            let wrong = point.steady.wrong.filter(|wrong| wrong.drift_ppm == 0);
            wrong.is_some_and(|wrong| [0, -1_000_000].contains(&wrong.offset_ns))
                && point.setting.name == "paper"
        });
        let mut loaded = loaded(&options, paper);
        run(&mut clocks, &options);
        run(&mut loaded, &options);
        let median = |point: &Point| point.latency_ns(0.5);
        let [behind, right, ..] = &clocks[..] else {
            panic!("a clock that is behind, and one that is right");
        };
        assert!(median(behind) > 2 * median(right), "{}", median(behind));
        assert!(loaded.iter().all(|point| point.entries() > 100));
        let figures = Deadlines {
            alone: Vec::new(),
            percentiles: Vec::new(),
            multicasts: Multicasts {
                rates: vec![Multicast::run(&options, 2, 10_000, 50)],
                senders: Vec::new(),
                percentiles: Vec::new(),
            },
            options,
            paper,
            loaded,
            clocks,
        };
        let (page, json) = (figures.text(), figures.as_json());
        let fast = format!("| {:.1} % |", figures.loaded[0].fast_percent());
        for part in [
            "--replicas 3 --rates 2000",
            "(figures.svg)",
            "-1000 us",
            &fast,
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(json["clocks"][0]["wrong_clock"]["offset_us"], -1000);
        assert_eq!(json["multicast_by_rate"].as_array().map(Vec::len), Some(1));
        assert!(figures.picture().contains("by one clock's offset in us"));
    }
}
