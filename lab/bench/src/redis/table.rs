//! What was found, as a table: medians over the turns, ratios within each turn.

use super::{RedisArgs, Run, System};
use crate::spread::Spread;
use quorate_tooling::tables::Table;
use quorate_tooling::units::{show_count, show_ns};

use super::workload::Cell;

const HEADINGS: [&str; 8] = [
    "run",
    "system",
    "commands/s",
    "p50",
    "p99",
    "CPU us",
    "rate",
    "CPU",
];

/// The table of all runs, and beside it the ratios to the systems that are no cluster of Quorate.
pub(super) fn render(args: &RedisArgs, runs: &[Run]) -> String {
    let references: Vec<&System> = args
        .systems
        .iter()
        .filter(|system| is_reference(system))
        .collect();
    let mut headings: Vec<String> = HEADINGS[..6].iter().map(|&head| head.to_owned()).collect();
    for reference in &references {
        headings.extend(
            HEADINGS[6..]
                .iter()
                .map(|what| format!("{what} / {reference}")),
        );
    }
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for cell in &args.runs {
        for system in &args.systems {
            table.add(row(runs, *cell, system, &references));
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "durability {}, {cores} cores for servers and clients together; CPU time is that of all servers per command; \
         medians of {} turns [least-most], ratios within each turn\n{table}",
        args.durability.name(),
        args.turns
    )
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
        assert_eq!(cells[6..], ["0.50 [0.50-0.50]", "2.00 [2.00-2.00]"]);
    }
}
