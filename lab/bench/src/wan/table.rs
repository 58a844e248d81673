//! What was measured, for people.

use std::time::Duration;

use quorate_sim::Map;

use super::{Entrance, WanArgs, Way};
use quorate_tooling::tables::align;
use quorate_tooling::units::show_ns;

const HEADINGS: [&str; 9] = [
    "clients in",
    "system",
    "way in",
    "round trip to there",
    "write there, p50",
    "p90",
    "p99",
    "together, p50",
    "fast %",
];

/// One way in, as soon as it is measured.
pub(super) fn line(args: &WanArgs, way: &Way) -> String {
    format!(
        "{}, {}: {} writes, p50 {}, p90 {}, failed {}",
        way.system,
        through(args, way),
        way.report.operations,
        show_ns(way.report.latency.p50_ns),
        show_ns(way.report.latency.p90_ns),
        way.failed(),
    )
}

/// The best way in for the clients of each place, under each system.
pub(super) fn text(args: &WanArgs, map: &Map, ways: &[Way]) -> Result<String, String> {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for (at, clients) in args.clients.iter().enumerate() {
        for system in &args.systems {
            let mut best: Option<(Duration, &Way)> = None;
            let usable = |way: &&Way| {
                let is_elsewhere = matches!(way.entrance, Entrance::Gateway(other) if other != at);
                way.system == *system && !is_elsewhere
            };
            for way in ways.iter().filter(usable) {
                let together = round_trip(args, map, clients, way)?
                    + Duration::from_nanos(way.report.latency.p50_ns);
                if best.is_none_or(|(least, _)| together < least) {
                    best = Some((together, way));
                }
            }
            if let Some((together, way)) = best {
                let there = round_trip(args, map, clients, way)?;
                rows.push(row(args, clients, way, there, together));
            }
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(format!(
        "Replicas in {}; {} writes of {} B a second by one way in at a time; real processes on {cores} cores, what \
         they say held by a relay; round trips: {}.\n{}",
        args.replicas.join(", "),
        args.rate,
        args.val_size,
        map.from,
        align(&rows)
    ))
}

fn row(
    args: &WanArgs,
    clients: &str,
    way: &Way,
    there: Duration,
    together: Duration,
) -> Vec<String> {
    let latency = &way.report.latency;
    let fast = way.fast_share.map(|share| format!("{:.0}", 100.0 * share));
    let whole = |time: Duration| show_ns(time.as_nanos() as u64);
    vec![
        clients.to_owned(),
        way.system.clone(),
        through(args, way),
        whole(there),
        show_ns(latency.p50_ns),
        show_ns(latency.p90_ns),
        show_ns(latency.p99_ns),
        whole(together),
        fast.unwrap_or_else(|| "-".to_owned()),
    ]
}

fn through(args: &WanArgs, way: &Way) -> String {
    match way.entrance {
        Entrance::Replica(replica) => format!("replica in {}", args.replicas[replica]),
        Entrance::Gateway(at) => format!("gateway in {}", args.clients[at]),
    }
}

/// Between clients of a place and where they write.
fn round_trip(args: &WanArgs, map: &Map, clients: &str, way: &Way) -> Result<Duration, String> {
    let to = match way.entrance {
        Entrance::Replica(replica) => &args.replicas[replica],
        Entrance::Gateway(at) => &args.clients[at],
    };
    map.round_trip_ns(clients, to).map(Duration::from_nanos)
}
