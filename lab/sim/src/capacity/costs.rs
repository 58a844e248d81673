//! What things cost on a machine: a file of numbers that says where each comes from.

use super::CapacityOptions;
use super::rig::Hardware;
use super::wires::LinkSpeed;
use crate::core_costs::CoreCosts;
use quorate_core::{MICROS, SECONDS};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The numbers of a calibration file.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Costs {
    pub(super) link: Link,
    pub(super) disk: Disk,
    pub(super) step: PerMessage,
    pub(super) socket: PerMessage,
}

/// A replica's link.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// In either direction.
    pub(super) gbit_per_second: f64,
    pub(super) round_trip_us: f64,
    /// Where these come from, in words.
    pub(super) from: String,
}

/// A replica's disk.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Disk {
    pub(super) mb_per_second: f64,
    /// What a flush takes beyond its bytes.
    pub(super) flush_us: f64,
    pub(super) from: String,
}

/// Time of a core.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct PerMessage {
    pub(crate) message_ns: f64,
    pub(crate) byte_ns: f64,
    pub(crate) from: String,
}

impl PerMessage {
    fn free() -> PerMessage {
        PerMessage {
            message_ns: 0.0,
            byte_ns: 0.0,
            from: "not charged".into(),
        }
    }
}

impl Link {
    /// What the paper says of its network.
    pub(super) fn of_the_paper() -> Link {
        Link {
            gbit_per_second: 9.41,
            round_trip_us: 125.0,
            from: "the paper's network".into(),
        }
    }
}

impl Costs {
    /// The paper's network, a disk such as it may have had, and cores that cost nothing.
    pub(super) fn assumed() -> Costs {
        Costs {
            link: Link::of_the_paper(),
            disk: Disk {
                mb_per_second: 500.0,
                flush_us: 100.0,
                from: "assumed: a SATA SSD".into(),
            },
            step: PerMessage::free(),
            socket: PerMessage::free(),
        }
    }

    /// Those of a file, if one is named, and what options say instead.
    ///
    /// # Errors
    /// If there is no such file, or it holds something else.
    pub(super) fn of(options: &CapacityOptions) -> Result<Costs, String> {
        let mut costs = match &options.costs {
            Some(path) => Costs::read(path)?,
            None => Costs::assumed(),
        };
        let link = [
            (options.link_gbit, &mut costs.link.gbit_per_second),
            (options.rtt_us, &mut costs.link.round_trip_us),
        ];
        instead(link, &mut costs.link.from);
        let disk = [
            (options.disk_mb, &mut costs.disk.mb_per_second),
            (options.flush_us, &mut costs.disk.flush_us),
        ];
        instead(disk, &mut costs.disk.from);
        if options.free_cores {
            (costs.step, costs.socket) = (PerMessage::free(), PerMessage::free());
        }
        Ok(costs)
    }

    fn read(path: &Path) -> Result<Costs, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// As the model takes them.
    pub(super) fn hardware(&self, is_shared: bool) -> Hardware {
        let (step, socket) = (&self.step, &self.socket);
        Hardware {
            link: LinkSpeed {
                bytes_per_second: (self.link.gbit_per_second * 1e9 / 8.0) as u64,
                is_shared,
                delay_ns: (self.link.round_trip_us / 2.0 * MICROS as f64) as u64,
            },
            disk_bytes_per_second: (self.disk.mb_per_second * 1e6) as u64,
            flush_ns: (self.disk.flush_us * MICROS as f64) as u64,
            core: CoreCosts {
                step_message_ns: step.message_ns,
                step_byte_ns: step.byte_ns,
                socket_message_ns: socket.message_ns,
                socket_byte_ns: socket.byte_ns,
            },
        }
    }
}

/// What options say counts, and the words say so.
fn instead(numbers: [(Option<f64>, &mut f64); 2], from: &mut String) {
    let count = numbers.iter().filter(|(said, _)| said.is_some()).count();
    for (said, number) in numbers {
        *number = said.unwrap_or(*number);
    }
    match count {
        0 => {}
        1 => from.push_str("; one of the two by an option"),
        _ => *from = "options".into(),
    }
}

/// So many bytes in so long, in MB/s.
pub(super) fn mb_per_second(bytes: u64, ns: u64) -> f64 {
    bytes as f64 / 1e6 * SECONDS as f64 / ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_what_was_written_and_options_go_before_it() {
        let costs = Costs::assumed();
        let text = toml::to_string(&costs).unwrap();
        assert_eq!(toml::from_str::<Costs>(&text).unwrap(), costs);
        let options = crate::parse("--disk-mb 38.2 --link-gbit 1 --rtt-us 50").unwrap();
        let costs = Costs::of(&options).unwrap();
        let hardware = costs.hardware(false);
        assert_eq!(hardware.disk_bytes_per_second, 38_200_000);
        assert_eq!(hardware.link.bytes_per_second, 125_000_000);
        assert_eq!(hardware.link.delay_ns, 25_000);
        assert_eq!(hardware.flush_ns, 100_000);
        assert_eq!(costs.link.from, "options");
        assert!(costs.disk.from.contains("assumed") && costs.disk.from.contains("option"));
        assert!(toml::from_str::<Costs>(&format!("{text}\nmore = 1")).is_err());
    }
}
