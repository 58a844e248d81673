//! What was measured, for people.

use super::points::{Point, Points};
use super::{CapacityOptions, LeaderWrites, size};
use quorate_core::{MICROS, MILLIS};
use std::fmt::Write;
use std::path::Path;

/// The whole page.
pub(super) fn text(points: &Points) -> String {
    let mut page = String::new();
    write(&mut page, points).expect("a String takes all that is written to it");
    page
}

fn write(page: &mut String, points: &Points) -> std::fmt::Result {
    let options = &points.options;
    writeln!(page, "`{}`\n", command(options))?;
    machines(page, points)?;
    writeln!(
        page,
        "{} clients, each with one put under way: at the leader, or at all replicas alike where nobody \
         leads. A leader's disk {}{}.\n",
        options.clients,
        match options.leader_writes {
            LeaderWrites::Fragment => "gets its fragment of a value, as it is written",
            LeaderWrites::Whole =>
                "is charged with the whole value, as the paper's leaders write it",
        },
        match options.leader_waits {
            true => ", and it does nothing else meanwhile",
            false => "",
        },
    )?;
    if let Some(picture) = &options.plot {
        let name = picture.file_name().map(Path::new).unwrap_or(picture);
        writeln!(page, "![Throughput by size]({})\n", name.display())?;
    }
    table(page, points)?;
    for point in &points.all {
        let unwritten = point.reading.unwritten;
        if unwritten > point.committed() / 50 {
            writeln!(
                page,
                "\n{} with {}: in the end a replica had {:.0} MB more to write, and could not have gone on so.",
                point.system.name(),
                size(point.value_bytes),
                unwritten as f64 / 1e6,
            )?;
        }
    }
    let (dropped, failed) = points.all.iter().fold((0, 0), |(dropped, failed), point| {
        let reading = &point.reading;
        (dropped + reading.dropped, failed + reading.failed)
    });
    if dropped + failed > 0 {
        writeln!(
            page,
            "\n{dropped} frames found a full queue, and {failed} puts came to nothing."
        )?;
    }
    Ok(())
}

/// Where each number comes from.
fn machines(page: &mut String, points: &Points) -> std::fmt::Result {
    let costs = &points.costs;
    let file = points.options.costs.as_ref().map_or_else(
        || "no file of costs".to_owned(),
        |path| {
            let name = path.file_name().map(Path::new).unwrap_or(path);
            format!("costs: `{}`", name.display())
        },
    );
    writeln!(
        page,
        "Each replica's machine ({file}):\n\n\
         | what | does | from |\n\
         |---|---|---|\n\
         | link | {} Gbit/s {}, round trip {} us | {} |\n\
         | disk | {} MB/s, {} us a flush, one at a time | {} |\n\
         | core, a step of the host | {} ns a message, {} ns a byte that comes | {} |\n\
         | core or bulk thread, a socket | {} ns a message, {} ns a byte, at either end | {} |\n",
        costs.link.gbit_per_second,
        match points.options.shared_link {
            true => "in both directions together",
            false => "in either direction",
        },
        costs.link.round_trip_us,
        costs.link.from,
        costs.disk.mb_per_second,
        costs.disk.flush_us,
        costs.disk.from,
        costs.step.message_ns,
        costs.step.byte_ns,
        costs.step.from,
        costs.socket.message_ns,
        costs.socket.byte_ns,
        costs.socket.from,
    )
}

fn table(page: &mut String, points: &Points) -> std::fmt::Result {
    writeln!(
        page,
        "| value | system | MB/s | x RS-Paxos | bytes allow, MB/s | binds | p50 | p95 | p99 | sent by all | \
         written by all |\n\
         |---|---|--:|--:|--:|---|--:|--:|--:|--:|--:|"
    )?;
    let mut last = 0;
    for point in &points.all {
        let value = match point.value_bytes == last {
            true => String::new(),
            false => size(point.value_bytes),
        };
        last = point.value_bytes;
        writeln!(page, "| {value} | {}", row(points, point))?;
    }
    Ok(())
}

fn row(points: &Points, point: &Point) -> String {
    let (what, percent) = point.binds();
    let ratio = points.ratio(point);
    let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
    let allowed = match point.allowed.is_finite() {
        true => format!("{:.1}", point.allowed / 1e6),
        false => "any".to_owned(),
    };
    format!(
        "{} | {:.1} | {ratio} | {allowed} | {what}, {percent:.0} % | {} | {} | {} | {:.2} | {:.2} |",
        point.system.name(),
        point.mb_per_second(),
        time(point.latency_ns(0.5)),
        time(point.latency_ns(0.95)),
        time(point.latency_ns(0.99)),
        point.each(point.reading.sent),
        point.each(point.reading.written),
    )
}

fn time(ns: u64) -> String {
    match ns / MILLIS {
        0..10 => format!("{} us", ns / MICROS),
        ms => format!("{ms} ms"),
    }
}

/// The command that prints the page: what is not said is as it is by default.
fn command(options: &CapacityOptions) -> String {
    let mut words = vec!["quorate-lab sim capacity".to_owned()];
    let mut say = |name: &str, value: String| words.push(format!("--{name} {value}"));
    say("systems", options.systems.join(","));
    say("code", options.code.to_string());
    say("whole-replicas", options.whole_replicas.to_string());
    let sizes = options
        .sizes
        .iter()
        .map(|bytes| size(*bytes).replace(' ', ""));
    say("sizes", sizes.collect::<Vec<_>>().join(","));
    say("clients", options.clients.to_string());
    say("rounds", options.rounds.to_string());
    say("volume", options.volume.to_string());
    if let Some(path) = &options.costs {
        say("costs", path.display().to_string());
    }
    let numbers = [
        ("link-gbit", options.link_gbit),
        ("rtt-us", options.rtt_us),
        ("disk-mb", options.disk_mb),
        ("flush-us", options.flush_us),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            say(name, number.to_string());
        }
    }
    if options.leader_writes == LeaderWrites::Whole {
        say("leader-writes", "whole".into());
    }
    if options.seed != 0 {
        say("seed", options.seed.to_string());
    }
    if options.shared_link {
        words.push("--shared-link".into());
    }
    if options.leader_waits {
        words.push("--leader-waits".into());
    }
    if options.free_cores {
        words.push("--free-cores".into());
    }
    words.join(" ")
}
