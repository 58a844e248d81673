//! What clocks, percentiles and deadlines do, as a picture.

use super::{Deadlines, Multicast};
use crate::figures::points::Point;
use quorate_core::MICROS;
use quorate_plot::{Chart, Group, Panel, Series};

/// What bars stand for. Told apart also by those who see no difference between red and green.
const SERIES: [(&str, &str); 6] = [
    ("paper: leader's clock is off", "#d55e00"),
    ("paper: a follower's", "#e69f00"),
    ("default: leader's", "#0072b2"),
    ("default: a follower's", "#56b4e9"),
    ("without deadlines", "#777777"),
    ("with deadlines (hold=100)", "#009e73"),
];
const WITHOUT: usize = 4;
const WITH: usize = 5;

/// Draws what the tables say.
pub(super) fn render(figures: &Deadlines) -> String {
    let series = SERIES.iter().map(|(name, color)| Series {
        name: (*name).into(),
        color,
    });
    let replicas = super::sizes(&figures.options).last().copied().unwrap_or(0);
    let mut panels = Vec::new();
    for (by, of) in [
        (
            "one clock's offset in us",
            offset_us as fn(&Point) -> Option<i64>,
        ),
        ("one clock's drift in ppm", drift_ppm),
    ] {
        panels.push(clocks(
            figures,
            format!("off the fast path, %, by {by}"),
            of,
            slow_percent,
        ));
        panels.push(clocks(
            figures,
            format!("median answer, us, by {by}"),
            of,
            median_us,
        ));
    }
    let percentiles = |title: &str, value: fn(&Point) -> f64| {
        let points = figures.percentiles.iter();
        let groups = points.filter(|point| point.replicas == replicas);
        let groups = groups.map(|point| group(point.setting.name.into(), [(WITH, value(point))]));
        panel(title.to_owned(), groups.collect())
    };
    panels.push(percentiles(
        "off the fast path, %, by percentile",
        slow_percent,
    ));
    panels.push(percentiles("median answer, us, by percentile", median_us));
    let all = &figures.multicasts;
    let rates = reordered(&all.rates, |one| one.rate.to_string());
    panels.push(panel(
        "reordering, %, by messages/s of 2 senders".into(),
        rates,
    ));
    let senders = reordered(&all.senders, |one| one.senders.to_string());
    panels.push(panel(
        "reordering, %, by senders of 10,000/s".into(),
        senders,
    ));
    let chart = Chart {
        head: format!(
            "{}, {replicas} replicas: clocks, percentiles and deadlines; logarithmic scales",
            figures.options.protocol
        ),
        series: series.collect(),
        panels,
        foot: vec!["No bar: none.".into()],
    };
    chart.render()
}

/// Bars by whose clock is off, in groups by how much.
fn clocks(
    figures: &Deadlines,
    title: String,
    of: fn(&Point) -> Option<i64>,
    value: fn(&Point) -> f64,
) -> Panel {
    let mut offs: Vec<i64> = figures.clocks.iter().filter_map(of).collect();
    offs.sort_unstable();
    offs.dedup();
    let groups = offs.iter().map(|off| {
        let points = figures
            .clocks
            .iter()
            .filter(|point| of(point) == Some(*off));
        let bars = points.map(|point| (series_of(point), value(point)));
        group(off.to_string(), bars)
    });
    panel(title, groups.collect())
}

fn reordered(experiments: &[Multicast], name: fn(&Multicast) -> String) -> Vec<Group> {
    let groups = experiments.iter().map(|one| {
        let bars = [(WITHOUT, one.plain_percent), (WITH, one.ordered_percent)];
        group(name(one), bars)
    });
    groups.collect()
}

fn group(name: String, bars: impl IntoIterator<Item = (usize, f64)>) -> Group {
    let bars = bars.into_iter().filter(|(_, value)| *value > 0.0);
    Group {
        name,
        bars: bars.collect(),
    }
}

fn panel(title: String, groups: Vec<Group>) -> Panel {
    Panel {
        title,
        groups,
        show: |value| match value < 10.0 {
            true => format!("{value:.2}"),
            false => format!("{value:.0}"),
        },
    }
}

fn series_of(point: &Point) -> usize {
    let is_default = point.setting.name == "default";
    let is_follower = point.steady.wrong.is_some_and(|wrong| wrong.replica > 0);
    2 * usize::from(is_default) + usize::from(is_follower)
}

/// Of a clock that does not drift.
fn offset_us(point: &Point) -> Option<i64> {
    let wrong = point.steady.wrong.filter(|wrong| wrong.drift_ppm == 0)?;
    Some(wrong.offset_ns / MICROS as i64)
}

/// Of a clock that was right at first.
fn drift_ppm(point: &Point) -> Option<i64> {
    let wrong = point.steady.wrong.filter(|wrong| wrong.offset_ns == 0)?;
    Some(wrong.drift_ppm)
}

fn slow_percent(point: &Point) -> f64 {
    100.0 - point.fast_percent()
}

fn median_us(point: &Point) -> f64 {
    point.latency_ns(0.5) as f64 / MICROS as f64
}
