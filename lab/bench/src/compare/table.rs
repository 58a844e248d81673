//! The comparison as a table: medians over the turns, ratios within each turn.

use super::{Comparison, Crowd, Idle, Many, Run, Standing, System, Workload, gates};
use quorate_load::report::{Report, ServerCosts};
use quorate_tooling::tables::{align, median};
use quorate_tooling::units::{show_count, show_ns};
use std::borrow::Borrow;

/// Prints a table per workload, and one for what else was measured.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut text = String::new();
    for workload in in_order(&comparison.runs, |run| run.workload) {
        let clients = comparison.client.title();
        let what = format!("{}, as fast as {clients} come back", workload.name());
        text += &block(comparison, &comparison.runs, workload, &what);
    }
    if let Some(run) = comparison.equal_load.first() {
        let rate = show_count(run.report.rate.unwrap_or(0.0));
        let what = format!("put, {rate} offered per second to all");
        text += &block(comparison, &comparison.equal_load, Workload::Put, &what);
    }
    if let Some(run) = comparison.long_values.first() {
        let what = format!("put of {} B", run.report.value_bytes);
        text += &block(comparison, &comparison.long_values, Workload::Put, &what);
    }
    text + &standing(&comparison.standing) + &gates::render(&comparison.gates)
}

/// One workload: a block of rows per number of clients.
fn block(comparison: &Comparison, runs: &[Run], workload: Workload, what: &str) -> String {
    let runs: Vec<&Run> = runs.iter().filter(|run| run.workload == workload).collect();
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for crowd in in_order(&runs, |run| run.crowd()) {
        for system in in_order(&runs, |run| run.system) {
            let cell = Cell {
                runs: &runs,
                crowd,
                system,
            };
            rows.extend((cell.runs(system).count() > 0).then(|| cell.row()));
        }
    }
    let quorate = runs.iter().any(|run| run.system == System::Quorate);
    let protocol = match quorate {
        true => format!(", quorate with {}", comparison.protocol),
        false => String::new(),
    };
    let value_bytes = runs.first().map_or(0, |run| run.report.value_bytes);
    let title = format!(
        "{what}: {} replicas, {value_bytes} B values{protocol}; medians of the turns\n",
        comparison.replicas
    );
    title + &align(&rows) + "\n"
}

/// What clusters cost by being there.
fn standing(standing: &[Standing]) -> String {
    let mut rows = vec![STANDING_HEADINGS.map(str::to_owned).to_vec()];
    let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for one in standing {
        let idle = |of: fn(&Idle) -> String| or_none(one.idle.as_ref().map(of));
        let many = |of: &dyn Fn(&Many) -> String| or_none(one.many.as_ref().map(of));
        rows.push(vec![
            one.system.name().to_owned(),
            idle(|idle| format!("{:.2}", idle.cpu_percent)),
            idle(|idle| format!("{:.1}", idle.wakeups_per_second)),
            many(&|many| show_count(many.keys as f64)),
            many(&|many| format!("{:.1}", many.load_seconds)),
            many(&|many| mib(many.rss_bytes)),
            many(&|many| format!("{:.2}", many.restart_seconds)),
            many(&|many| mib(many.rss_restarted_bytes)),
        ]);
    }
    match standing.is_empty() {
        true => String::new(),
        false => {
            "the cluster by itself: idle, and with 100-byte keys (RSS of the largest replica)\n"
                .to_owned()
                + &align(&rows)
        }
    }
}

/// One system at one number of clients.
struct Cell<'a> {
    runs: &'a [&'a Run],
    crowd: Crowd,
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
        let shown = |figures: Vec<f64>, digits: usize| {
            median(figures).map_or("-".to_owned(), |median| format!("{median:.digits$}"))
        };
        let cost = |of: fn(&ServerCosts) -> Option<f64>, digits: usize| {
            shown(
                self.each(|report| report.servers.as_ref().and_then(of)),
                digits,
            )
        };
        vec![
            self.crowd.clients.to_string(),
            self.crowd.connections.to_string(),
            self.system.name().to_owned(),
            show_count(median(rates).unwrap_or(0.0)),
            format!("{} - {}", show_count(lowest), show_count(highest)),
            latency(|report| report.latency.p50_ns),
            latency(|report| report.latency.p99_ns),
            cost(|servers| Some(servers.cpu_us_per_op), 1),
            shown(self.each(|report| Some(report.generator_cpu_us_per_op)), 1),
            cost(|servers| servers.commands_per_sync, 1),
            cost(|servers| Some(servers.wakeups_per_op), 2),
            cost(|servers| servers.system_calls_per_op, 1),
            cost(|servers| Some(servers.bytes_written_per_op), 0),
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
        let wanted = move |run: &&Run| run.system == system && run.crowd() == self.crowd;
        self.runs.iter().copied().filter(wanted)
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

/// Distinct values in the order they first appear.
pub(super) fn in_order<R: Borrow<Run>, T: PartialEq>(runs: &[R], of: impl Fn(&Run) -> T) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in runs.iter().map(|run| of(run.borrow())) {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

const HEADINGS: [&str; 17] = [
    "clients",
    "conns",
    "system",
    "ops/s",
    "range",
    "p50",
    "p99",
    "CPU us/op",
    "client us/op",
    "cmds/flush",
    "wake-ups/op",
    "calls/op",
    "written B/op",
    "flushes/cmd",
    "x etcd",
    "x floor",
    "failed",
];

const STANDING_HEADINGS: [&str; 8] = [
    "system",
    "idle CPU %",
    "wake-ups/s",
    "keys",
    "load s",
    "RSS MiB",
    "restart s",
    "RSS MiB after",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::ClientKind;

    fn run(pair: u16, system: System, per_second: f64) -> Run {
        let report = Report {
            per_second,
            ..Report::default()
        };
        Run {
            pair,
            system,
            workload: Workload::Put,
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
            client: ClientKind::Go,
            long_values: Vec::new(),
            gates: Vec::new(),
            equal_load: vec![run(0, System::Etcd, 50.0)],
            standing: vec![Standing {
                system: System::Quorate,
                idle: Some(Idle {
                    seconds: 1.0,
                    cpu_percent: 0.25,
                    wakeups_per_second: 1.0,
                }),
                many: None,
            }],
            runs,
        };
        let runs: Vec<&Run> = comparison.runs.iter().collect();
        let cell = Cell {
            runs: &runs,
            crowd: Crowd {
                clients: 1,
                connections: 0,
            },
            system: System::Quorate,
        };
        assert_eq!(cell.ratio_to(System::Etcd), "2.00");
        assert_eq!(cell.ratio_to(System::Floor), "-");
        let table = render(&comparison);
        assert!(table.contains("200 - 600"), "{table}");
        assert!(table.contains("offered per second to all"), "{table}");
        assert!(table.contains("quorate        0.25"), "{table}");
    }
}
