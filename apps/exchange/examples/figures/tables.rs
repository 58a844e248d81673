//! The tables of what processes did, and their picture.

use super::Figures;
use super::numbers::{ratio, share, us};
use super::processes::{BORNE_NS, COMMON_RATE, Curve, Curves, JITTER_NS, Point, SYSTEMS, WAY_NS};
use quorate_exchange::Histogram;
use quorate_plot::{Chart, Group, Panel, Series};
use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// What is measured, and how evenly the relay did what it was told.
pub(super) fn introduction(figures: &Figures, relayed: &Histogram) -> String {
    let passed = [100, 500, 900, 990, 999].map(|per_mille| us(relayed, per_mille).to_string());
    format!(
        "## Figures 13 and 14 from processes\n\n\
         16 gateways, 48 participants and 100 symbols; replicas in memory, gateways, participants, a subscriber\n\
         and the relay share {} cores. Requests are held for 200 us, market data for 300 us; {} s at each rate. An\n\
         exchange bears a rate at which 99 of 100 orders are confirmed within {} ms and all that is offered is\n\
         answered. Unfairness and latency are those at {COMMON_RATE} orders/s, CPU time that where most is\n\
         answered.\n\n\
         The relay has what passes between a gateway and a replica for {} us and an exponential time of mean {} us.\n\
         By its own clock it had it for {} us (p10, p50, p90, p99, p99.9): the rest is what it waits for a core.\n\n\
         ![Figures 13 and 14 from processes](exchange-processes.svg)\n",
        cores(),
        figures.time.as_secs(),
        BORNE_NS / 1_000_000,
        WAY_NS / 1000,
        JITTER_NS / 1000,
        passed.join(", ")
    )
}

/// A row for each system.
pub(super) fn table(figures: &Figures, title: &str, curves: &Curves) -> String {
    let mut table = format!(
        "\n### {title}\n\n\
         | system | orders/s borne | of unreplicated | published | most answered/s | overtaken | in their \
         symbol | confirmation p50 | result p50 | CPU us/order: replicas | gateways | of unreplicated | cores \
         busy |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    );
    let first = curves.first().and_then(|(_, curve)| curve.as_ref().ok());
    let replicas_us = |curve: &Curve| {
        let most = curve.most()?;
        Some(most.cpu_us(most.seen.cpu.replicas))
    };
    let (first_rate, first_us) = (
        first.map_or(0, Curve::best_rate) as f64,
        first.and_then(replicas_us).unwrap_or_default(),
    );
    for (system, curve) in curves {
        let curve = match curve {
            Ok(curve) => curve,
            Err(why) => {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    table,
                    "| {} | not measured: {why} | | | | | | | | | | | |",
                    system.name
                );
                continue;
            }
        };
        let (Some(common), Some(most)) = (curve.at(COMMON_RATE), curve.most()) else {
            let _ = writeln!(
                table,
                "| {} | below {COMMON_RATE} | | | | | | | | | | | |",
                system.name
            );
            continue;
        };
        let published = system
            .published
            .map_or_else(String::new, |share| format!("{share:.3}"));
        let [requests, overtaken, of_symbol] = common.requests;
        let (confirmed, executed) = (&common.seen.load.confirmed, &common.seen.load.executed);
        let cpu = most.seen.cpu;
        let _ = writeln!(
            table,
            "| {} | {} | {} | {published} | {:.0} | {:.2} % | {:.2} % | {} us | {} us | {:.0} | {:.0} | {} | {:.2} |",
            system.name,
            curve.best_rate(),
            ratio(curve.best_rate() as f64, first_rate),
            most.answered_per_s,
            share(overtaken, requests),
            share(of_symbol, requests),
            us(confirmed, 500),
            us(executed, 500),
            most.cpu_us(cpu.replicas),
            most.cpu_us(cpu.gateways),
            ratio(most.cpu_us(cpu.replicas), first_us),
            most.cores(figures.time)
        );
    }
    table
}

