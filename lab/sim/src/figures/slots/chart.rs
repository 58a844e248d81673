//! The shares under load as a picture.

use super::Figures;
use crate::figures::points::Point;
use quorate_plot::{Chart, Group, Panel, Series};

/// Draws slots off the fast path, and slots for nothing, by load.
pub(super) fn render(figures: &Figures) -> String {
    let mut names: Vec<&str> = Vec::new();
    for point in &figures.loaded {
        if !names.contains(&point.setting.name) {
            names.push(point.setting.name);
        }
    }
    let series = names.iter().zip(COLORS.iter().cycle());
    let series = series.map(|(name, color)| Series {
        name: (*name).into(),
        color,
    });
    let (mut panels, shares) = (Vec::new(), figures.paper.iter().flat_map(|p| p.shares));
    for replicas in &figures.options.replicas {
        let title = |what: &str| format!("{what}, {replicas} replicas, % by requests a second");
        let panel = |title, of| panel(figures, *replicas, &names, title, of);
        panels.push(panel(title("slots off the fast path"), Point::slow_percent));
        panels.push(panel(title("NULL slots"), Point::noop_percent));
    }
    let foot = shares.map(|shares| {
        format!(
            "The paper, {}: {:.2} % off the fast path, {:.2} % NULL.",
            shares.load,
            100.0 - shares.fast_percent,
            shares.noop_percent
        )
    });
    let none = "No bar: no such slot.".to_owned();
    let chart = Chart {
        head: format!(
            "{}: slots without faults, by load; logarithmic scales",
            figures.options.protocol
        ),
        series: series.collect(),
        panels,
        foot: foot.chain([none]).collect(),
    };
    chart.render()
}

fn panel(
    figures: &Figures,
    replicas: usize,
    names: &[&str],
    title: String,
    of: fn(&Point) -> f64,
) -> Panel {
    let group = |rate: &u64| {
        let points = figures.loaded.iter();
        let points = points.filter(|p| (p.replicas, p.rate) == (replicas, *rate));
        let bar = |point: &Point| {
            let index = names.iter().position(|name| *name == point.setting.name)?;
            (of(point) > 0.0).then_some((index, of(point)))
        };
        Group {
            name: rate.to_string(),
            bars: points.filter_map(bar).collect(),
        }
    };
    Panel {
        title,
        groups: figures.options.rates.iter().map(group).collect(),
        show: |percent| format!("{percent:.3}"),
    }
}

/// Told apart also by those who see no difference between red and green.
const COLORS: [&str; 4] = ["#d55e00", "#0072b2", "#777777", "#009e73"];
