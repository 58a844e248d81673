//! The figures for people: a page of tables, as `quorate-lab figures --protocol nezha` prints it.

use super::messages::{Costs, ROWS};
use super::{DRIFT_LONGER, Deadlines, Multicast, RATE};
use crate::figures::points::{LATE_ONE_IN, Point, TURN_NS, UNIT_NS};
use crate::figures::setting_line;
use crate::steady::SPIKE_NS_MAX;
use quorate_core::{MICROS, MILLIS};
use std::fmt::Write;
use std::path::Path;

/// The whole page.
pub(super) fn text(figures: &Deadlines) -> String {
    let mut page = String::new();
    write(&mut page, figures).expect("a String takes all that is written to it");
    page
}

fn write(page: &mut String, figures: &Deadlines) -> std::fmt::Result {
    let options = &figures.options;
    let protocol = &options.protocol;
    writeln!(
        page,
        "# Figures of `{protocol}`\n\n\
         From the simulator, without faults and with every check on: `{}` prints this page, the same for the same \
         seed. Replicas: {}.\n\nSettings:\n",
        options.command_line(),
        options.durability.name(),
    )?;
    for setting in figures.paper.settings {
        writeln!(page, "{}", setting_line(setting))?;
    }
    writeln!(
        page,
        "\nThe paper measured {}.\n\nHere, {}.\n",
        figures.paper.measured, figures.paper.differs
    )?;
    delays(page, figures)?;
    messages(page, figures)?;
    network(page, figures)?;
    loaded(page, figures)?;
    percentiles(page, figures)?;
    multicast(page, figures)?;
    clocks(page, figures)?;
    page.push_str(ABSENT);
    Ok(())
}

fn delays(page: &mut String, figures: &Deadlines) -> std::fmt::Result {
    writeln!(
        page,
        "## Message delays\n\n\
         {} requests, each long after the one before is answered; every message takes {} us and nothing else takes \
         time. *Answered after*: message delays from a request's arrival at its gateway to the answer, in the median. \
         The paper's proxy is a machine of its own; here a gateway is a part of a replica, which is the leader or a \
         follower.\n\n\
         | setting | n | paper | at a follower | at the leader | fast path, at a follower | at the leader |\n\
         |---|--:|--:|--:|--:|--:|--:|",
        figures
            .alone
            .first()
            .map_or(0, |point| point.measured.latencies_ns.len()),
        UNIT_NS / MICROS,
    )?;
    for pair in figures.alone.chunks(2) {
        let [follower, leader] = pair else {
            continue;
        };
        writeln!(
            page,
            "| {} | {} | {} | {:.2} | {:.2} | {:.1} % | {:.1} % |",
            follower.setting.name,
            follower.replicas,
            follower.setting.delays,
            follower.delays(),
            leader.delays(),
            follower.fast_percent(),
            leader.fast_percent(),
        )?;
    }
    writeln!(
        page,
        "\nA gateway inside the leader or a follower is nearer to the slow path's quorum than one outside: the log of its \
         own replica is told to it without a message. So three replicas take two delays on either path.\n"
    )
}

fn messages(page: &mut String, figures: &Deadlines) -> std::fmt::Result {
    let alone = figures.alone.iter();
    let points: Vec<&Point> = alone
        .filter(|point| point.setting.name == "paper")
        .filter(|point| point.steady.gateways.is_some_and(|(first, _)| first > 0))
        .collect();
    let sizes: Vec<String> = points
        .iter()
        .map(|point| format!("n = {}", point.replicas))
        .collect();
    writeln!(
        page,
        "## Messages of a write\n\n\
         Of the same runs, with the setting `paper` and the gateway in a follower: messages on the network for each write, \
         and what a gateway says to its own replica counted as one. *In theory*: what the paper counts; `b`, the entries in a log \
         modification, is 1, for there is one at a time.\n\n\
         | role | | in theory | {} |\n|---|---|---|{}",
        sizes.join(" | "),
        "--:|".repeat(sizes.len()),
    )?;
    for row in &ROWS {
        let counts = points
            .iter()
            .map(|point| format!("{:.2}", (row.count)(&Costs(point))));
        let counts = counts.collect::<Vec<_>>().join(" | ");
        writeln!(
            page,
            "| {} | {} | {} | {counts} |",
            row.role, row.what, row.said
        )?;
    }
    writeln!(
        page,
        "\nWhere a write is alone, followers are told of the commit-point in a log modification of its own, which in theory \
         rides on the next one: there is none. The table after the next shows what is left of that under load.\n"
    )
}

fn network(page: &mut String, figures: &Deadlines) -> std::fmt::Result {
    let options = &figures.options;
    writeln!(
        page,
        "## The network of what follows\n\n\
         Requests come at random, each to a random replica, whether those before are answered or not. A message \
         takes {} us and a random part of {} us in the mean, one in {LATE_ONE_IN} up to {} ms more; a replica's turn begins \
         within {} us. Clocks are right where nothing else is said. *Fast path*: the part of entries whose fast quorum was \
         complete before the slow one (FCR). *Held*: how long a replica held a request for its deadline, in the mean.\n",
        options.delay_us,
        options.jitter_us,
        SPIKE_NS_MAX / MILLIS,
        TURN_NS / MICROS,
    )
}

