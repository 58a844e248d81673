//! Throughput by size as a picture.

use super::points::{Point, Points};
use super::size;
use quorate_plot::{Chart, Group, Panel, Series};

/// Told apart also by those who see no difference between red and green.
const COLORS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#777777"];

/// Draws throughput, and what it took in the middle.
pub(super) fn render(points: &Points) -> String {
    let series = points.systems.iter().zip(COLORS.iter().cycle());
    let series = series.map(|(system, color)| Series {
        name: system.name(),
        color,
    });
    let panels = [
        panel(points, "MB/s by size of values", Point::mb_per_second),
        panel(points, "p50 of puts by size of values, ms", |point| {
            point.latency_ns(0.5) as f64 / 1e6
        }),
    ];
    let chart = Chart {
        head: "Puts through links, disks and cores that do so much a second; logarithmic scales"
            .into(),
        series: series.collect(),
        panels: panels.into(),
        foot: Vec::new(),
    };
    chart.render()
}

fn panel(points: &Points, title: &str, of: fn(&Point) -> f64) -> Panel {
    let group = |bytes: &usize| {
        let same = points.all.iter().filter(|p| p.value_bytes == *bytes);
        let bar = |point: &Point| {
            let mut systems = points.systems.iter();
            let index = systems.position(|system| *system == point.system)?;
            Some((index, of(point)))
        };
        Group {
            name: size(*bytes),
            bars: same.filter_map(bar).collect(),
        }
    };
    Panel {
        title: title.into(),
        groups: points.options.sizes.iter().map(group).collect(),
        show: |value| match value {
            10.0.. => format!("{value:.0}"),
            _ => format!("{value:.2}"),
        },
    }
}
