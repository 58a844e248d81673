//! The comparison as a picture: rates and latencies by clients and system, on logarithmic scales.
//!
//! Plain SVG, written by hand: bars, a few lines and words need no library.

use std::fmt::Write;

use super::table::{in_order, median};
use super::{Comparison, Run, Standing, System, Workload};
use crate::report::Report;
use crate::units::{show_count, show_ns};

/// Draws the picture.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut panels = Vec::new();
    for workload in in_order(&comparison.runs, |run| run.workload) {
        let runs: Vec<&Run> = comparison.runs.iter().collect();
        let name = workload.name();
        panels.push(Panel::of(
            format!("{name}s per second (more is better)"),
            &runs,
            workload,
            |report| report.per_second,
            show_count,
        ));
        panels.push(Panel::of(
            format!("p99 of a {name} (less is better)"),
            &runs,
            workload,
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
            let title = format!(
                "{name} at {} puts/s offered (less is better)",
                show_count(rate)
            );
            panels.push(Panel::of(title, &runs, Workload::Put, of, |ns| {
                show_ns(ns as u64)
            }));
        }
    }
    document(comparison, &panels)
}

/// What is drawn of a run.
type Figure = fn(&Report) -> f64;

/// One diagram: bars of all systems, in groups.
struct Panel {
    title: String,
    groups: Vec<Group>,
    show: fn(f64) -> String,
}

/// The bars of one number of clients.
struct Group {
    name: String,
    bars: Vec<(System, f64)>,
}

impl Panel {
    fn of(
        title: String,
        runs: &[&Run],
        workload: Workload,
        of: impl Fn(&Report) -> f64,
        show: fn(f64) -> String,
    ) -> Panel {
        let runs: Vec<&Run> = runs
            .iter()
            .copied()
            .filter(|run| run.workload == workload)
            .collect();
        let systems = in_order(&runs, |run| run.system);
        let groups = in_order(&runs, |run| run.clients)
            .into_iter()
            .map(|clients| {
                let bar = |system: &System| {
                    let same = runs
                        .iter()
                        .filter(|run| (run.clients, run.system) == (clients, *system));
                    let value = median(same.map(|run| of(&run.report)).collect())?;
                    (value > 0.0).then_some((*system, value))
                };
                Group {
                    name: match clients {
                        1 => "1 client".to_owned(),
                        _ => format!("{clients} clients"),
                    },
                    bars: systems.iter().filter_map(bar).collect(),
                }
            });
        Panel {
            title,
            groups: groups.collect(),
            show,
        }
    }

    /// Powers of ten that hold all values.
    fn decades(&self) -> (i32, i32) {
        let values = || {
            self.groups
                .iter()
                .flat_map(|group| &group.bars)
                .map(|bar| bar.1)
        };
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(0.0, f64::max);
        if high <= 0.0 {
            return (0, 1);
        }
        // The smallest bar must be seen as well.
        let low = (low * 0.8).log10().floor() as i32;
        (low, (high.log10().ceil() as i32).max(low + 1))
    }

    fn draw(&self, out: &mut String, left: f64, top: f64) -> std::fmt::Result {
        let (low, high) = self.decades();
        let share = |value: f64| (value.log10() - f64::from(low)) / f64::from(high - low);
        let bottom = top + TITLE + PLOT_HEIGHT;
        let x0 = left + AXIS;
        writeln!(
            out,
            r#"<text x="{x0}" y="{}" class="title">{}</text>"#,
            top + 16.0,
            self.title
        )?;
        for decade in low..=high {
            let y = bottom - PLOT_HEIGHT * share(10f64.powi(decade));
            let label = (self.show)(10f64.powi(decade));
            writeln!(
                out,
                r#"<line x1="{x0}" y1="{y:.1}" x2="{}" y2="{y:.1}" class="grid"/><text x="{}" y="{:.1}" class="axis">{label}</text>"#,
                left + PANEL_WIDTH,
                x0 - 6.0,
                y + 4.0
            )?;
        }
        let group_width = PLOT_WIDTH / self.groups.len().max(1) as f64;
        for (at, group) in self.groups.iter().enumerate() {
            let middle = x0 + group_width * (at as f64 + 0.5);
            writeln!(
                out,
                r#"<text x="{middle:.1}" y="{:.1}" class="name">{}</text>"#,
                bottom + 16.0,
                group.name
            )?;
            let width = (group_width * 0.8 / group.bars.len().max(1) as f64).min(BAR_WIDTH_MAX);
            let first = middle - width * group.bars.len() as f64 / 2.0;
            for (nth, (system, value)) in group.bars.iter().enumerate() {
                let x = first + width * nth as f64;
                let height = PLOT_HEIGHT * share(*value);
                let y = bottom - height;
                // A short bar has its value on top of it.
                let (class, foot) = match height < VALUE_LENGTH {
                    true => ("above", y),
                    false => ("value", bottom),
                };
                writeln!(
                    out,
                    r#"<rect x="{x:.1}" y="{y:.1}" width="{:.1}" height="{height:.1}" fill="{}"/><text transform="translate({:.1} {:.1}) rotate(-90)" class="{class}">{}</text>"#,
                    width - 2.0,
                    color(*system),
                    x + width / 2.0 + 2.0,
                    foot - 5.0,
                    (self.show)(*value)
                )?;
            }
        }
        Ok(())
    }
}

