//! What was found, as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Point, Ycsb};
use crate::systems::Shape;
use quorate_load::latency::LatencySummary;
use quorate_load::report::Report;
use quorate_tooling::tables::{align, median};
use quorate_tooling::units::{show_count, show_ns, show_size};

/// All points of one system with one number of clients.
pub(super) struct Cell<'a> {
    pub(super) clients: u32,
    pub(super) shape: Shape,
    points: Vec<&'a Point>,
}

impl Cell<'_> {
    /// The median of all turns.
    pub(super) fn median(&self, of: impl Fn(&Report) -> Option<f64>) -> Option<f64> {
        let each = self.points.iter().filter_map(|point| of(&point.report));
        median(each.collect())
    }

    pub(super) fn rate(&self) -> f64 {
        self.median(|report| Some(report.per_second)).unwrap_or(0.0)
    }

    /// Why operations failed, and how many, in all turns.
    fn errors(&self) -> BTreeMap<&str, u64> {
        let mut errors = BTreeMap::new();
        for (why, count) in self.points.iter().flat_map(|point| &point.report.errors) {
            *errors.entry(why.as_str()).or_default() += count;
        }
        errors
    }
}

/// By clients, then by system, in the order in which they were measured first.
pub(super) fn cells(found: &Ycsb) -> Vec<Cell<'_>> {
    let mut cells: Vec<Cell<'_>> = Vec::new();
    for point in &found.points {
        let same =
            |cell: &&mut Cell<'_>| (cell.clients, cell.shape) == (point.clients, point.shape);
        match cells.iter_mut().find(same) {
            Some(cell) => cell.points.push(point),
            None => cells.push(Cell {
                clients: point.clients,
                shape: point.shape,
                points: vec![point],
            }),
        }
    }
    cells.sort_by_key(|cell| cell.clients);
    cells
}

/// The table of all clients and systems.
pub(super) fn render(found: &Ycsb) -> String {
    let cells = cells(found);
    let mut text = format!(
        "YCSB workload {}, records of {}{}; medians of the turns\n",
        found.workload.name(),
        show_size(found.value_bytes),
        found.links(),
    );
    let head = HEAD.map(str::to_owned).to_vec();
    let rows = cells.iter().map(|cell| row(cell, &cells));
    text += &align(&[head].into_iter().chain(rows).collect::<Vec<_>>());
    for cell in &cells {
        for (why, count) in cell.errors() {
            let (clients, system) = (cell.clients, cell.shape.title());
            let _ = writeln!(text, "{system}, {clients} clients, {count} times: {why}");
        }
    }
    text
}

impl Ycsb {
    pub(super) fn links(&self) -> String {
        self.links
            .map_or(String::new(), |links| format!(", behind links of {links}"))
    }
}

fn row(cell: &Cell<'_>, cells: &[Cell<'_>]) -> Vec<String> {
    let last = cells.iter().rfind(|other| other.clients == cell.clients);
    let times = last.map_or(1.0, |last| cell.rate() / last.rate());
    let latency = |of: fn(&Report) -> Option<u64>| {
        let ns = cell.median(|report| of(report).map(|ns| ns as f64));
        ns.map_or("-".to_owned(), |ns| show_ns(ns as u64))
    };
    vec![
        cell.clients.to_string(),
        cell.shape.title(),
        show_count(cell.rate()),
        format!("{times:.2}"),
        latency(|report| reads(report).map(|reads| reads.p50_ns)),
        latency(|report| reads(report).map(|reads| reads.p99_ns)),
        latency(|report| report.writes.as_ref().map(|writes| writes.p50_ns)),
        latency(|report| report.writes.as_ref().map(|writes| writes.p99_ns)),
        cell.errors().values().sum::<u64>().to_string(),
    ]
}

/// A run of reads alone has only one latency.
fn reads(report: &Report) -> Option<&LatencySummary> {
    Some(report.reads.as_ref().unwrap_or(&report.latency))
}

const HEAD: [&str; 9] = [
    "clients",
    "system",
    "ops/s",
    "x last",
    "read p50",
    "p99",
    "update p50",
    "p99",
    "failed",
];

#[cfg(test)]
pub(super) mod tests {
    use super::super::Workload;
    use super::*;
    use crate::systems::System;
    use quorate_protocols::Code;

    pub(in super::super) fn found(rates: &[(System, u32, f64)]) -> Ycsb {
        let points = rates.iter().map(|(system, clients, per_second)| Point {
            pair: 0,
            shape: system.shape(Code { n: 5, k: 3 }, 3),
            clients: *clients,
            report: Report {
                per_second: *per_second,
                ..Report::default()
            },
        });
        Ycsb {
            workload: Workload::A,
            value_bytes: 1024,
            links: None,
            points: points.collect(),
        }
    }

    #[test]
    fn each_system_is_held_against_the_last_with_as_many_clients() {
        let found = found(&[
            (System::Racos, 1, 30.0),
            (System::Racos, 5, 100.0),
            (System::RsPaxos, 1, 20.0),
            (System::RsPaxos, 5, 200.0),
        ]);
        let text = render(&found);
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let rows: Vec<Vec<String>> = text.lines().skip(2).map(words).collect();
        let times: Vec<&str> = rows.iter().map(|row| row[4].as_str()).collect();
        assert_eq!(times, ["1.50", "1.00", "0.50", "1.00"]);
    }

    #[test]
    fn what_failed_is_told_of_whom_and_why() {
        let mut found = found(&[(System::Racos, 1, 30.0), (System::RsPaxos, 1, 20.0)]);
        found.points[1].report.errors.insert("too late".into(), 3);
        let text = render(&found);
        let failed = text
            .lines()
            .skip(2)
            .map(|line| line.split_whitespace().last());
        let failed: Vec<_> = failed.take(2).collect();
        assert_eq!(failed, [Some("0"), Some("3")]);
        assert!(
            text.ends_with("rs-paxos 5,3, 1 clients, 3 times: too late\n"),
            "{text}"
        );
    }
}
