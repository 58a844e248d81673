//! What was found, as a table: medians over the turns, ratios within each turn.

use std::fmt;

use super::{RedisArgs, Run, System};
use crate::spread::Spread;
use quorate_tooling::tables::Table;
use quorate_tooling::units::{show_count, show_ns};

use super::workload::Cell;

const HEADINGS: [&str; 7] = [
    "run",
    "system",
    "commands/s",
    "p50",
    "p99",
    "CPU us",
    "wake-ups",
];
/// What is compared with each system that is no cluster of Quorate.
const RATIOS: [&str; 2] = ["rate", "CPU"];

/// The table of all runs, and beside it the ratios to the systems that are no cluster of Quorate.
pub(super) struct Found {
    /// What the figures are of.
    legend: String,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Found {
    pub(super) fn new(args: &RedisArgs, runs: &[Run]) -> Found {
        let systems = args.systems.iter();
        let references: Vec<&System> = systems.filter(|system| is_reference(system)).collect();
        let of_reference = |reference| RATIOS.map(|what| format!("{what} / {reference}"));
        let own = HEADINGS.iter().map(|&head| head.to_owned());
        let cells = args.runs.iter();
        let both = cells.flat_map(|cell| args.systems.iter().map(move |system| (*cell, system)));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Found {
            legend: format!(
                "durability {}, {cores} cores for servers and clients together; CPU time and wake-ups are those of all \
                 servers per command; medians of {} turns [least-most], ratios within each turn",
                args.durability.name(),
                args.turns
            ),
            headings: own
                .chain(references.iter().flat_map(of_reference))
                .collect(),
            rows: both
                .map(|(cell, system)| row(runs, cell, system, &references))
                .collect(),
        }
    }

    /// The table for a page: medians alone, which leave room for many columns.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let middle = |cell: &String| cell.split(" [").next().unwrap_or_default().to_owned();
        let rules = self.headings.iter().enumerate();
        let rules = rules.map(|(column, _)| if column < 2 { "---" } else { "--:" });
        let mut text = format!("{}:\n\n{}", self.legend, line(&self.headings));
        text += &format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
        for row in &self.rows {
            text += &line(&row.iter().map(middle).collect::<Vec<_>>());
        }
        text
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings: Vec<&str> = self.headings.iter().map(String::as_str).collect();
        let mut table = Table::new(&headings);
        self.rows.iter().for_each(|row| table.add(row.clone()));
        write!(f, "{}\n{table}", self.legend)
    }
}

fn is_reference(system: &System) -> bool {
    matches!(system, System::Redis { .. })
}

fn row(runs: &[Run], cell: Cell, system: &System, references: &[&System]) -> Vec<String> {
    let of = |system: &System| -> Vec<&Run> {
        let of_system = runs.iter().filter(|run| run.cell == cell);
        of_system.filter(|run| run.system == *system).collect()
    };
    let own = of(system);
    let spread = |figure: &dyn Fn(&Run) -> f64| Spread::of(own.iter().map(|run| figure(run)));
    let time = |figure: f64| show_ns(figure as u64);
    let mut cells = vec![
        cell.to_string(),
        system.to_string(),
        spread(&|run| run.per_second).show_by(show_count),
        time(spread(&|run| run.latency.p50_ns as f64).middle),
        time(spread(&|run| run.latency.p99_ns as f64).middle),
        spread(&|run| run.server_cpu_us).show(1),
        spread(&|run| run.server_wakeups).show(2),
    ];
    for reference in references {
        let others = of(reference);
        let ratio = |figure: &dyn Fn(&Run) -> f64| {
            let pairs = own.iter().filter_map(|run| {
                let other = others.iter().find(|other| other.turn == run.turn)?;
                Some(figure(run) / figure(other))
            });
            Spread::of(pairs).show(2)
        };
        cells.push(ratio(&|run| run.per_second));
        cells.push(ratio(&|run| run.server_cpu_us));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_load::latency::LatencySummary;

    /// Scenario: the machine is half as fast in the second turn.
    #[test]
    fn ratios_are_taken_within_each_turn() {
        let cell = Cell::parse("set:1").unwrap();
        let run = |turn: u16, system: &str, per_second: f64| Run {
            turn,
            system: System::parse(system).unwrap(),
            cell,
            per_second,
            latency: LatencySummary::default(),
            server_cpu_us: 1e6 / per_second,
            server_wakeups: 0.0,
            client_cpu_us: 0.0,
        };
        let runs = [
            run(0, "redis", 1000.0),
            run(0, "rabia", 500.0),
            run(1, "redis", 500.0),
            run(1, "rabia", 250.0),
        ];
        let redis = System::parse("redis").unwrap();
        let cells = row(&runs, cell, &System::parse("rabia").unwrap(), &[&redis]);
        let found = Found {
            legend: "two turns".to_owned(),
            headings: vec!["run".to_owned(), "rate".to_owned()],
            rows: vec![vec![cells[0].clone(), cells[7].clone()]],
        };
        let page = "two turns:\n\n| run | rate |\n|---|---|\n| set:1 | 0.50 |\n";
        assert_eq!(found.markdown(), page);
        assert_eq!(cells[7..], ["0.50 [0.50-0.50]", "2.00 [2.00-2.00]"]);
    }
}
