//! Protocols, and ways to run one.

use crate::calm::Cluster;
use crate::core_costs::CorePlan;
use crate::plan::Spread;
use crate::steady::Offers;
use quorate_core::{Durability, MILLIS};
use std::collections::BTreeMap;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct System {
    pub(super) name: &'static str,
    pub(super) protocol: &'static str,
    params: &'static [(&'static str, &'static str)],
    /// How many remote gateways there are.
    pub(super) gateways: usize,
    /// A client is its gateway, so that nothing is between them.
    pub(super) is_linked: bool,
    /// Whether the leader takes all writes.
    pub(super) is_led: bool,
    pub(super) durability: Durability,
}

const NEZHA: System = System {
    name: "nezha-inside",
    protocol: "nezha",
    params: &[("commute", "true")],
    gateways: 0,
    is_linked: false,
    is_led: false,
    durability: Durability::Memory,
};

/// The paper's proxies, and its clients.
const PROXIES: usize = 5;
const CLIENTS: usize = 10;

const ALL: [System; 9] = [
    NEZHA,
    System {
        name: "nezha-apart",
        gateways: PROXIES,
        ..NEZHA
    },
    System {
        name: "nezha-linked",
        gateways: CLIENTS,
        is_linked: true,
        ..NEZHA
    },
    System {
        name: "nezha-ordered",
        gateways: PROXIES,
        params: &[("commute", "false")],
        ..NEZHA
    },
    System {
        name: "nezha-counted",
        gateways: PROXIES,
        params: &[("commute", "true"), ("count", "leader")],
        ..NEZHA
    },
    // Deadlines are further away than anything is held, so that the leader orders what comes as it comes.
    System {
        name: "nezha-undated",
        gateways: PROXIES,
        params: &[("commute", "true"), ("hold", "200"), ("far_us", "20")],
        ..NEZHA
    },
    System {
        name: "multi-paxos",
        protocol: "multi-paxos",
        params: &[],
        is_led: true,
        durability: Durability::Disk,
        ..NEZHA
    },
    System {
        name: "raft",
        protocol: "raft",
        params: &[],
        is_led: true,
        durability: Durability::Disk,
        ..NEZHA
    },
    System {
        name: "rabia",
        protocol: "rabia",
        params: &[],
        ..NEZHA
    },
];

impl System {
    /// The one of this name.
    ///
    /// # Errors
    /// If there is none, with those there are.
    pub(super) fn named(name: &str) -> Result<System, String> {
        let found = ALL.into_iter().find(|system| system.name == name);
        found.ok_or_else(|| format!("known are {}", ALL.map(|system| system.name).join(", ")))
    }

    /// A cluster of this many replicas.
    pub(super) fn cluster(&self, replicas: u16) -> Cluster<'static> {
        Cluster {
            protocol: self.protocol,
            replicas: replicas.into(),
            durability: self.durability,
            params: self.params(),
        }
    }

    /// What so many clients write, measured for so many virtual ms.
    pub(super) fn offers(
        &self,
        spread: Spread,
        clients: usize,
        cores: CorePlan,
        duration_ms: u64,
    ) -> Offers {
        Offers {
            spread,
            clients,
            is_led: self.is_led,
            gateways: self.gateways,
            are_clients_far: !self.is_linked,
            cores: Some(cores),
            lasts_ns: duration_ms * MILLIS,
        }
    }

    fn params(&self) -> BTreeMap<String, String> {
        let params = self.params.iter();
        let owned = params.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }
}
