//! How far places are from each other: a file of round trips.

use quorate_core::MILLIS;
use serde::Deserialize;
use std::path::Path;

/// Round trips between places.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// Where these come from, in words.
    pub from: String,
    /// A round trip between replicas and clients of one place.
    within_ms: f64,
    distance: Vec<Distance>,
}

#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Distance {
    between: [String; 2],
    round_trip_ms: f64,
}

impl Map {
    /// Reads the file, or says what is wrong with it.
    pub fn read(path: &Path) -> Result<Map, String> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| format!("--map {name}: {e}"))?;
        let map: Map = toml::from_str(&text).map_err(|e| format!("--map {name}: {e}"))?;
        let times = map.distance.iter().map(|distance| distance.round_trip_ms);
        for ms in times.chain([map.within_ms]) {
            if !(0.0..=10_000.0).contains(&ms) {
                return Err(format!("--map {name}: {ms} ms is no round trip up to 10 s"));
            }
        }
        Ok(map)
    }

    /// A round trip between two places, ns.
    pub fn round_trip_ns(&self, a: &str, b: &str) -> Result<u64, String> {
        let is_meant = |distance: &&Distance| {
            let [one, other] = &distance.between;
            (one == a && other == b) || (one == b && other == a)
        };
        let ms = match (self.distance.iter().find(is_meant), a == b) {
            (Some(distance), _) => distance.round_trip_ms,
            (None, true) => self.within_ms,
            (None, false) => return Err(format!("the map has no round trip between {a} and {b}")),
        };
        Ok((ms * MILLIS as f64) as u64)
    }
}
