//! The figures as a picture: bars of throughput, measured beside published, and of the median.

use quorate_plot::{Chart, Group, Panel, Series};

use super::Measured;
use super::exhibit::Bar;
use crate::spread::Spread;
use quorate_tooling::units::{show_count, show_ns};

/// Draws the picture.
pub(super) fn render(figures: &[Measured]) -> String {
    let mut bars: Vec<&Bar> = Vec::new();
    for bar in figures.iter().flat_map(|figure| figure.exhibit.bars) {
        if bars.iter().all(|known| known.system != bar.system) {
            bars.push(bar);
        }
    }
    let chart = Chart {
        head: "Redis behind protocols: medians of the turns beside published numbers, logarithmic scales".to_owned(),
        series: bars.iter().map(|bar| series(bar)).collect(),
        panels: figures.iter().flat_map(|figure| panels(figure, &bars)).collect(),
        foot: figures.iter().map(|figure| figure.exhibit.title.to_owned()).collect(),
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
fn panels(figure: &Measured, bars: &[&Bar]) -> Vec<Panel> {
    let settings = figure.exhibit.settings.iter().enumerate();
    let of_setting = settings.flat_map(|(number, setting)| {
        let measured = |value: fn(&super::Run) -> f64| {
            let middle =
                |bar: &&Bar| Spread::of(figure.runs_of(number, bar.system).map(value)).middle;
            group("measured", bars.iter().map(middle))
        };
        let published = |bar: &&Bar| setting.published_of(bar.system).unwrap_or_default();
        let rates = vec![
            measured(|run| run.per_second),
            group("published", bars.iter().map(published)),
        ];
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
    use super::super::exhibit::{NEZHA_12, RABIA_5};
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
                exhibit: &NEZHA_12,
                by_setting: vec![runs],
            },
            Measured {
                exhibit: &RABIA_5,
                by_setting: vec![Vec::new(), vec![run(0, "commands-rabia", 345.0)]],
            },
        ]
    }

    #[test]
    fn what_is_measured_stands_beside_what_is_published() {
        let args = Command::parse_from(["figures", "--turns", "2"]).args;
        let page = page::render(&args, &found(), Some("figures.svg"));
        for part in [
            "| Nezha | `commands-nezha` | 675 [450-900] |",
            "| `commands-nezha` / `redis` | 0.90 [0.90-0.90] | 0.941 |",
            "| 20,300 |",
            "Medians of 2 turns",
            "](figures.svg)",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
    }

    #[test]
    fn every_system_is_a_bar_with_its_value() {
        let picture = render(&found());
        for value in [">675<", ">20,300<", ">345<", ">2,000<", ">commands-rabia<"] {
            assert!(picture.contains(value), "{value} is not in\n{picture}");
        }
    }
}
