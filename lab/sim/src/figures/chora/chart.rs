//! The figures as a picture.

use super::points::{Figures, Point, RANGES, WIRING};
use quorate_core::MICROS;
use quorate_plot::{Curves, Plot, Series};

/// Told apart also by those who see no difference between red and green.
const COLORS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#777777"];
const MILLION: f64 = 1e6;

type Curve = (Series, Vec<(f64, f64)>);

/// Draws Figures 8, 9, 7 and 10.
pub(super) fn render(figures: &Figures) -> String {
    let head =
        "chora: one command in an entry, full load unless said; virtual time with measured costs";
    let mut plots = vec![
        Plot {
            title: "Figure 8a: multicasts per commit, by length of rounds (us)".into(),
            curves: over_lengths(figures, Point::multicasts_per_commit),
        },
        Plot {
            title: "Figure 8b: million commands a second, by length of rounds (us)".into(),
            curves: over_lengths(figures, millions)
                .into_iter()
                .chain(without_rounds(figures))
                .collect(),
        },
        Plot {
            title: "Figure 9: effectiveness (beta), by efficiency (alpha)".into(),
            curves: levels(figures),
        },
    ];
    for n in &figures.options.replicas {
        plots.push(Plot {
            title: format!("Figure 7: latency (us), by million commands a second, {n} replicas"),
            curves: latencies(figures, *n),
        });
    }
    plots.push(Plot {
        title: "Figure 10: million commands a second, by ms since a replica stopped".into(),
        curves: crash(figures),
    });
    let foot = format!(
        "A message takes {} us and up to {} us more. Figure 9: kappa is the greatest product of both; d_proc is \
         what a pulse takes its receiver.",
        WIRING.least_ns / MICROS,
        WIRING.range_ns / MICROS,
    );
    Curves {
        head: head.into(),
        plots,
        foot: vec![foot],
    }
    .render()
}

fn millions(point: &Point) -> f64 {
    point.per_second() / MILLION
}

fn series(name: String, at: usize) -> Series {
    Series {
        name,
        color: COLORS[at % COLORS.len()],
    }
}

fn over_lengths(figures: &Figures, of: fn(&Point) -> f64) -> Vec<Curve> {
    let sizes = figures.options.replicas.iter().enumerate();
    let curve = |(at, n): (usize, &usize)| {
        let points = figures.lengths.iter().filter(|point| point.replicas == *n);
        let points = points.map(|point| (point.round_us.unwrap_or(0) as f64, of(point)));
        (series(format!("{n} replicas"), at), points.collect())
    };
    sizes.map(curve).collect()
}

/// Level lines.
fn without_rounds(figures: &Figures) -> Vec<Curve> {
    let longest = figures
        .lengths
        .iter()
        .filter_map(|point| point.round_us)
        .max();
    let end = longest.unwrap_or(1) as f64;
    let points = figures.responsive.iter().enumerate();
    let curve = |(at, point): (usize, &Point)| {
        let name = format!("responsive, {}", point.replicas);
        let level = millions(point);
        (series(name, at), vec![(0.0, level), (end, level)])
    };
    points.map(curve).collect()
}

fn levels(figures: &Figures) -> Vec<Curve> {
    let curve = |(at, range): (usize, f64)| {
        let points = figures.levels.iter().filter(|point| point.range == range);
        let mut points: Vec<_> = points
            .map(|point| (point.efficiency(), point.effectiveness()))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (series(format!("delays vary by {range} d_proc"), at), points)
    };
    RANGES.into_iter().enumerate().map(curve).collect()
}

fn latencies(figures: &Figures, replicas: usize) -> Vec<Curve> {
    let of = |is_pulsing: bool, what: fn(&Point) -> f64| -> Vec<(f64, f64)> {
        let points = figures
            .loads
            .iter()
            .filter(|point| point.replicas == replicas);
        let points = points.filter(|point| point.round_us.is_some() == is_pulsing);
        points.map(|point| (millions(point), what(point))).collect()
    };
    let mean = Point::latency_mean_us;
    let p90 = |point: &Point| point.latency_us(0.9);
    vec![
        (series("pulsing, mean".into(), 0), of(true, mean)),
        (series("pulsing, p90".into(), 2), of(true, p90)),
        (series("responsive, mean".into(), 1), of(false, mean)),
        (series("responsive, p90".into(), 3), of(false, p90)),
    ]
}

fn crash(figures: &Figures) -> Vec<Curve> {
    let curve = |(at, point): (usize, &Point)| {
        let bins = point.bins().into_iter();
        let bins = bins.map(|(ms, rate)| (ms, rate / MILLION));
        (series(format!("seed {at}"), at), bins.collect())
    };
    figures
        .crashes
        .iter()
        .take(3)
        .enumerate()
        .map(curve)
        .collect()
}
