//! How slots are decided: how many message delays a decision takes when all replicas propose the
//! same, and which share of slots is decided fast, or for nothing, as the load grows.

mod chart;
mod page;

use super::points::{CLOCK_NS, Failure, Point, SLOTS_PER_SECOND, UNIT_NS, run_all};
use super::{FiguresOptions, Report};
use crate::steady::Steady;
use quorate_core::MICROS;
use quorate_protocols::{Paper, Setting};
use serde_json::{Value, json};

/// Where a protocol names no settings of its own.
static DEFAULT: [Setting; 1] = [Setting {
    name: "default",
    what: "no parameters",
    params: &[],
    delays: 0,
}];

/// All that was measured.
pub(super) struct Figures {
    pub(super) options: FiguresOptions,
    pub(super) paper: Option<&'static Paper>,
    /// Requests one at a time.
    pub(super) alone: Vec<Point>,
    /// Requests at growing rates.
    pub(super) loaded: Vec<Point>,
}

impl Figures {
    /// Runs everything.
    pub(super) fn measure(
        options: &FiguresOptions,
        paper: Option<&'static Paper>,
    ) -> Result<Figures, Failure> {
        let settings = paper.map_or(&DEFAULT[..], |paper| paper.settings);
        let mut points = Vec::new();
        for replicas in &options.replicas {
            let settings = settings.iter();
            points.extend(settings.map(|setting| Point::alone(setting, *replicas)));
        }
        let alone = points.len();
        for replicas in &options.replicas {
            for setting in settings {
                let rates = options.rates.iter();
                let point = |rate: &u64| {
                    let requests = options.slots * (*rate).max(SLOTS_PER_SECOND) / SLOTS_PER_SECOND;
                    let mut point = Point::loaded(setting, *replicas, *rate, requests, options);
                    point.steady = Steady {
                        clock_offset_ns: CLOCK_NS,
                        ..point.steady
                    };
                    point
                };
                points.extend(rates.map(point));
            }
        }
        run_all(&mut points, options)?;
        let loaded = points.split_off(alone);
        Ok(Figures {
            options: options.clone(),
            paper,
            alone: points,
            loaded,
        })
    }
}

impl Report for Figures {
    fn text(&self) -> String {
        page::text(self)
    }

    fn picture(&self) -> String {
        chart::render(self)
    }

    fn as_json(&self) -> Value {
        let points = |points: &[Point]| points.iter().map(Point::as_json).collect::<Vec<_>>();
        let paper = self.paper.map(|paper| {
            let shares = paper.shares.iter().map(|shares| {
                json!({
                    "load": shares.load,
                    "fast_percent": shares.fast_percent,
                    "noop_percent": shares.noop_percent,
                })
            });
            json!({"measured": paper.measured, "shares": shares.collect::<Vec<_>>()})
        });
        let options = &self.options;
        json!({
            "protocol": options.protocol,
            "durability": options.durability.name(),
            "seed": options.seed,
            "delay_us": options.delay_us,
            "jitter_us": options.jitter_us,
            "unit_us": UNIT_NS / MICROS,
            "paper": paper,
            "alone": points(&self.alone),
            "loaded": points(&self.loaded),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::points::paper_of;
    use std::collections::BTreeMap;

    fn measure(line: &str) -> Figures {
        let options: FiguresOptions = crate::parse(line).unwrap();
        let paper = paper_of(&options.protocol).unwrap();
        match Figures::measure(&options, paper) {
            Ok(figures) => figures,
            Err(Failure::Usage(why) | Failure::Violated(why)) => panic!("{why}"),
        }
    }

    #[test]
    fn equal_proposals_are_decided_after_as_many_delays_as_the_paper_says() {
        let figures = measure("--rates 1000 --slots 600");
        let mut seen = Vec::new();
        for point in &figures.alone {
            let measured = &point.measured;
            assert!(measured.slots > 400, "{measured:?}");
            let expected = BTreeMap::from([(point.setting.delays, measured.decided)]);
            assert_eq!(measured.delays, expected, "{}", point.setting.name);
            assert_eq!(measured.noops, 0, "{}", point.setting.name);
            seen.push((point.setting.name, point.replicas, point.setting.delays));
        }
        for expected in [
            ("three-step", 3, 3),
            ("three-step", 5, 3),
            ("two-step", 3, 2),
            ("two-step", 5, 2),
            ("default", 5, 1),
        ] {
            assert!(seen.contains(&expected), "{expected:?} in {seen:?}");
        }
        for point in &figures.loaded {
            let (fast, answered) = (point.measured.fast, point.measured.latencies_ns.len());
            assert!(fast > 0 && answered > 100, "{:?}", point.measured);
        }
    }

    #[test]
    fn the_page_the_json_and_the_picture_tell_the_same() {
        let figures = measure("--replicas 3 --rates 500,2000 --slots 600 --plot shares.svg");
        let point = &figures.loaded[0];
        let page = page::text(&figures);
        let fast = format!("| {:.2} % |", point.percent(point.measured.fast));
        for part in ["99.58 %", "0.31 %", "(shares.svg)", "three-step", &fast] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let json = figures.as_json();
        assert_eq!(
            json["alone"][0]["delays"]["3"],
            figures.alone[0].measured.decided
        );
        assert_eq!(json["loaded"].as_array().map(Vec::len), Some(6));
        let picture = chart::render(&figures);
        assert!(picture.contains("0.42 % off the fast path"));
        assert!(picture.contains("NULL slots, 3 replicas"));
    }
}
