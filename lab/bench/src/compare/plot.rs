//! The comparison as a picture: rates and latencies by clients and system, on logarithmic scales.

use quorate_plot::{Chart, Group, Panel, Series};

use super::table::in_order;
use super::{Comparison, Crowd, Run, Standing, System, Workload};
use quorate_load::report::Report;
use quorate_tooling::tables::median;
use quorate_tooling::units::{show_count, show_ns};

/// Draws the picture.
pub(super) fn render(comparison: &Comparison) -> String {
    let systems = in_order(&comparison.runs, |run| run.system);
    let mut panels = Vec::new();
    for workload in in_order(&comparison.runs, |run| run.workload) {
        let runs: Vec<&Run> = comparison.runs.iter().collect();
        let name = workload.name();
        panels.push(panel(
            format!("{name}s per second (more is better)"),
            Shown {
                systems: &systems,
                runs: &runs,
                workload,
            },
            |report| report.per_second,
            show_count,
        ));
        panels.push(panel(
            format!("p99 of a {name} (less is better)"),
            Shown {
                systems: &systems,
                runs: &runs,
                workload,
            },
            |report| report.latency.p99_ns as f64,
            |ns| show_ns(ns as u64),
        ));
    }
    if let Some(rate) = comparison
        .equal_load
        .first()
        .and_then(|run| run.report.rate)
    {
        let runs: Vec<&Run> = comparison.equal_load.iter().collect();
        let latencies: [(&str, Figure); 2] = [
            ("p50", |report| report.latency.p50_ns as f64),
            ("p99", |report| report.latency.p99_ns as f64),
        ];
        for (name, of) in latencies {
            let offered = show_count(rate);
            let title = format!("{name} at {offered} puts/s offered (less is better)");
            let shown = Shown {
                systems: &systems,
                runs: &runs,
                workload: Workload::Put,
            };
            panels.push(panel(title, shown, of, |ns| show_ns(ns as u64)));
        }
    }
    let series = systems.iter().map(|system| Series {
        name: system.name().to_owned(),
        color: color(*system),
    });
    let chart = Chart {
        head: format!(
            "{} replicas, {} B values, {}; medians of the turns, logarithmic scales",
            comparison.replicas, comparison.value_bytes, comparison.protocol
        ),
        series: series.collect(),
        panels,
        foot: comparison.standing.iter().map(in_words).collect(),
    };
    chart.render()
}

/// What is drawn of a run.
type Figure = fn(&Report) -> f64;

/// What a diagram is about.
#[derive(Clone, Copy)]
struct Shown<'a> {
    systems: &'a [System],
    runs: &'a [&'a Run],
    workload: Workload,
}

/// One diagram: the medians of all systems, by the number of clients.
fn panel(title: String, shown: Shown<'_>, of: Figure, show: fn(f64) -> String) -> Panel {
    let has_workload = |run: &&&Run| run.workload == shown.workload;
    let runs: Vec<&Run> = shown.runs.iter().filter(has_workload).copied().collect();
    let crowds = in_order(&runs, |run| run.crowd());
    let is_told_apart = |clients| crowds.iter().filter(|one| one.clients == clients).count() > 1;
    let group = |crowd: Crowd| {
        let bar = |(index, system): (usize, &System)| {
            let same = runs
                .iter()
                .filter(|run| (run.crowd(), run.system) == (crowd, *system));
            let value = median(same.map(|run| of(&run.report)).collect())?;
            (value > 0.0).then_some((index, value))
        };
        Group {
            name: match crowd.clients {
                1 => "1 client".to_owned(),
                clients if is_told_apart(clients) => {
                    format!("{clients} over {}", crowd.connections)
                }
                clients => format!("{clients} clients"),
            },
            bars: shown.systems.iter().enumerate().filter_map(bar).collect(),
        }
    };
    Panel {
        title,
        groups: crowds.iter().copied().map(group).collect(),
        show,
    }
}

/// What a cluster costs by being there.
fn in_words(standing: &Standing) -> String {
    let mut words = standing.system.name().to_owned();
    if let Some(idle) = &standing.idle {
        words += &format!(": idle {:.2} % of a core", idle.cpu_percent);
    }
    if let Some(many) = &standing.many {
        words += &format!(
            "; {} keys of {} bytes: {} MiB per replica, restart in {:.1} s",
            show_count(many.keys as f64),
            many.key_bytes,
            many.rss_bytes >> 20,
            many.restart_seconds
        );
    }
    words
}

/// Told apart also by those who see no difference between red and green.
fn color(system: System) -> &'static str {
    match system {
        System::Quorate => "#0072b2",
        System::Etcd => "#d55e00",
        System::Floor => "#777777",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::ClientKind;

    fn run(system: System, clients: u32, per_second: f64) -> Run {
        let mut report = Report {
            per_second,
            ..Report::default()
        };
        report.latency.p99_ns = 2_000_000;
        Run {
            pair: 0,
            system,
            workload: Workload::Put,
            clients,
            report,
        }
    }

    #[test]
    fn every_run_is_a_bar_with_its_value() {
        let comparison = Comparison {
            value_bytes: 256,
            replicas: 3,
            protocol: "rabia".to_owned(),
            runs: vec![
                run(System::Quorate, 1, 1000.0),
                run(System::Etcd, 1, 100.0),
                run(System::Quorate, 64, 10_000.0),
            ],
            client: ClientKind::Own,
            equal_load: Vec::new(),
            long_values: Vec::new(),
            standing: Vec::new(),
            gates: Vec::new(),
        };
        let picture = render(&comparison);
        assert_eq!(
            picture.matches("rotate(-90)").count(),
            6,
            "rates and latencies"
        );
        for value in [">1,000<", ">10,000<", ">2.00 ms<", ">64 clients<"] {
            assert!(picture.contains(value), "{value}");
        }
    }
}
