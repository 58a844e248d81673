//! What messages cost on this machine: a file of numbers that says where each comes from.

use crate::capacity::{Hosts, PerMessage, calibrate_sockets, calibrate_steps};
use crate::core_costs::CoreCosts;
use quorate_core::Durability;
use std::collections::BTreeMap;
use std::path::Path;

/// Where the cost of sockets is; all other numbers are of protocols.
const SOCKET: &str = "socket";

const HOSTS: [Hosts; 4] = [
    Hosts {
        protocol: "nezha",
        replicas: 3,
        params: &[],
        durability: Durability::Memory,
    },
    Hosts {
        protocol: "multi-paxos",
        replicas: 3,
        params: &[],
        durability: Durability::Disk,
    },
    Hosts {
        protocol: "raft",
        replicas: 3,
        params: &[],
        durability: Durability::Disk,
    },
    Hosts {
        protocol: "rabia",
        replicas: 3,
        params: &[],
        durability: Durability::Memory,
    },
];

/// By protocol, what its hosts take for a message; and sockets.
pub(super) struct Costs(BTreeMap<String, PerMessage>);

/// Measures, and writes what it found.
///
/// # Errors
/// Says what could not be done.
pub(super) fn calibrate(path: &Path) -> Result<(), String> {
    let mut costs = BTreeMap::from([(SOCKET.to_owned(), calibrate_sockets()?)]);
    for hosts in &HOSTS {
        costs.insert(hosts.protocol.to_owned(), calibrate_steps(hosts)?);
    }
    let text = toml::to_string(&costs).map_err(|error| error.to_string())?;
    std::fs::write(path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    print!("{text}");
    Ok(())
}

impl Costs {
    /// Reads the costs in a file.
    ///
    /// # Errors
    /// If there is no such file, or it holds something else.
    pub(super) fn read(path: &Path) -> Result<Costs, String> {
        let told = |why: String| format!("{}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
        let costs = toml::from_str(&text).map_err(|error| told(error.to_string()))?;
        Ok(Costs(costs))
    }

    /// Costs that are the same for whatever happens to a message, ns.
    #[cfg(test)]
    pub(super) fn even(message_ns: f64) -> Costs {
        let names = HOSTS.map(|hosts| hosts.protocol).into_iter();
        let all = names.chain([SOCKET]).map(|name| {
            let costs = PerMessage {
                message_ns,
                byte_ns: 0.0,
                from: "a test".into(),
            };
            (name.to_owned(), costs)
        });
        Costs(all.collect())
    }

    /// The costs of a protocol.
    ///
    /// # Errors
    /// If the file does not say them.
    pub(super) fn of(&self, protocol: &str) -> Result<CoreCosts, String> {
        let named = |name: &str| {
            let costs = self.0.get(name);
            costs.ok_or_else(|| format!("the file of costs says nothing of {name}"))
        };
        let (step, socket) = (named(protocol)?, named(SOCKET)?);
        Ok(CoreCosts {
            step_message_ns: step.message_ns,
            step_byte_ns: step.byte_ns,
            socket_message_ns: socket.message_ns,
            socket_byte_ns: socket.byte_ns,
        })
    }

    /// A line for each number.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(name, costs)| {
            let PerMessage {
                message_ns,
                byte_ns,
                from,
            } = costs;
            format!("- {name}: {message_ns:.0} ns a message, {byte_ns:.3} ns a byte ({from})\n")
        })
    }
}
