//! The figures for people: a page of tables, as in `docs/results/figures.md`.

use super::Figures;
use crate::figures::points::{CLOCK_NS, LATE_ONE_IN, Point, TURN_NS, UNIT_NS};
use crate::figures::setting_line;
use crate::steady::SPIKE_NS_MAX;
use quorate_core::{MICROS, MILLIS};
use std::fmt::Write;
use std::path::Path;

/// The whole page.
pub(super) fn text(figures: &Figures) -> String {
    let mut page = String::new();
    write(&mut page, figures).expect("a String takes all that is written to it");
    page
}

fn write(page: &mut String, figures: &Figures) -> std::fmt::Result {
    let options = &figures.options;
    let (protocol, durability) = (&options.protocol, options.durability.name());
    writeln!(
        page,
        "# Figures of `{protocol}`\n\n\
         From the simulator, without faults and with every check on: `{}` prints this page, the same for the same \
         seed. Replicas: {durability}.\n",
        options.command_line(),
    )?;
    if let Some(paper) = figures.paper {
        writeln!(page, "Settings:\n")?;
        for setting in paper.settings {
            writeln!(page, "{}", setting_line(setting))?;
        }
        writeln!(page)?;
    }
    alone(page, figures)?;
    loaded(page, figures)?;
    let Some(paper) = figures.paper else {
        return Ok(());
    };
    writeln!(
        page,
        "\nThe paper measured {}.\n\nHere, {}.",
        paper.measured, paper.differs
    )
}

/// The delays of a decision.
fn alone(page: &mut String, figures: &Figures) -> std::fmt::Result {
    writeln!(
        page,
        "## When all replicas propose the same\n\n\
         {} requests, each long after the one before is answered; every message takes {} us and nothing \
         else takes time. *Delays*: from the proposals to the values that decide. *Answered after*: \
         from a request's arrival at its replica, which has to offer it to the others first.\n\n\
         | setting | n | delays, paper | delays, here | answered after | slots | fast | NULL |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|",
        figures
            .alone
            .first()
            .map_or(0, |point| point.measured.latencies_ns.len()),
        UNIT_NS / MICROS,
    )?;
    for point in &figures.alone {
        let measured = &point.measured;
        let said = match point.setting.delays {
            0 => String::new(),
            delays => delays.to_string(),
        };
        writeln!(
            page,
            "| {} | {} | {said} | {} | {:.2} | {} | {:.2} % | {:.2} % |",
            point.setting.name,
            point.replicas,
            delays(point),
            point.latency_ns(0.5) as f64 / UNIT_NS as f64,
            measured.slots,
            point.percent(measured.fast),
            point.noop_percent(),
        )?;
    }
    writeln!(page)
}

/// How many decisions took how many delays; one number if all took the same.
fn delays(point: &Point) -> String {
    let delays = &point.measured.delays;
    if let (1, Some((only, _))) = (delays.len(), delays.first_key_value()) {
        return only.to_string();
    }
    let part = |(delays, count): (&u32, &u64)| format!("{delays}: {:.2} %", point.percent(*count));
    delays.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// The shares of slots under load.
fn loaded(page: &mut String, figures: &Figures) -> std::fmt::Result {
    let options = &figures.options;
    writeln!(
        page,
        "## Under load\n\n\
         Requests come at random, each to a random replica, whether those before are answered or not. A \
         message takes {} us and a random part of {} us in the mean, one in {LATE_ONE_IN} up to {} ms more; a \
         replica's turn begins within {} us; clocks are off by up to {} us. The \
         cluster is saturated where slots/s no longer grows: more requests then make larger batches.\n",
        options.delay_us,
        options.jitter_us,
        SPIKE_NS_MAX / MILLIS,
        TURN_NS / MICROS,
        CLOCK_NS / MICROS,
    )?;
    if let Some(picture) = &options.plot {
        let name = picture.file_name().map(Path::new).unwrap_or(picture);
        writeln!(
            page,
            "![Slots off the fast path, and NULL slots, by load]({})\n",
            name.display()
        )?;
    }
    writeln!(
        page,
        "| setting | n | requests/s | slots/s | requests/slot | fast | NULL | delays | p50 | p99 |\n\
         |---|--:|--:|--:|--:|--:|--:|---|--:|--:|"
    )?;
    for shares in figures.paper.iter().flat_map(|paper| paper.shares) {
        writeln!(
            page,
            "| **paper, {}** | | | | | {:.2} % | {:.2} % | | | |",
            shares.load, shares.fast_percent, shares.noop_percent
        )?;
    }
    for point in &figures.loaded {
        let measured = &point.measured;
        let answered = measured.latencies_ns.len() as u64;
        writeln!(
            page,
            "| {} | {} | {} | {:.0} | {:.1} | {:.2} % | {:.2} % | {} | {} us | {} us |",
            point.setting.name,
            point.replicas,
            point.rate,
            point.per_second(measured.slots),
            answered as f64 / measured.slots.max(1) as f64,
            point.percent(measured.fast),
            point.noop_percent(),
            delays(point),
            point.latency_ns(0.5) / MICROS,
            point.latency_ns(0.99) / MICROS,
        )?;
    }
    Ok(())
}
