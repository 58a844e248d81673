//! The tables, as Markdown, and the picture.

use std::fmt::Write;

use super::{ProtocolsArgs, Row};
use quorate_plot::{Chart, Group, Panel, Series};
use quorate_sim::per_write::Crowd;
use quorate_tooling::tables::wrapped;
use quorate_tooling::units::{show_count, show_ns};

/// Both tables with what is said of them.
pub(super) fn text(args: &ProtocolsArgs, rows: &[Row]) -> String {
    format!("{}\n{}", lone(args, rows), crowds(args, rows))
}

/// What a lone write takes.
fn lone(args: &ProtocolsArgs, rows: &[Row]) -> String {
    let mut text = wrapped(&format!(
        "A lone write, by a client beside a replica, {} replicas with disks, no batches; time in message delays where \
         nothing else takes time, beside the replica where it is least and where it is most; flushes one after the \
         other and of all replicas; messages of all replicas, and those that the busiest sends and receives; \
         instructions of all hosts, without sockets and files, under full load; and what a host takes of a core for \
         a message:",
        args.replicas
    ));
    text.push_str(
        "\n\n| | delays | flushes in sequence | flushes | messages | at the busiest | instructions | ns/message |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let lone = &row.lone;
        let instructions = match row.instructions {
            Some(count) => grouped(count),
            None => "-".to_owned(),
        };
        let _ = writeln!(
            text,
            "| {} | {} to {} | {} | {:.1} | {:.1} | {:.1} | {instructions} | {:.0} |",
            row.name,
            short(lone.delays_least),
            short(lone.delays_most),
            short(lone.flushes_in_sequence),
            lone.flushes,
            lone.messages,
            lone.messages_busiest,
            row.host_ns_per_message,
        );
    }
    text
}

/// What many clients see, in virtual time and on this machine.
fn crowds(args: &ProtocolsArgs, rows: &[Row]) -> String {
    let mut text = "Writes of 256 bytes a second and half of them at most so late, by clients with one write under way \
                    each. In virtual time every replica has a core, messages take 50 to 100 us, a flush 100 us, and \
                    steps and sockets what they take here; clients stand at all replicas."
        .to_owned();
    if !args.no_processes {
        let _ = write!(
            text,
            " On this machine all replicas and clients share its cores: {}, medians of {} turns.",
            args.generator.client.title(),
            args.turns
        );
    }
    text = wrapped(&text);
    let places = match args.no_processes {
        true => &["in virtual time"][..],
        false => &["in virtual time", "here"][..],
    };
    let mut head = vec![String::new()];
    for place in places {
        let clients = args.clients.iter();
        head.extend(clients.map(|clients| format!("{clients}, {place}")));
    }
    if let (Some(most), false) = (args.clients.last(), args.no_processes) {
        head.push(format!("CPU us, {most}"));
    }
    let _ = write!(
        text,
        "\n\n| {} |\n|---|{}\n",
        head.join(" | "),
        "--:|".repeat(head.len() - 1)
    );
    for row in rows {
        let mut cells = vec![row.name.to_owned()];
        let crowds = virtually(row).into_iter().chain(really(row));
        cells.extend(crowds.map(|crowd| cell(&crowd)));
        let last = row.on_this_machine.last();
        cells.extend(last.map(|crowd| format!("{:.0}", crowd.cpu_us)));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

fn cell(crowd: &Crowd) -> String {
    format!(
        "{}/s, {}",
        show_count(crowd.writes_per_second),
        show_ns((crowd.p50_us * 1e3) as u64)
    )
}

/// The figures of a row in virtual time, by number of clients.
fn virtually(row: &Row) -> Vec<Crowd> {
    row.in_virtual_time.clone()
}

/// The figures of a row on this machine, by number of clients; none if there were no processes.
fn really(row: &Row) -> Vec<Crowd> {
    let runs = row.on_this_machine.iter();
    runs.map(|run| run.crowd).collect()
}

/// With one digit, if it needs one.
fn short(number: f64) -> String {
    let rounded = (number * 10.0).round() / 10.0;
    format!("{rounded}")
}

/// A whole number in groups of three digits.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The figures of a row in one place.
type Place = fn(&Row) -> Vec<Crowd>;

/// Throughput and latency by clients, in virtual time and on this machine.
pub(super) fn picture(args: &ProtocolsArgs, rows: &[Row]) -> String {
    let mut places: Vec<(&str, Place)> = vec![("in virtual time", virtually)];
    if !args.no_processes {
        places.push(("on this machine", really));
    }
    let mut panels = Vec::new();
    for (name, of) in places {
        panels.push(Panel {
            title: format!("writes a second, {name} (more is better)"),
            groups: groups(args, rows, of, |crowd| crowd.writes_per_second),
            show: show_count,
        });
        panels.push(Panel {
            title: format!("p50, {name} (less is better)"),
            groups: groups(args, rows, of, |crowd| crowd.p50_us),
            show: |us| show_ns((us * 1e3) as u64),
        });
    }
    let series = rows.iter().zip(COLORS.iter().cycle());
    let chart = Chart {
        head: format!("Protocols beside each other, {} replicas", args.replicas),
        series: series
            .map(|(row, color)| Series {
                name: row.name.to_owned(),
                color,
            })
            .collect(),
        panels,
        foot: vec!["quorate-lab bench protocols".to_owned()],
    };
    chart.render()
}

fn groups(args: &ProtocolsArgs, rows: &[Row], of: Place, figure: fn(&Crowd) -> f64) -> Vec<Group> {
    let bars = |clients: u32| {
        let rows = rows.iter().enumerate();
        let crowds = rows.flat_map(|(at, row)| of(row).into_iter().map(move |crowd| (at, crowd)));
        let own = crowds.filter(|(_, crowd)| crowd.clients == clients);
        own.map(|(at, crowd)| (at, figure(&crowd))).collect()
    };
    let group = |clients: &u32| Group {
        name: match clients {
            1 => "1 client".to_owned(),
            _ => format!("{clients} clients"),
        },
        bars: bars(*clients),
    };
    args.clients.iter().map(group).collect()
}

const COLORS: [&str; 15] = [
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5",
    "#9c6b4e", "#9498a0", "#1b6ca8", "#b5651d", "#7a9e1f", "#c23b8e", "#555555",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(short(2.0), "2");
        assert_eq!(short(3.24), "3.2");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(grouped(12.0), "12");
    }
}
