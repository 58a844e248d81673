//! The comparison as a table: medians over the turns, ratios within each turn.

use super::{Comparison, Run, System};
use crate::report::{Report, ServerCosts};
use crate::units::{show_count, show_ns};

/// Prints one block of rows per number of clients.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for clients in in_order(&comparison.runs, |run| run.clients) {
        for system in in_order(&comparison.runs, |run| run.system) {
            let cell = Cell {
                comparison,
                clients,
                system,
            };
            rows.push(cell.row());
        }
    }
    let quorate = comparison
        .runs
        .iter()
        .any(|run| run.system == System::Quorate);
    let protocol = match quorate {
        true => format!(", quorate with {}", comparison.protocol),
        false => String::new(),
    };
    let title = format!(
        "put, {} replicas, {} B values{protocol}; medians of the turns\n",
        comparison.replicas, comparison.value_bytes
    );
    title + &align(&rows)
}

/// One system at one number of clients.
struct Cell<'a> {
    comparison: &'a Comparison,
    clients: u32,
    system: System,
}

impl Cell<'_> {
    fn row(&self) -> Vec<String> {
        let rates: Vec<f64> = self.each(|report| Some(report.per_second));
        let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = rates.iter().copied().fold(0.0, f64::max);
        let latency = |of: fn(&Report) -> u64| {
            show_ns(median(self.each(|report| Some(of(report) as f64))).unwrap_or(0.0) as u64)
        };
        let cost = |of: fn(&ServerCosts) -> Option<f64>, digits: usize| {
            let median = median(self.each(|report| report.servers.as_ref().and_then(of)));
            median.map_or("-".to_owned(), |median| format!("{median:.digits$}"))
        };
        vec![
            self.clients.to_string(),
            self.system.name().to_owned(),
            show_count(median(rates).unwrap_or(0.0)),
            format!("{} - {}", show_count(lowest), show_count(highest)),
            latency(|report| report.latency.p50_ns),
            latency(|report| report.latency.p99_ns),
            cost(|servers| Some(servers.cpu_us_per_op), 1),
            cost(|servers| servers.commands_per_sync, 1),
            cost(|servers| Some(servers.wakeups_per_op), 2),
            cost(|servers| servers.syncs_per_command, 2),
            self.ratio_to(System::Etcd),
            self.ratio_to(System::Floor),
            show_count(
                self.each(|report| Some(report.errors.values().sum::<u64>() as f64))
                    .iter()
                    .sum(),
            ),
        ]
    }

    fn each(&self, of: impl Fn(&Report) -> Option<f64>) -> Vec<f64> {
        self.runs(self.system)
            .filter_map(|run| of(&run.report))
            .collect()
    }

    fn runs(&self, system: System) -> impl Iterator<Item = &Run> {
        let wanted = move |run: &&Run| run.system == system && run.clients == self.clients;
        self.comparison.runs.iter().filter(wanted)
    }

    /// The median of the ratios between runs of the same turn.
    fn ratio_to(&self, other: System) -> String {
        let ratios = self.runs(self.system).filter_map(|run| {
            let base = self.runs(other).find(|base| base.pair == run.pair)?;
            (base.report.per_second > 0.0).then(|| run.report.per_second / base.report.per_second)
        });
        median(ratios.collect()).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Distinct values in the order they first appear.
fn in_order<T: PartialEq>(runs: &[Run], of: impl Fn(&Run) -> T) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in runs.iter().map(of) {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

fn align(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

const HEADINGS: [&str; 13] = [
    "clients",
    "system",
    "puts/s",
    "range",
    "p50",
    "p99",
    "CPU us/put",
    "cmds/flush",
    "wake-ups/put",
    "flushes/cmd",
    "x etcd",
    "x floor",
    "errors",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pair: u16, system: System, per_second: f64) -> Run {
        let report = Report {
            per_second,
            ..Report::default()
        };
        Run {
            pair,
            system,
            clients: 1,
            report,
        }
    }

    #[test]
    fn ratios_are_taken_within_a_turn() {
        // The machine slowed down threefold between the turns: the ratio does not notice.
        let runs = vec![
            run(0, System::Quorate, 600.0),
            run(0, System::Etcd, 300.0),
            run(1, System::Quorate, 200.0),
            run(1, System::Etcd, 100.0),
        ];
        let comparison = Comparison {
            value_bytes: 1,
            replicas: 3,
            protocol: "rabia".to_owned(),
            runs,
        };
        let cell = Cell {
            comparison: &comparison,
            clients: 1,
            system: System::Quorate,
        };
        assert_eq!(cell.ratio_to(System::Etcd), "2.00");
        assert_eq!(cell.ratio_to(System::Floor), "-");
        let table = render(&comparison);
        assert!(table.contains("200 - 600"), "{table}");
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
