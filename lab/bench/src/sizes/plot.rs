//! The sizes as a picture: throughput, latency, and what a committed byte costs.

use quorate_plot::{Chart, Group, Panel};

use super::Sizes;
use super::table::{Cell, Cost, cells, cpu_ms_per_megabyte, megabytes_per_second};
use crate::systems::{self, Shape};
use quorate_tooling::units::{show_ns, show_size};

/// Draws the picture.
pub(super) fn render(sizes: &Sizes) -> String {
    let cells = cells(sizes);
    let mut shapes: Vec<Shape> = Vec::new();
    for cell in &cells {
        if !shapes.contains(&cell.shape) {
            shapes.push(cell.shape);
        }
    }
    let links = sizes
        .links
        .map_or(String::new(), |links| format!(" behind links of {links}"));
    let panel = |title: &str, of: fn(&Cell<'_>) -> Option<f64>, show: fn(f64) -> String| Panel {
        title: title.to_owned(),
        groups: groups(&cells, &shapes, of),
        show,
    };
    let bytes = |value: f64| format!("{value:.2}");
    let chart = Chart {
        head: format!("puts of values by size{links}; medians of the turns, logarithmic scales",),
        series: shapes.iter().map(|shape| shape.series()).collect(),
        panels: vec![
            panel(
                "MB of values per second (more is better)",
                |cell| cell.median(megabytes_per_second),
                |value| format!("{value:.1}"),
            ),
            panel(
                "p99 of a put (less is better)",
                |cell| cell.median(|point| point.report.latency.p99_ns as f64),
                |ns| show_ns(ns as u64),
            ),
            panel(
                "CPU time of all replicas per MB of values (less is better)",
                |cell| cell.median(cpu_ms_per_megabyte),
                |ms| format!("{ms:.1} ms"),
            ),
            panel(
                "bytes on sockets between replicas per committed byte",
                |cell| cell.per_byte(Cost::KernelSent),
                bytes,
            ),
            panel(
                "bytes the kernel wrote per committed byte",
                |cell| cell.per_byte(Cost::KernelWritten),
                bytes,
            ),
        ],
        foot: shapes.iter().copied().map(in_words).collect(),
    };
    chart.render()
}

fn groups(cells: &[Cell<'_>], shapes: &[Shape], of: fn(&Cell<'_>) -> Option<f64>) -> Vec<Group> {
    let bars = cells
        .iter()
        .map(|cell| (show_size(cell.value_bytes), cell.shape, of(cell)));
    systems::groups(shapes, bars)
}

fn in_words(shape: Shape) -> String {
    let expected = shape.expected(usize::MAX);
    format!(
        "theory for {}: {:.2} bytes sent and {:.2} written per committed byte",
        shape.title(),
        expected.sent,
        expected.written
    )
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::point;
    use super::*;
    use crate::systems::System;

    #[test]
    fn every_system_has_a_bar_at_every_size() {
        let sizes = Sizes {
            links: None,
            points: System::ALL.map(|system| point(0, system, 10.0)).into(),
        };
        let picture = render(&sizes);
        // Their latencies are 0, which a logarithmic scale cannot show.
        assert_eq!(picture.matches("rotate(-90)").count(), 15);
        for text in [">64 KiB<", ">1.36<", ">4.08<", "1.67 written"] {
            assert!(picture.contains(text), "{text}");
        }
    }
}
