//! The figures as a picture: bars of throughput, measured beside published, and of the median.

use quorate_plot::{Chart, Group, Panel, Series};

use super::Measured;
use super::exhibit::Bar;
use crate::spread::Spread;
use quorate_tooling::units::{show_count, show_ns};

/// Draws the picture of a figure.
pub(super) fn render(figure: &Measured) -> String {
    let exhibit = &figure.exhibit;
    let chart = Chart {
        head: format!(
            "{}; medians of the turns, logarithmic scales",
            exhibit.title
        ),
        series: exhibit.bars.iter().map(series).collect(),
        panels: panels(figure),
        foot: Vec::new(),
    };
    chart.render()
}

fn series(bar: &Bar) -> Series {
    Series {
        name: bar.system.to_owned(),
        color: bar.color,
    }
}

/// The panels of a figure: two for each of its settings.
fn panels(figure: &Measured) -> Vec<Panel> {
    let bars = figure.exhibit.bars;
    let settings = figure.exhibit.settings.iter().enumerate();
    let of_setting = settings.flat_map(|(number, setting)| {
        let measured = |value: fn(&super::Run) -> f64| {
            let runs = |bar: &Bar| figure.runs_of(number, bar.system).map(value);
            group(
                "measured",
                bars.iter().map(|bar| Spread::of(runs(bar)).middle),
            )
        };
        let published = |bar: &Bar| setting.published_of(bar.system).unwrap_or_default();
        let mut rates = vec![measured(|run| run.per_second)];
        if !setting.published.is_empty() {
            rates.push(group("published", bars.iter().map(published)));
        }
        [
            Panel {
                title: format!("{}: operations per second (more is better)", setting.title),
                groups: rates,
                show: show_count,
            },
            Panel {
                title: format!("{}: p50 of a request (less is better)", setting.title),
                groups: vec![measured(|run| run.latency.p50_ns as f64)],
                show: |ns| show_ns(ns as u64),
            },
        ]
    });
    of_setting.collect()
}

/// Bars beside each other; what is not above zero cannot be drawn.
fn group(name: &str, values: impl Iterator<Item = f64>) -> Group {
    Group {
        name: name.to_owned(),
        bars: values
            .enumerate()
            .filter(|(_, value)| *value > 0.0)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::exhibit::{nezha_12, rabia_5};
    use super::super::page;
    use super::*;
    use crate::redis::Run;
    use crate::redis::system::System;
    use crate::redis::workload::Cell;
    use clap::Parser;
    use quorate_load::latency::LatencySummary;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: super::super::RedisFiguresArgs,
    }

    fn run(turn: u16, system: &str, per_second: f64) -> Run {
        Run {
            turn,
            system: System::parse(system).unwrap(),
            cell: Cell::parse("hash:20").unwrap(),
            per_second,
            latency: LatencySummary::default(),
            server_cpu_us: 0.0,
            server_wakeups: 0.0,
            client_cpu_us: 0.0,
        }
    }

    fn found() -> [Measured; 2] {
        let runs = vec![
            run(0, "redis", 1000.0),
            run(0, "commands-nezha", 900.0),
            run(1, "redis", 500.0),
            run(1, "commands-nezha", 450.0),
        ];
        [
            Measured {
                exhibit: nezha_12(2000),
                by_setting: vec![runs],
            },
            Measured {
                exhibit: rabia_5(),
                by_setting: vec![Vec::new(), vec![run(0, "commands-rabia", 345.0)]],
            },
        ]
    }

    #[test]
    fn what_is_measured_stands_beside_what_is_published() {
        let args = Command::parse_from(["figures", "--turns", "2", "--plots", "."]).args;
        let page = page::render(&args, &found());
        for part in [
            "| Nezha | `commands-nezha` | 675 [450-900] |",
            "| `commands-nezha` / `redis` | 0.90 [0.90-0.90] | 0.941 |",
            "| 20,300 |",
            "Medians of 2 turns",
            "](redis-nezha-12.svg)",
        ] {
            assert!(
                page.replace("\n", " ").contains(part),
                "{part} is not in\n{page}"
            );
        }
        let prose = page.lines().filter(|line| !line.starts_with('|'));
        assert!(prose.map(str::len).all(|width| width <= 120), "{page}");
    }

    #[test]
    fn every_system_is_a_bar_with_its_value() {
        let [nezha, rabia] = found().map(|figure| render(&figure));
        for (picture, values) in [
            (nezha, [">675<", ">20,300<", ">effects-nezha<"]),
            (rabia, [">345<", ">2,000<", ">commands-rabia<"]),
        ] {
            for value in values {
                assert!(picture.contains(value), "{value} is not in\n{picture}");
            }
        }
    }
}
