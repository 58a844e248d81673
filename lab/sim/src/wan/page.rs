//! What was measured, for people.

use super::map::Map;
use super::{Entrance, System, WanOptions, Way};
use quorate_core::MILLIS;
use std::fmt::Write;
use std::path::Path;

/// The whole page.
pub(super) fn text(options: &WanOptions, map: &Map, ways: &[Way]) -> String {
    let mut page = String::new();
    write(&mut page, options, map, ways).expect("a String takes all that is written to it");
    page
}

fn write(page: &mut String, options: &WanOptions, map: &Map, ways: &[Way]) -> std::fmt::Result {
    let name = options.map.file_name().map(Path::new);
    writeln!(
        page,
        "Replicas in {}; {} writes a second; round trips of `{}` ({}).\n\n\
         | clients in | system | way in | round trip to there, ms | write there, p50 | p90 | \
         together, p50 | fast path |\n\
         |---|---|---|--:|--:|--:|--:|--:|",
        options.replicas.join(", "),
        options.rate,
        name.unwrap_or(&options.map).display(),
        map.from,
    )?;
    let mut systems: Vec<&System> = ways.iter().map(|way| &way.system).collect();
    systems.dedup();
    for (at, clients) in options.clients.iter().enumerate() {
        for system in &systems {
            if let Some(best) = best(options, map, ways, (at, system)) {
                writeln!(page, "{}", row(options, map, clients, best))?;
            }
        }
    }
    Ok(())
}

/// The fastest way in for clients of a place.
fn best<'a>(
    options: &WanOptions,
    map: &Map,
    ways: &'a [Way],
    (at, system): (usize, &System),
) -> Option<&'a Way> {
    let usable = ways.iter().filter(|way| {
        let is_elsewhere = matches!(way.entrance, Entrance::Gateway(other) if other != at);
        way.system == *system && !is_elsewhere
    });
    usable.min_by_key(|way| together_ns(options, map, &options.clients[at], way))
}

fn way_ns(options: &WanOptions, map: &Map, clients: &str, way: &Way) -> u64 {
    let to = match way.entrance {
        Entrance::Replica(replica) => &options.replicas[replica],
        Entrance::Gateway(at) => &options.clients[at],
    };
    map.round_trip_ns(clients, to).unwrap_or(0)
}

fn together_ns(options: &WanOptions, map: &Map, clients: &str, way: &Way) -> u64 {
    way_ns(options, map, clients, way) + way.latency_ns(0.5)
}

fn row(options: &WanOptions, map: &Map, clients: &str, way: &Way) -> String {
    let ms = |ns: u64| format!("{:.1}", ns as f64 / MILLIS as f64);
    let system = match (way.system.protocol.as_str(), way.system.wan) {
        ("nezha", true) => "nezha, wan",
        ("nezha", false) => "nezha, deadlines for all",
        (protocol, _) => protocol,
    };
    let through = match way.entrance {
        Entrance::Replica(replica) => format!("replica in {}", options.replicas[replica]),
        Entrance::Gateway(_) => "gateway there".to_owned(),
    };
    let fast = way.fast_percent.map(|percent| format!("{percent:.0} %"));
    format!(
        "| {clients} | {system} | {through} | {} | {} | {} | {} | {} |",
        ms(way_ns(options, map, clients, way)),
        ms(way.latency_ns(0.5)),
        ms(way.latency_ns(0.9)),
        ms(together_ns(options, map, clients, way)),
        fast.unwrap_or_default(),
    )
}
