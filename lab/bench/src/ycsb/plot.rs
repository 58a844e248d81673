//! What was found, as a picture: throughput and latency by the number of clients.

use quorate_plot::{Chart, Group, Panel};

use super::Ycsb;
use super::table::{Cell, cells};
use crate::systems::{self, Shape};
use quorate_tooling::units::{show_count, show_ns, show_size};

/// Draws the picture.
pub(super) fn render(found: &Ycsb) -> String {
    let cells = cells(found);
    let mut shapes: Vec<Shape> = Vec::new();
    for cell in &cells {
        if !shapes.contains(&cell.shape) {
            shapes.push(cell.shape);
        }
    }
    let panel = |title: &str, of: fn(&Cell<'_>) -> Option<f64>, show: fn(f64) -> String| Panel {
        title: title.to_owned(),
        groups: groups(&cells, &shapes, of),
        show,
    };
    let chart = Chart {
        head: format!(
            "YCSB workload {}, records of {}{}; medians of the turns, logarithmic scales",
            found.workload.name(),
            show_size(found.value_bytes),
            found.links(),
        ),
        series: shapes.iter().map(|shape| shape.series()).collect(),
        panels: vec![
            panel(
                "operations per second (more is better)",
                |cell| Some(cell.rate()),
                show_count,
            ),
            panel(
                "p50 of an operation (less is better)",
                |cell| cell.median(|report| Some(report.latency.p50_ns as f64)),
                |ns| show_ns(ns as u64),
            ),
            panel(
                "p99 of an operation (less is better)",
                |cell| cell.median(|report| Some(report.latency.p99_ns as f64)),
                |ns| show_ns(ns as u64),
            ),
        ],
        foot: Vec::new(),
    };
    chart.render()
}

fn groups(cells: &[Cell<'_>], shapes: &[Shape], of: fn(&Cell<'_>) -> Option<f64>) -> Vec<Group> {
    let name = |cell: &Cell<'_>| format!("{} clients", cell.clients);
    let bars = cells.iter().map(|cell| (name(cell), cell.shape, of(cell)));
    systems::groups(shapes, bars)
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::found;
    use super::*;
    use crate::systems::System;

    #[test]
    fn every_cell_is_a_bar_with_its_value() {
        let found = found(&[(System::Racos, 1, 1234.0), (System::Etcd, 1, 567.0)]);
        let picture = render(&found);
        for value in [">1,234<", ">567<", ">racos 5,3<", ">etcd 3<", ">1 clients<"] {
            assert!(picture.contains(value), "{value}");
        }
    }
}