fn loaded(page: &mut String, figures: &Deadlines) -> std::fmt::Result {
    writeln!(
        page,
        "## By load\n\n\
         | n | setting | requests/s | requests/entry | fast path | held | p50 | p99 | messages/request | log-mods/request |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )?;
    for point in &figures.loaded {
        let costs = Costs(point);
        let answered = point.measured.latencies_ns.len() as f64;
        writeln!(
            page,
            "| {} | {} | {} | {:.2} | {:.1} % | {:.0} us | {} us | {} us | {:.2} | {:.2} |",
            point.replicas,
            point.setting.name,
            point.rate,
            answered / point.entries().max(1) as f64,
            point.fast_percent(),
            point.held_us(),
            point.latency_ns(0.5) / MICROS,
            point.latency_ns(0.99) / MICROS,
            costs.total(),
            costs.all("log-mod"),
        )?;
    }
    writeln!(page)
}

fn percentiles(page: &mut String, figures: &Deadlines) -> std::fmt::Result {
    writeln!(
        page,
        "## By percentile\n\n\
         Figure 8 of the paper: {RATE} requests a second; deadlines allow for that percentile of delays (`hold=100`).\n\n\
         | n | percentile | fast path | held | p50 | p99 |\n|--:|--:|--:|--:|--:|--:|"
    )?;
    for replicas in super::sizes(&figures.options) {
        let of_size = |point: &&Point| point.replicas == *replicas;
        for point in figures.percentiles.iter().filter(of_size) {
            let percentile = point.setting.name;
            writeln!(page, "| {replicas} | {percentile} | {}", outcome(point))?;
        }
        let default = figures.loaded.iter().filter(of_size);
        let default = default.filter(|point| point.setting.name == "default");
        if let Some(point) = default.min_by_key(|point| point.rate.abs_diff(RATE)) {
            let rate = point.rate;
            let cells = outcome(point);
            writeln!(
                page,
                "| {replicas} | found out (`default`, {rate}/s) | {cells}"
            )?;
        }
    }
    writeln!(page)
}

/// The cells of what came of a run.
fn outcome(point: &Point) -> String {
    format!(
        "{:.1} % | {:.0} us | {} us | {} us |",
        point.fast_percent(),
        point.held_us(),
        point.latency_ns(0.5) / MICROS,
        point.latency_ns(0.99) / MICROS,
    )
}

fn multicast(page: &mut String, figures: &Deadlines) -> std::fmt::Result {
    writeln!(
        page,
        "## Reordering, with and without deadlines\n\n\
         Figures 1 to 3: senders multicast to two receivers, each at random times; the estimates and deadlines are those that \
         replicas use, the protocol takes no part. The score is the part of the second receiver's sequence that is not in \
         its longest subsequence in the order of the first. With deadlines, what comes too late is taken as it comes.\n\n\
         | figure | senders | messages/s each | percentile | score without | score with deadlines | late | held |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|"
    )?;
    let all = &figures.multicasts;
    let mut rows = |figure: u32, experiments: &[Multicast]| {
        experiments.iter().try_for_each(|one| {
            writeln!(
                page,
                "| {figure} | {} | {} | {} | {:.1} % | {:.1} % | {:.1} % | {:.0} us |",
                one.senders,
                one.rate,
                one.percentile,
                one.plain_percent,
                one.ordered_percent,
                one.late_percent,
                one.held_us,
            )
        })
    };
    rows(1, &all.rates)?;
    rows(2, &all.senders)?;
    rows(3, &all.percentiles)?;
    writeln!(page)
}

fn clocks(page: &mut String, figures: &Deadlines) -> std::fmt::Result {
    let options = &figures.options;
    let replicas = super::sizes(options).last().copied().unwrap_or(0);
    writeln!(
        page,
        "## Clocks that are wrong\n\n\
         {RATE} requests a second at {} replicas, at random; all clocks are right but one, which is ahead by so much all the \
         time, or is right at first and runs too fast, for {DRIFT_LONGER} times as long. It is a gateway's clock as well, of \
         one request in {}.\n",
        replicas, replicas,
    )?;
    if let Some(picture) = &options.plot {
        let name = picture.file_name().map(Path::new).unwrap_or(picture);
        writeln!(
            page,
            "![What wrong clocks and percentiles cost, and what deadlines do against reordering]({})\n",
            name.display()
        )?;
    }
    writeln!(
        page,
        "| setting | whose clock | off by | fast path | held | p50 | p99 |\n|---|---|--:|--:|--:|--:|--:|"
    )?;
    for point in &figures.clocks {
        let Some(wrong) = point.steady.wrong else {
            continue;
        };
        let whose = match wrong.replica {
            0 => "the leader's",
            _ => "a follower's",
        };
        let offset_us = wrong.offset_ns / MICROS as i64;
        let off = match wrong.drift_ppm {
            0 => format!("{offset_us} us"),
            ppm => format!("{ppm} ppm"),
        };
        writeln!(
            page,
            "| {} | {whose} | {off} | {}",
            point.setting.name,
            outcome(point)
        )?;
    }
    writeln!(page)
}

const ABSENT: &str = "\
## What is not here

- *Commutativity* (figure 8b, and a part of figure 7): writes of the store take numbers from one revision, so that all conflict. `quorate
  sim commute` shows it with the plain store, whose commands say what they touch.
- *Throughput and CPU, and what deadlines and commutativity do for them* (figures 6, 7 and 9): `quorate-lab sim load`, where cores take time. *Wide areas*
  (10): `quorate-lab sim wan`. [nezha.md](nezha.md) has both, and [busy/nezha.md](busy/nezha.md) what was measured with processes and disks (11).
- *A leader that counts quorums for its gateways* (figure 7): there is none.
- *Proxies on machines of their own*: there are none, so two delays are those from a gateway, and clients have theirs beside.
- *Flushes*: with `--durability disk` the same page has them in its times; in theory one is waited for on the fast path.
";
