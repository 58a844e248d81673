//! What was measured, as a page.

use super::costs::Costs;
use super::systems::System;
use super::{LoadOptions, Measured, Pace, Point, Run};

pub(super) fn text(options: &LoadOptions, costs: &Costs, runs: &[Run]) -> String {
    let mut page = format!(
        "Writes of the plain store, a core for each replica and gateway; {}; a flush takes {} us. Costs of a core:\n\n",
        options.calm.words(),
        options.flush_us
    );
    costs.lines().for_each(|line| page += &line);
    page += "\n| n | load | system | writes/s | refused | p50 | p99 | fast path | held | replica's core | \
             gateway's core | gateways, us/write |\n|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
    runs.iter()
        .for_each(|run| page += &row(run.point, &run.measured));
    page += "\nThe most writes a second that were answered, and the median latency at the least load, beside those of \
             Multi-Paxos:\n\n| n | loop | system | writes/s | times Multi-Paxos | p50 | Multi-Paxos takes |\n\
             |--:|---|---|--:|--:|--:|--:|\n";
    for replicas in &options.replicas {
        for (name, is_of) in LOOPS {
            let of = |system: &System| {
                let same = runs.iter().filter(|Run { point, .. }| {
                    point.replicas == *replicas && point.system == *system && is_of(point.pace)
                });
                Summary::of(same.map(|run| &run.measured))
            };
            let base = System::named("multi-paxos")
                .ok()
                .and_then(|system| of(&system));
            for system in &options.systems {
                let Some(sum) = of(system) else { continue };
                let (gain, takes) = match &base {
                    Some(base) => (
                        format!("{:.2}", sum.most / base.most),
                        format!(
                            "{:.2} times as long",
                            base.p50_us as f64 / sum.p50_us as f64
                        ),
                    ),
                    None => Default::default(),
                };
                page += &format!(
                    "| {replicas} | {name} | {} | {:.0} | {gain} | {} us | {takes} |\n",
                    system.name, sum.most, sum.p50_us
                );
            }
        }
    }
    page
}

type IsOf = fn(Pace) -> bool;

/// Both ways in which load comes.
const LOOPS: [(&str, IsOf); 2] = [
    ("closed", |pace| matches!(pace, Pace::Clients(_))),
    ("open", |pace| matches!(pace, Pace::Rate(_))),
];

/// Of the runs of one system.
struct Summary {
    most: f64,
    /// Of the first run.
    p50_us: u64,
}

impl Summary {
    fn of<'a>(runs: impl Iterator<Item = &'a Measured> + Clone) -> Option<Summary> {
        let p50_us = runs.clone().next()?.p50_us;
        let most = runs.map(|measured| measured.writes_a_second);
        Some(Summary {
            most: most.fold(0.0, f64::max),
            p50_us,
        })
    }
}

fn row(point: Point, measured: &Measured) -> String {
    let load = match point.pace {
        Pace::Clients(count) => format!("{count} clients"),
        Pace::Rate(rate) => format!("{rate}/s"),
    };
    let (fast, held) = match measured.fast_percent {
        Some(percent) => (
            format!("{percent:.1} %"),
            format!("{:.0} us", measured.held_us),
        ),
        None => Default::default(),
    };
    let (core, each) = match point.system.gateways {
        0 => Default::default(),
        _ => (
            format!("{:.0} %", measured.gateway_percent),
            format!("{:.1}", measured.gateway_us),
        ),
    };
    format!(
        "| {} | {load} | {} | {:.0} | {} | {} us | {} us | {fast} | {held} | {:.0} % | {core} | {each} |\n",
        point.replicas,
        point.system.name,
        measured.writes_a_second,
        measured.refused,
        measured.p50_us,
        measured.p99_us,
        measured.replica_percent,
    )
}