fn document(comparison: &Comparison, panels: &[Panel]) -> String {
    let rows = panels.len().div_ceil(2);
    let words = comparison.standing.len() as f64 * LINE;
    let height = HEAD + rows as f64 * ROW + words + MARGIN;
    let width = 2.0 * (PANEL_WIDTH + MARGIN) + MARGIN;
    let mut out = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<style>
text {{ font-family: sans-serif; font-size: 12px; fill: #222 }}
.head {{ font-size: 16px; font-weight: bold }}
.title {{ font-size: 13px; font-weight: bold }}
.axis {{ text-anchor: end; fill: #666; font-size: 11px }}
.name {{ text-anchor: middle }}
.value {{ font-size: 11px; fill: #fff }}
.above {{ font-size: 11px }}
.grid {{ stroke: #ddd }}
</style>
<rect width="100%" height="100%" fill="#fff"/>
"##
    );
    draw(&mut out, comparison, panels).expect("a String takes all that is written to it");
    out + "</svg>\n"
}

fn draw(out: &mut String, comparison: &Comparison, panels: &[Panel]) -> std::fmt::Result {
    writeln!(
        out,
        r#"<text x="{MARGIN}" y="26" class="head">{} replicas, {} B values, {}; medians of the turns, logarithmic scales</text>"#,
        comparison.replicas, comparison.value_bytes, comparison.protocol
    )?;
    let systems = in_order(&comparison.runs, |run| run.system);
    for (at, system) in systems.into_iter().enumerate() {
        let x = MARGIN + at as f64 * 100.0;
        writeln!(
            out,
            r#"<rect x="{x}" y="38" width="12" height="12" fill="{}"/><text x="{}" y="49">{}</text>"#,
            color(system),
            x + 18.0,
            system.name()
        )?;
    }
    for (at, panel) in panels.iter().enumerate() {
        let left = MARGIN + (at % 2) as f64 * (PANEL_WIDTH + MARGIN);
        panel.draw(out, left, HEAD + (at / 2) as f64 * ROW)?;
    }
    let foot = HEAD + panels.len().div_ceil(2) as f64 * ROW;
    for (at, one) in comparison.standing.iter().enumerate() {
        let (y, words) = (foot + at as f64 * LINE, in_words(one));
        writeln!(out, r#"<text x="{MARGIN}" y="{y}">{words}</text>"#)?;
    }
    Ok(())
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

const MARGIN: f64 = 20.0;
const HEAD: f64 = 70.0;
const TITLE: f64 = 26.0;
const AXIS: f64 = 62.0;
const PANEL_WIDTH: f64 = 540.0;
const PLOT_WIDTH: f64 = PANEL_WIDTH - AXIS;
const PLOT_HEIGHT: f64 = 220.0;
const ROW: f64 = TITLE + PLOT_HEIGHT + 50.0;
const BAR_WIDTH_MAX: f64 = 46.0;
/// Room that a value takes along its bar.
const VALUE_LENGTH: f64 = 60.0;
const LINE: f64 = 18.0;

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_bar_is_inside_and_a_decade_is_a_decade() {
        let comparison = Comparison {
            value_bytes: 256,
            replicas: 3,
            protocol: "rabia".to_owned(),
            runs: vec![
                run(System::Quorate, 1, 1000.0),
                run(System::Etcd, 1, 100.0),
                run(System::Quorate, 64, 10_000.0),
            ],
            equal_load: Vec::new(),
            standing: Vec::new(),
        };
        let picture = render(&comparison);
        let heights: Vec<f64> = picture
            .split("<rect x=")
            .filter(|bar| bar.contains("rotate(-90)"))
            .filter_map(|bar| {
                bar.split("height=\"")
                    .nth(1)?
                    .split('"')
                    .next()?
                    .parse()
                    .ok()
            })
            .collect();
        let (quorate, etcd, busy) = (heights[0], heights[1], heights[2]);
        assert!(
            (quorate - etcd - (busy - quorate)).abs() < 0.2,
            "{heights:?}"
        );
        assert!(etcd > 0.0 && busy <= PLOT_HEIGHT, "{heights:?}");
        assert!(picture.ends_with("</svg>\n"));
    }
}