/// The row of a run with one delay of requests.
pub(super) fn delay_row(point: &Point) -> String {
    let gateways = point.seen.gateways.iter();
    let (late, shown) = gateways.fold((0, 0), |(late, shown), one| {
        (late + one.late, shown + one.shown)
    });
    let [requests, overtaken, of_symbol] = point.requests;
    let confirmed = &point.seen.load.confirmed;
    format!(
        "{:.2} % | {:.2} % | {:.2} % | {} us | {} us |",
        share(overtaken, requests),
        share(of_symbol, requests),
        share(late, shown),
        us(confirmed, 500),
        us(confirmed, 990)
    )
}

/// Where the CPU time goes when most is answered.
pub(super) fn what_binds(figures: &Figures, curves: &Curves) -> String {
    let mut text = format!(
        "\n### What binds\n\nCPU time where most is answered, the engine as it is. Where nearly all of {} cores are \
         busy,\nthe machine binds: one for each role is [above](#figures-13-and-14-in-virtual-time).\n\n\
         | system | orders/s | cores busy | replicas | gateways | participants, subscriber, relay |\n\
         |---|--:|--:|--:|--:|--:|\n",
        cores()
    );
    for (system, curve) in curves {
        let Some(most) = curve.as_ref().ok().and_then(Curve::most) else {
            continue;
        };
        let cpu = most.seen.cpu;
        let all = (cpu.replicas + cpu.gateways + cpu.here)
            .as_secs_f64()
            .max(1e-9);
        let part = |time: Duration| 100.0 * time.as_secs_f64() / all;
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.2} | {:.0} % | {:.0} % | {:.0} % |",
            system.name,
            most.answered_per_s,
            most.cores(figures.time),
            part(cpu.replicas),
            part(cpu.gateways),
            part(cpu.here)
        );
    }
    text
}

/// What stands in a bar of this height.
fn bar_label(value: f64) -> String {
    match value < 10.0 {
        true => format!("{value:.2}"),
        false => format!("{value:.0}"),
    }
}

/// The bars of both figures.
pub(super) fn picture(figures: &Figures, as_is: &Curves, slowed: &Curves, binding: u64) -> String {
    type Value = fn(&Curve) -> Option<f64>;
    let group = |name: &str, curves: &Curves, value: Value| Group {
        name: name.to_owned(),
        bars: (0..)
            .zip(curves)
            .filter_map(|(at, (_, curve))| Some((at, value(curve.as_ref().ok()?)?)))
            .filter(|(_, value)| *value > 0.0)
            .collect(),
    };
    let borne: Value = |curve| curve.best().map(|point| point.rate as f64);
    let overtaken: Value = |curve| {
        let [requests, overtaken, _] = curve.at(COMMON_RATE)?.requests;
        Some(share(overtaken, requests))
    };
    let confirmed: Value =
        |curve| Some(us(&curve.at(COMMON_RATE)?.seen.load.confirmed, 500) as f64);
    let executed: Value = |curve| Some(us(&curve.at(COMMON_RATE)?.seen.load.executed, 500) as f64);
    let replicas: Value = |curve| {
        let most = curve.most()?;
        Some(most.cpu_us(most.seen.cpu.replicas))
    };
    let panel = |title: String, groups| Panel {
        title,
        groups,
        show: bar_label,
    };
    let slow = format!("engine of {binding}/s");
    let panels = vec![
        panel(
            "Figure 13: orders/s that are borne".to_owned(),
            vec![group("as it is", as_is, borne), group(&slow, slowed, borne)],
        ),
        panel(
            format!("Figure 13: requests overtaken, %, at {COMMON_RATE} orders/s"),
            vec![
                group("as it is", as_is, overtaken),
                group(&slow, slowed, overtaken),
            ],
        ),
        panel(
            format!("Figure 14: p50 at {COMMON_RATE} orders/s, us"),
            vec![
                group("order to confirmation", as_is, confirmed),
                group("order to result", as_is, executed),
            ],
        ),
        panel(
            "CPU time of replicas for an order, us".to_owned(),
            vec![group("as it is", as_is, replicas)],
        ),
    ];
    Chart {
        head: "16 gateways, 48 participants, 100 symbols, as processes".to_owned(),
        series: SYSTEMS
            .iter()
            .map(|system| Series {
                name: system.name.to_owned(),
                color: system.color,
            })
            .collect(),
        panels,
        foot: vec![format!(
            "All processes share {} cores; {} s at each rate; a relay between gateways and replicas.",
            cores(),
            figures.time.as_secs()
        )],
    }
    .render()
}
